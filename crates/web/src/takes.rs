//! Failed messages that a person takes: claimed, handed out as a file, and removed only when the
//! person says that the file is there.
//!
//! The server cannot know what became of a download: it may be cancelled, blocked, or end at a full
//! disk. So a take holds its records, as `baton getErrors` does while it prints, until an answer
//! comes. Without one they are given back after a stated time. If this process dies, its claims are
//! returned like those of any other dead process.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use axum::body::Bytes;
use axum::http::StatusCode;
use baton::inspect::{Extend, FailedId, Take};
use baton::{Error, Inspector};
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, interval, sleep_until};

use crate::access::secret;
use crate::answer::Refusal;
use crate::record;

/// How long a person may think.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// How long claims outlive the process that holds them, at most.
const CLAIM_TTL: Duration = Duration::from_secs(30);
/// How often claims are extended.
const EXTEND_EVERY: Duration = Duration::from_secs(10);
/// Takes that wait for an answer at a time.
const MAX_TAKES: usize = 16;

/// All takes that wait for an answer.
pub(crate) struct Takes {
    answer_timeout: Duration,
    waiting: Mutex<HashMap<String, Waiting>>,
}

struct Waiting {
    held: Arc<Held>,
    keeper: AbortHandle,
}

/// Records that wait for a person's answer.
struct Held {
    /// Locked while an answer is carried out.
    take: AsyncMutex<Take>,
    count: u64,
    file: String,
    /// Whether the whole file was sent at least once.
    sent: AtomicBool,
}

/// A take that has begun.
#[derive(Serialize)]
pub(crate) struct Begun {
    /// What it is called; none if there was nothing left to take.
    take: Option<String>,
    /// Records that it holds.
    count: u64,
    /// Chosen records that others had first, or hold.
    missing: u64,
    /// What the file is called.
    file: String,
    /// Seconds until the records are given back without an answer.
    answer_within_s: u64,
}

/// What a person says about the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It is there: the records can go.
    Remove,
    /// It is not, or was not wanted: the records stay.
    PutBack,
}

/// What became of a take.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Ended {
    /// Gone for good.
    removed: u64,
    /// In the store as before.
    put_back: u64,
    /// No longer held when the answer came: in the store, or in other hands.
    lost: u64,
}

impl Default for Takes {
    fn default() -> Self {
        Self::new(ANSWER_TIMEOUT)
    }
}

impl Takes {
    /// Takes that are given back after this time without an answer.
    fn new(answer_timeout: Duration) -> Self {
        Self {
            answer_timeout,
            waiting: Mutex::default(),
        }
    }

