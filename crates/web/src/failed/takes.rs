//! Failed messages that a person takes. The server claims them, sends them as a file, and removes
//! them only when the person says that the file is there.
//!
//! The server cannot know what became of a download: the browser may cancel or block it, or the
//! disk may be full. So a take keeps its claims until the person answers, as `baton getErrors` does
//! while it prints. Without an answer the server gives the messages back after a stated time. If
//! this process dies, Redis frees its claims like those of any dead process.

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

use super::message::ndjson_line;
use crate::access::secret;
use crate::http::Refusal;

/// How long the server waits for a person's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the claims live unless they are extended.
const CLAIM_TTL: Duration = Duration::from_secs(30);
/// How often a take extends its claims.
const EXTEND_EVERY: Duration = Duration::from_secs(10);
/// At most this many takes wait for an answer at a time.
const MAX_TAKES: usize = 16;

/// All takes that wait for an answer, by name.
pub(super) struct Takes {
    answer_timeout: Duration,
    open: Mutex<HashMap<String, Entry>>,
}

struct Entry {
    open: Arc<OpenTake>,
    keeper: AbortHandle,
}

/// A take that waits for a person's answer.
struct OpenTake {
    /// Locked while the server carries out an answer.
    take: AsyncMutex<Take>,
    count: u64,
    file: String,
    /// Whether the server has sent the whole file at least once.
    sent: AtomicBool,
}

/// A take that has begun, as JSON.
#[derive(Serialize)]
pub(super) struct BegunTake {
    /// Its name; none if there was nothing left to take.
    take: Option<String>,
    /// Messages that it has claimed.
    count: u64,
    /// Chosen messages that are gone, or that another drain or take has claimed.
    missing: u64,
    /// The name of the file.
    file: String,
    /// The server gives the messages back after this many seconds without an answer.
    answer_within_s: u64,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The file is there: the server removes the messages.
    Remove,
    /// The file is not there, or not wanted: the messages stay.
    PutBack,
}

/// What became of the messages of a take, as JSON.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct EndedTake {
    /// Removed for good.
    removed: u64,
    /// In the store as before.
    put_back: u64,
    /// The claim had run out before the answer came: in the store, or taken by another process.
    lost: u64,
}

impl Default for Takes {
    fn default() -> Self {
        Self::new(ANSWER_TIMEOUT)
    }
}

impl Takes {
    /// Takes whose messages return after this time without an answer.
    fn new(answer_timeout: Duration) -> Self {
        Self {
            answer_timeout,
            open: Mutex::default(),
        }
    }

