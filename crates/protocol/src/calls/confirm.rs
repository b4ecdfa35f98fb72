//! Confirming: the answer to a call counts only when the server's writes up to it are as durable as the
//! node asks.
//!
//! A [`Confirmer`] owns one more connection. With [`Durability::Replicas`] it writes a tiny key and sends
//! `WAIT`: when enough replicas have that write, they have all that the server acknowledged before it.
//! So one round trip confirms the calls of all lanes.
//!
//! # Eras
//!
//! A confirmation says nothing about an acknowledgement of another server, nor about one that this
//! server gave before it was a replica for a while: it may have lost the write meanwhile. So the time is
//! divided into *eras*: one connection of the confirmer, to the server process of the link, under one
//! replication id. A caller notes the era before it sends its call. If that era is over before the
//! confirmation comes, the caller gets [`Error::Unconfirmed`], and repeats the call: its answer says
//! whether the write is still there.
//!
//! Fewer replicas than asked, or a server that does not sync its file: then no call is confirmed. The
//! callers wait and repeat, so nothing more is published or claimed than is under way.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::decode;
use crate::link::{AbortOnDrop, BlockingConnection, Link};
use crate::server_info::ServerInfo;
use crate::{Backoff, Durability, Error};

/// How long a caller waits for its confirmation before it repeats its call.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long one `WAIT` blocks on the server.
const WAIT_MS: u64 = 500;
/// How often the confirmer looks whether the server still syncs its file.
const CHECK_FSYNC_EVERY: Duration = Duration::from_secs(1);
/// How often an idle confirmer asks whether a trouble is over.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Pauses before the confirmer connects again: the first, and the longest.
const CONNECT_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// The tiny key goes away some time after the last node that asks for replicas.
const KEY_TTL_S: u64 = 3600;

/// The era in which a call is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Era(u64);

/// Confirms the calls of one node.
pub(super) struct Confirmer {
    shared: Arc<Shared>,
    _task: AbortOnDrop,
}

struct Shared {
    level: Durability,
    era: AtomicU64,
    waiting: Mutex<VecDeque<Waiting>>,
    wake: Notify,
    /// Why nothing is confirmed; none while it is.
    trouble: watch::Sender<Option<String>>,
    /// Whether callers wait no more while there is a trouble.
    gives_up: watch::Sender<bool>,
}

/// A caller that waits.
struct Waiting {
    era: Era,
    /// Dropped if the era is over.
    confirmed: oneshot::Sender<()>,
}

impl Confirmer {
    /// Starts to confirm. None if the level needs no confirmation. `key` is the tiny key.
    pub(super) fn start(link: Link, key: String, level: Durability) -> Option<Self> {
        if level == Durability::None {
            return None;
        }
        let shared = Arc::new(Shared {
            level,
            era: AtomicU64::new(0),
            waiting: Mutex::default(),
            wake: Notify::new(),
            trouble: watch::Sender::new(None),
            gives_up: watch::Sender::new(false),
        });
        let task = tokio::spawn(run(link, key, Arc::clone(&shared)));
        Some(Self {
            shared,
            _task: AbortOnDrop(task.abort_handle()),
        })
    }

    /// Waits for the first era, in vain if the server cannot be asked.
    pub(super) async fn first_era(&self) -> Era {
        let begins = async {
            let mut trouble = self.trouble();
            while self.era() == Era(0) && trouble.borrow_and_update().is_none() {
                let _ = tokio::time::timeout(CONNECT_PAUSE.0, trouble.changed()).await;
            }
        };
        let _ = tokio::time::timeout(CONFIRM_TIMEOUT, begins).await;
        self.era()
    }

    /// The era of a call that is sent now.
    pub(super) fn era(&self) -> Era {
        Era(self.shared.era.load(Ordering::Acquire))
    }