    /// Claims those of the chosen messages that are there and that no drain has claimed.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        inspector: &Inspector,
        chosen: &[FailedId],
    ) -> Result<Begun, Refusal> {
        if self.lock().len() >= MAX_TAKES {
            let why = "too many takes wait for an answer: give one, or wait";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let take = inspector.take(chosen, CLAIM_TTL).await?;
        let count = take.count();
        let mut begun = Begun {
            take: None,
            count,
            missing: (chosen.len() as u64).saturating_sub(count),
            file: file_name(SystemTime::now()),
            answer_within_s: self.answer_timeout.as_secs(),
        };
        if count > 0 {
            begun.take = Some(self.hold(take, count, &begun.file));
        }
        Ok(begun)
    }

    fn hold(self: &Arc<Self>, take: Take, count: u64, file: &str) -> String {
        let name = secret();
        let held = Arc::new(Held {
            take: AsyncMutex::new(take),
            count,
            file: file.to_owned(),
            sent: AtomicBool::new(false),
        });
        let end = Instant::now() + self.answer_timeout;
        let keeper = keep(Arc::downgrade(self), name.clone(), Arc::clone(&held), end);
        let keeper = tokio::spawn(keeper).abort_handle();
        self.lock().insert(name.clone(), Waiting { held, keeper });
        name
    }

    /// What the file of a take is called, and its lines, some at a time. It breaks off, so that
    /// the browser knows, if a record has gone.
    pub(crate) fn file(
        &self,
        name: &str,
    ) -> Option<(String, impl Stream<Item = io::Result<Bytes>> + use<>)> {
        let held = self.find(name)?;
        let file = held.file.clone();
        let lines = stream::try_unfold((held, 0, 0), async |(held, from, sent)| {
            let some = held.take.lock().await.read(from).await;
            let (failures, next) = some.map_err(io::Error::other)?;
            let sent = sent + failures.len() as u64;
            let Some(next) = next else {
                if sent < held.count {
                    return Err(io::Error::other("a record has gone"));
                }
                held.sent.store(true, Ordering::Relaxed);
                return Ok(None);
            };
            let mut lines = Vec::new();
            for failure in failures {
                lines.extend(record::line(&failure.message));
            }
            Ok(Some((Bytes::from(lines), (held, next, sent))))
        });
        Some((file, lines))
    }

    /// Carries out an answer. After a refusal the take waits on, unless it is not known or was
    /// answered before: the person can answer again.
    pub(crate) async fn end(&self, name: &str, verdict: Verdict) -> Result<Ended, Refusal> {
        let gone = || {
            let why = "this take is over: the messages were removed or put back before";
            Refusal::new(StatusCode::GONE, why)
        };
        let held = self.find(name).ok_or_else(gone)?;
        let take = held.take.lock().await;
        // Another answer may have come first.
        self.find(name).ok_or_else(gone)?;
        if verdict == Verdict::Remove && !held.sent.load(Ordering::Relaxed) {
            let why = "the file was not sent to its end, so nothing is removed: save it again";
            return Err(Refusal::new(StatusCode::CONFLICT, why));
        }
        let taken = match verdict {
            Verdict::Remove => take.remove().await?,
            Verdict::PutBack => take.give_back().await?,
        };
        let ended = Ended {
            removed: taken.removed,
            put_back: taken.put_back,
            lost: taken.lost,
        };
        if let Some(waiting) = self.lock().remove(name) {
            waiting.keeper.abort();
        }
        Ok(ended)
    }

    fn find(&self, name: &str) -> Option<Arc<Held>> {
        let waiting = self.lock();
        waiting.get(name).map(|waiting| Arc::clone(&waiting.held))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Takes {
    fn drop(&mut self) {
        for waiting in self.lock().values() {
            waiting.keeper.abort();
        }
    }
}

/// Extends a take's claims until its time is over, then gives the records back.
async fn keep(takes: Weak<Takes>, name: String, held: Arc<Held>, end: Instant) {
    let mut ticks = interval(EXTEND_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                // What was lost is counted when the answer comes; a transient error is none.
                let _: Result<Extend, Error> = held.take.lock().await.extend().await;
            }
            () = sleep_until(end) => break,
        }
    }
    if let Some(takes) = takes.upgrade()
        && takes.end(&name, Verdict::PutBack).await.is_err()
    {
        // Redis is away. Without this task the claims run out by themselves.
        takes.lock().remove(&name);
    }
}

/// A file's name that sorts by time.
fn file_name(now: SystemTime) -> String {
    let since = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let moment = baton_protocol::text::moment(since.as_millis() as u64).unwrap_or_default();
    let moment: String = moment.chars().take(19).filter(|c| *c != ':').collect();
    format!("failed-{moment}.ndjson")
}

#[cfg(test)]
mod tests {
    use baton::{FleetName, Target};
    use baton_protocol::Keys;
    use baton_server::PrivateServer;

    use super::*;

    #[tokio::test]
    async fn without_an_answer_the_records_return() {
        const PATIENCE: Duration = Duration::from_secs(30);
        let server = PrivateServer::builder().start().unwrap();
        let fleet = FleetName::new("quiet").unwrap();
        let keys = Keys::new(&fleet);
        let client = redis::Client::open(server.url()).unwrap();
        redis::pipe()
            .hset(&keys.errors, 1, "record")
            .hset(&keys.errors_ids, "last", 1)
            .exec(&mut client.get_connection().unwrap())
            .unwrap();
        let target = Target::parse(&server.url()).unwrap();
        let inspector = Inspector::connect(&target, &fleet).await.unwrap();
        let page = inspector.failed_messages(None, 10).await.unwrap();
        let here = page.messages[0].id;
        let gone = "2-0".parse().unwrap();
        let takes = Arc::new(Takes::new(Duration::from_secs(1)));
        let begun = takes.begin(&inspector, &[here, gone]).await.unwrap();
        assert_eq!((begun.count, begun.missing), (1, 1));
        assert_eq!(inspector.failed_count().await.unwrap(), 0, "it is held");
        let name = begun.take.unwrap();
        let end = Instant::now() + PATIENCE;
        while takes.file(&name).is_some() {
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(inspector.failed_count().await.unwrap(), 1);
        let late = takes.end(&name, Verdict::Remove).await.unwrap_err();
        assert_eq!(late.0, StatusCode::GONE);
        assert_eq!(inspector.failed_count().await.unwrap(), 1);
    }

    #[test]
    fn a_file_is_called_after_its_time() {
        let name = file_name(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        assert_eq!(name, "failed-2023-11-14T221320.ndjson");
    }
}