    /// Claims those of the chosen messages that no drain or take has claimed.
    pub(super) async fn begin(
        self: &Arc<Self>,
        inspector: &Inspector,
        chosen: &[FailedId],
    ) -> Result<BegunTake, Refusal> {
        if self.lock().len() >= MAX_TAKES {
            let why = "too many takes wait for an answer: give one, or wait";
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let take = inspector.take(chosen, CLAIM_TTL).await?;
        let count = take.count();
        let mut begun = BegunTake {
            take: None,
            count,
            missing: (chosen.len() as u64).saturating_sub(count),
            file: file_name(SystemTime::now()),
            answer_within_s: self.answer_timeout.as_secs(),
        };
        if count > 0 {
            begun.take = Some(self.insert(take, count, &begun.file));
        }
        Ok(begun)
    }

    fn insert(self: &Arc<Self>, take: Take, count: u64, file: &str) -> String {
        let name = secret();
        let open = Arc::new(OpenTake {
            take: AsyncMutex::new(take),
            count,
            file: file.to_owned(),
            sent: AtomicBool::new(false),
        });
        let end = Instant::now() + self.answer_timeout;
        let keeper = extend_until(end, Arc::downgrade(self), name.clone(), Arc::clone(&open));
        let keeper = tokio::spawn(keeper).abort_handle();
        self.lock().insert(name.clone(), Entry { open, keeper });
        name
    }

    /// The name of a take's file, and its lines, some at a time. The stream fails if a message has
    /// gone, so that the browser notices.
    pub(super) fn file(
        &self,
        name: &str,
    ) -> Option<(String, impl Stream<Item = io::Result<Bytes>> + use<>)> {
        let open = self.find(name)?;
        let file = open.file.clone();
        let lines = stream::try_unfold((open, 0, 0), async |(open, from, sent)| {
            let batch = open.take.lock().await.read(from).await;
            let (batch, next) = batch.map_err(io::Error::other)?;
            let sent = sent + batch.len() as u64;
            let Some(next) = next else {
                if sent < open.count {
                    return Err(io::Error::other("a record has gone"));
                }
                open.sent.store(true, Ordering::Relaxed);
                return Ok(None);
            };
            let mut lines = Vec::new();
            for failed in batch {
                lines.extend(ndjson_line(&failed.message));
            }
            Ok(Some((Bytes::from(lines), (open, next, sent))))
        });
        Some((file, lines))
    }

    /// Carries out an answer. After a refusal the person can answer again, unless the take is
    /// over.
    pub(super) async fn end(&self, name: &str, verdict: Verdict) -> Result<EndedTake, Refusal> {
        let gone = || {
            let why = "this take is over: the messages were removed or put back before";
            Refusal::new(StatusCode::GONE, why)
        };
        let open = self.find(name).ok_or_else(gone)?;
        let take = open.take.lock().await;
        // Another answer may have ended the take meanwhile.
        self.find(name).ok_or_else(gone)?;
        if verdict == Verdict::Remove && !open.sent.load(Ordering::Relaxed) {
            let why = "the file was not sent to its end, so nothing is removed: save it again";
            return Err(Refusal::new(StatusCode::CONFLICT, why));
        }
        let taken = match verdict {
            Verdict::Remove => take.remove().await?,
            Verdict::PutBack => take.give_back().await?,
        };
        let ended = EndedTake {
            removed: taken.removed,
            put_back: taken.put_back,
            lost: taken.lost,
        };
        if let Some(entry) = self.lock().remove(name) {
            entry.keeper.abort();
        }
        Ok(ended)
    }

    fn find(&self, name: &str) -> Option<Arc<OpenTake>> {
        let open = self.lock();
        open.get(name).map(|entry| Arc::clone(&entry.open))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Takes {
    fn drop(&mut self) {
        for entry in self.lock().values() {
            entry.keeper.abort();
        }
    }
}

/// Extends the claims of a take until `end`, then gives its messages back.
async fn extend_until(end: Instant, takes: Weak<Takes>, name: String, open: Arc<OpenTake>) {
    let mut ticks = interval(EXTEND_EVERY);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                // The answer counts the claims that were lost. The next tick repeats a failed call.
                let _: Result<Extend, Error> = open.take.lock().await.extend().await;
            }
            () = sleep_until(end) => break,
        }
    }
    if let Some(takes) = takes.upgrade()
        && takes.end(&name, Verdict::PutBack).await.is_err()
    {
        // Redis is away. The claims run out without this task.
        takes.lock().remove(&name);
    }
}

/// The name of a file. Names sort by time.
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
    use baton::inspect::FailedCursor;
    use baton::{FleetName, Target};
    use baton_protocol::Keys;
    use baton_server::PrivateServer;

    use super::*;

    #[tokio::test]
    async fn without_an_answer_the_messages_return() {
        const TIMEOUT: Duration = Duration::from_secs(30);
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
        let page = inspector
            .failed_messages(FailedCursor::NEWEST, 10)
            .await
            .unwrap();
        let here = page.messages[0].id;
        let gone = "2-0".parse().unwrap();
        let takes = Arc::new(Takes::new(Duration::from_secs(1)));
        let begun = takes.begin(&inspector, &[here, gone]).await.unwrap();
        assert_eq!((begun.count, begun.missing), (1, 1));
        assert_eq!(inspector.failed_count().await.unwrap(), 0, "it is claimed");
        let name = begun.take.unwrap();
        let end = Instant::now() + TIMEOUT;
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
    fn a_file_is_named_after_its_time() {
        let name = file_name(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        assert_eq!(name, "failed-2023-11-14T221320.ndjson");
    }
}