    /// Waits until what the server acknowledged in this era is as durable as asked.
    pub(super) async fn confirm(&self, era: Era) -> Result<(), Error> {
        let (confirmed, answer) = oneshot::channel();
        self.shared.queue().push_back(Waiting { era, confirmed });
        self.shared.wake.notify_one();
        let answer = tokio::time::timeout(CONFIRM_TIMEOUT, answer);
        let why = tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(_)) => "the server changed before the write was confirmed",
                Err(_) => "no confirmation came in time",
            },
            () = self.shared.given_up() => "the node waits no longer",
        };
        let trouble = self.shared.trouble.borrow().clone();
        let why = trouble.unwrap_or_else(|| why.to_owned());
        Err(Error::Unconfirmed(why))
    }

    /// From now on no caller waits for a confirmation that a trouble keeps from coming.
    pub(super) fn give_up(&self) {
        self.shared.gives_up.send_replace(true);
    }

    /// Why nothing is confirmed; none while it is.
    pub(super) fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.shared.trouble.subscribe()
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_trouble(&self, reason: Option<String>) {
        self.trouble
            .send_if_modified(|before| std::mem::replace(before, reason.clone()) != reason);
    }

    /// Resolves when callers wait no more.
    async fn given_up(&self) {
        // The senders live as long as `self`.
        let _ = self
            .gives_up
            .subscribe()
            .wait_for(|gives_up| *gives_up)
            .await;
        let _ = self.trouble.subscribe().wait_for(Option::is_some).await;
    }

    /// Ends the era. Callers that noted it get no confirmation.
    fn begin_era(&self) -> Era {
        Era(self.era.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// The callers that wait and noted this era. Those of an earlier one wait in vain.
    fn take(&self, era: Era) -> VecDeque<Waiting> {
        let mut waiting = std::mem::take(&mut *self.queue());
        waiting.retain(|caller| caller.era == era && !caller.confirmed.is_closed());
        waiting
    }

    fn put_back(&self, mut waiting: VecDeque<Waiting>) {
        let mut queue = self.queue();
        waiting.append(&mut queue);
        *queue = waiting;
    }
}

async fn run(link: Link, key: String, shared: Arc<Shared>) {
    let mut backoff = Backoff::new(CONNECT_PAUSE.0, CONNECT_PAUSE.1);
    loop {
        link.wait_up().await;
        match Session::open(&link, &key, shared.level).await {
            Ok(session) => {
                // A server that refuses is not flooded.
                if confirm_era(session, &link, &shared).await.is_ok() {
                    backoff.reset();
                }
            }
            Err(error) => shared.set_trouble(Some(error.to_string())),
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// Confirms until the server changes or does not answer.
async fn confirm_era(mut session: Session, link: &Link, shared: &Shared) -> Result<(), Error> {
    let era = shared.begin_era();
    // Whatever ended the era before is over.
    shared.set_trouble(None);
    loop {
        let waiting = shared.take(era);
        if waiting.is_empty() {
            // A server that changes meanwhile is noticed with the next confirmation. An idle node whose
            // last call was not confirmed asks by itself whether it would be now.
            let asks = match shared.trouble.borrow().is_some() {
                true => PROBE_EVERY,
                false => Duration::MAX,
            };
            if tokio::time::timeout(asks, shared.wake.notified())
                .await
                .is_ok()
            {
                continue;
            }
        }
        let confirmed = session.confirm().await.inspect_err(|error| {
            // The callers hear it.
            shared.set_trouble(Some(error.to_string()));
        });
        match confirmed? {
            // The link still leads to the server of this era, so these calls went there.
            Confirmed::Yes if link.leads_to(&session.server) => {
                shared.set_trouble(None);
                for caller in waiting {
                    let _ = caller.confirmed.send(());
                }
            }
            Confirmed::Yes | Confirmed::Moved => return Ok(()),
            Confirmed::No(reason) => {
                shared.set_trouble(Some(reason));
                shared.put_back(waiting);
            }
        }
    }
}

/// What one round of the confirmer found.
enum Confirmed {
    /// All that was acknowledged before is as durable as asked.
    Yes,
    /// It is not, for this reason.
    No(String),
    /// This server is not what it was when the era began.
    Moved,
}

/// One era: a connection to one server process under one replication id.
struct Session {
    connection: BlockingConnection,
    server: Arc<ServerInfo>,
    replication_id: String,
    level: Level,
}

enum Level {
    Replicas {
        count: NonZeroU32,
        round: redis::Pipeline,
    },
    /// When the confirmer last saw that the server syncs its file.
    Fsync(Option<Instant>),
}

impl Session {
    async fn open(link: &Link, key: &str, level: Durability) -> Result<Self, Error> {
        let max_wait = Duration::from_millis(WAIT_MS);
        let mut connection = link.open_blocking(max_wait).await?;
        let mut info = redis::pipe();
        info.cmd("INFO");
        let answers = connection.send(&info).await?;
        let server = decode::info(answers.first().unwrap_or(&Value::Nil))?;
        if server.run_id != connection.server.run_id {
            link.replace(&connection.server);
            return Err(Error::Unavailable(
                "the connections reached different servers".to_owned(),
            ));
        }
        Ok(Self {
            server: Arc::clone(&connection.server),
            connection,
            replication_id: server.replication_id,
            level: match level {
                Durability::Replicas(count) => Level::Replicas {
                    count,
                    round: round(key, count),
                },
                _ => Level::Fsync(None),
            },
        })
    }

    async fn confirm(&mut self) -> Result<Confirmed, Error> {
        match &mut self.level {
            Level::Replicas { count, round } => {
                let answers = self.connection.send(round).await?;
                replicated(&answers, count.get(), &self.replication_id)
            }
            Level::Fsync(Some(at)) if at.elapsed() < CHECK_FSYNC_EVERY => Ok(Confirmed::Yes),
            Level::Fsync(checked) => {
                let mut settings = redis::pipe();
                settings.cmd("INFO");
                settings.cmd("CONFIG").arg("GET").arg("appendfsync");
                let answers = self.connection.send(&settings).await?;
                let synced = synced(&answers, &self.replication_id)?;
                *checked = matches!(synced, Confirmed::Yes).then(Instant::now);
                if let Confirmed::No(_) = synced {
                    tokio::time::sleep(CHECK_FSYNC_EVERY / 5).await;
                }
                Ok(synced)
            }
        }
    }
}

/// A tiny write, and the wait for replicas to have it. A server whose memory is full refuses the first
/// command and takes the second, if the key is there.
fn round(key: &str, count: NonZeroU32) -> redis::Pipeline {
    let mut round = redis::pipe();
    round.cmd("SET").arg(key).arg("").arg("EX").arg(KEY_TTL_S);
    round.cmd("EXPIRE").arg(key).arg(KEY_TTL_S);
    round.cmd("WAIT").arg(count.get()).arg(WAIT_MS);
    round.cmd("INFO").arg("replication");
    round
}

/// Reads the answers to a round.
fn replicated(answers: &[Value], count: u32, replication_id: &str) -> Result<Confirmed, Error> {
    let [set, expire, wait, info] = answers else {
        return Err(super::answer::unexpected("WAIT", answers));
    };
    let is_written = *set == Value::Okay || *expire == Value::Int(1);
    if !is_written {
        set.clone()
            .extract_error()
            .map_err(crate::error::classify)?;
    }
    let server = decode::info(info)?;
    if !is_written || server.is_replica || server.replication_id != replication_id {
        return Ok(Confirmed::Moved);
    }
    let wait = wait.clone().extract_error();
    match wait.map_err(crate::error::classify)? {
        Value::Int(have) if have >= i64::from(count) => Ok(Confirmed::Yes),
        Value::Int(_) if count == 1 => {
            Ok(Confirmed::No("no replica has the last writes".to_owned()))
        }
        Value::Int(have) => Ok(Confirmed::No(format!(
            "{have} of {count} replicas have the last writes"
        ))),
        other => Err(super::answer::unexpected("WAIT", &other)),
    }
}

/// Reads the settings of a server that must sync its file before it answers.
fn synced(answers: &[Value], replication_id: &str) -> Result<Confirmed, Error> {
    let [info, config] = answers else {
        return Err(super::answer::unexpected("CONFIG", answers));
    };
    let server = decode::info(info)?;
    if server.is_replica || server.replication_id != replication_id {
        return Ok(Confirmed::Moved);
    }
    if !server.aof {
        return Ok(Confirmed::No("appendonly is off at the server".to_owned()));
    }
    Ok(match decode::setting(config).as_deref() {
        Some("always") => Confirmed::Yes,
        Some(policy) => Confirmed::No(format!("appendfsync is {policy} at the server, not always")),
        None => Confirmed::No(
            "the server does not say what appendfsync is: its user needs the right to run CONFIG GET"
                .to_owned(),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers to a round: of the writes, of `WAIT`, and who the server is.
    fn round_of(have: i64, role: &str, id: &str) -> [Value; 4] {
        let info = format!("role:{role}\r\nmaster_replid:{id}\r\n");
        [
            Value::Okay,
            Value::Int(1),
            Value::Int(have),
            Value::BulkString(info.into_bytes()),
        ]
    }

    #[test]
    fn only_the_master_of_this_era_confirms_and_only_with_enough_replicas() {
        let confirmed = |answers: [Value; 4]| replicated(&answers, 2, "era").unwrap();
        assert!(matches!(
            confirmed(round_of(2, "master", "era")),
            Confirmed::Yes
        ));
        assert!(matches!(
            confirmed(round_of(3, "master", "era")),
            Confirmed::Yes
        ));
        let short = confirmed(round_of(1, "master", "era"));
        assert!(matches!(short, Confirmed::No(reason) if reason.starts_with("1 of 2")));
        assert!(matches!(
            confirmed(round_of(2, "master", "other")),
            Confirmed::Moved
        ));
        assert!(matches!(
            confirmed(round_of(2, "slave", "era")),
            Confirmed::Moved
        ));
    }

    #[test]
    fn a_round_without_a_write_confirms_nothing() {
        let [_, _, wait, info] = round_of(2, "master", "era");
        let answers = [Value::Nil, Value::Int(0), wait, info];
        let moved = replicated(&answers, 2, "era").unwrap();
        assert!(matches!(moved, Confirmed::Moved));
    }
}
