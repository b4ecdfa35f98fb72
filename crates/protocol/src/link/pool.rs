//! The connections of a process: one pair for each server. The partitions of a fleet that lie on one
//! server share its pair.
//!
//! A pair is first the data connection, which reads the server's `INFO`, then the presence connection,
//! which must reach the same server process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind, Value};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::connect::{Failure, diagnosis, open, unreachable};
use super::locate::{Found, lock};
use super::{Channels, LinkEvent, RingListener};
use crate::Error;
use crate::server_info::ServerInfo;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of an answer. A server that is silent for longer counts as gone: the supervisor replaces
/// the connections, and the outcome of every call that waited is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the failure of one link to connect counts for the others.
const SHARED_FAILURE: Duration = Duration::from_millis(150);

type Events = mpsc::UnboundedSender<LinkEvent>;

/// One connection.
#[derive(Clone)]
pub(super) struct Connection {
    /// A new number for each connection, so that the end of an old one does not take down its
    /// successor.
    pub(super) id: u64,
    pub(super) redis: MultiplexedConnection,
    pub(super) since: Instant,
    is_closed: Arc<AtomicBool>,
}

/// Both connections to a server, and what it said about itself when they were made.
pub(super) struct ServerPair {
    pub(super) data: Connection,
    /// None for a process without presence.
    pub(super) presence: Option<Connection>,
    pub(super) info: Arc<ServerInfo>,
    /// Where that server is.
    pub(super) found: Arc<Found>,
    /// Data calls that wait for their answer.
    pub(super) in_flight: Arc<AtomicUsize>,
    /// The links that use the pair.
    links: Arc<Links>,
    /// Set when a link found that the pair is of no use.
    is_given_up: AtomicBool,
}

/// The links that hear when a connection closes.
#[derive(Default)]
struct Links(Mutex<Vec<Events>>);

impl Links {
    fn add(&self, events: &Events) {
        let mut links = lock(&self.0);
        links.retain(|link| !link.is_closed() && !link.same_channel(events));
        links.push(events.clone());
    }

    fn send(&self, event: impl Fn() -> LinkEvent) {
        // A link may be gone.
        lock(&self.0).retain(|link| link.send(event()).is_ok());
    }
}

impl ServerPair {
    pub(super) fn has(&self, id: u64) -> bool {
        let presence = self.presence.as_ref();
        self.data.id == id || presence.is_some_and(|presence| presence.id == id)
    }

    /// Whether no new link may use the pair.
    fn is_broken(&self) -> bool {
        let is_closed = |connection: &Connection| connection.is_closed.load(Ordering::Acquire);
        self.is_given_up.load(Ordering::Acquire)
            || is_closed(&self.data)
            || self.presence.as_ref().is_some_and(is_closed)
    }

    /// The pair is of no use, for this reason: all its links look for another one.
    pub(super) fn give_up(&self, why: &str) {
        self.is_given_up.store(true, Ordering::Release);
        self.links.send(|| self.broken(why));
    }

    fn broken(&self, why: &str) -> LinkEvent {
        LinkEvent::Broken {
            id: self.data.id,
            why: why.to_owned(),
            idle: false,
        }
    }

    /// The link hears from now on when a connection closes.
    fn add_link(&self, events: &Events) {
        self.links.add(events);
        if self.is_broken() {
            // It closed before the link could hear it.
            let _ = events.send(self.broken("the connection was closed"));
        }
    }
}

/// A place for the pair of one server. The lock is held while one link makes the pair: the others wait.
type Entry = Arc<tokio::sync::Mutex<Place>>;

#[derive(Default)]
struct Place {
    pair: Weak<ServerPair>,
    /// When the last attempt to make a pair failed, and why.
    failed: Option<(Instant, Refusal)>,
}

/// Why no pair could be made. Links share it: a server that refuses is not flooded by each of them.
pub(super) enum Refusal {
    Unavailable(String),
    Refused(String),
}

impl Refusal {
    pub(super) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Unavailable(why) => Some(Self::Unavailable(why.clone())),
            Error::Refused(why) => Some(Self::Refused(why.clone())),
            _ => None,
        }
    }

    pub(super) fn error(&self) -> Error {
        match self {
            Self::Unavailable(why) => Error::Unavailable(why.clone()),
            Self::Refused(why) => Error::Refused(why.clone()),
        }
    }
}

/// Whether a presence connection hears rings. One that is replaced lives on while a call waits on it, and the
/// server publishes to both: only the newest may hear, else two lanes would get the same messages.
type Ear = Arc<AtomicBool>;

/// The ring channel of a presence connection.
struct RingChannel {
    name: String,
    /// The server process.
    run_id: String,
    ear: Ear,
}

/// The pairs of a process.
pub(super) struct Pool {
    /// None for a process without presence.
    pub(super) channels: Option<Channels>,
    /// Notified when another node calls this process to beat at once.
    pub(super) beat_call: Arc<Notify>,
    /// Gets what servers publish on the process's own ring channel.
    pub(super) rings: RingListener,
    /// Which presence connection hears the rings of a server process, by run id.
    ears: Mutex<HashMap<String, Ear>>,
    /// By address.
    pairs: Mutex<HashMap<String, Entry>>,
    last_id: AtomicU64,
    /// Whether several links use these pairs.
    is_shared: AtomicBool,
    /// Whether an attempt that fails for no clear reason finds out why, which takes a while. The first
    /// one after a success does not: a failover closes connections, and the next attempt must be soon.
    diagnoses: AtomicBool,
}

impl Pool {
    pub(super) fn new(channels: Option<Channels>) -> Self {
        Self {
            channels,
            beat_call: Arc::new(Notify::new()),
            rings: RingListener::default(),
            ears: Mutex::default(),
            pairs: Mutex::default(),
            last_id: AtomicU64::new(0),
            is_shared: AtomicBool::new(false),
            diagnoses: AtomicBool::new(true),
        }
    }

    /// Several links use these pairs from now on.
    pub(super) fn share(&self) {
        self.is_shared.store(true, Ordering::Relaxed);
    }

    fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// The pair of this server, for a link that hears its events. `check` says whether the server is
    /// the one that the link needs.
    pub(super) async fn pair(
        &self,
        found: Found,
        events: &Events,
        check: impl Fn(&Found, &ServerInfo) -> Result<(), Error>,
    ) -> Result<Arc<ServerPair>, Error> {
        let entry = self.entry(&found);
        let mut entry = entry.lock().await;
        let failed = entry.failed.as_ref();
        let failed = failed.filter(|(at, _)| self.is_shared() && at.elapsed() < SHARED_FAILURE);
        if let Some((_, why)) = failed {
            return Err(why.error());
        }
        let pair = match entry.pair.upgrade().filter(|pair| !pair.is_broken()) {
            Some(pair) => {
                check(&found, &pair.info)?;
                pair
            }
            None => {
                let made = self.make(found, check).await;
                let why = made.as_ref().err().and_then(Refusal::of);
                entry.failed = why.map(|why| (Instant::now(), why));
                let pair = Arc::new(made?);
                entry.pair = Arc::downgrade(&pair);
                pair
            }
        };
        pair.add_link(events);
        Ok(pair)
    }

    /// The pair with a new data connection, which must reach the same server process. The first link that
    /// asks makes it.
    pub(super) async fn renew(
        &self,
        old: &Arc<ServerPair>,
        events: &Events,
    ) -> Result<Arc<ServerPair>, Error> {
        let entry = self.entry(&old.found);
        let mut entry = entry.lock().await;
        let newer = entry
            .pair
            .upgrade()
            .filter(|pair| !Arc::ptr_eq(pair, old) && !pair.is_broken());
        let pair = match newer {
            Some(pair) => pair,
            None => {
                let (in_flight, links) = (Arc::clone(&old.in_flight), Arc::clone(&old.links));
                let mut data = self
                    .connection(&old.found, &in_flight, &links, None)
                    .await?;
                let info = ServerInfo::parse(&info(&mut data.redis).await?);
                check_same_process(&old.info.run_id, &info.run_id)?;
                let pair = Arc::new(ServerPair {
                    data,
                    presence: old.presence.clone(),
                    info: Arc::clone(&old.info),
                    found: Arc::clone(&old.found),
                    in_flight,
                    links,
                    is_given_up: AtomicBool::new(false),
                });
                entry.pair = Arc::downgrade(&pair);
                pair
            }
        };
        check_same_process(&old.info.run_id, &pair.info.run_id)?;
        pair.add_link(events);
        Ok(pair)
    }

    fn entry(&self, found: &Found) -> Entry {
        let address = found.client.get_connection_info().addr().to_string();
        Arc::clone(lock(&self.pairs).entry(address).or_default())
    }

    async fn make(
        &self,
        found: Found,
        check: impl Fn(&Found, &ServerInfo) -> Result<(), Error>,
    ) -> Result<ServerPair, Error> {
        let (in_flight, links) = (Arc::default(), Arc::default());
        let mut data = self.connection(&found, &in_flight, &links, None).await?;
        let server = ServerInfo::parse(&info(&mut data.redis).await?);
        check(&found, &server)?;
        if server.loading {
            let why = "the server is still loading its data".to_owned();
            return Err(Error::Unavailable(why));
        }
        let presence = match &self.channels {
            None => None,
            Some(channels) => {
                let presence = self.subscribed(&found, &in_flight, &links, channels, &server);
                Some(presence.await?)
            }
        };
        Ok(ServerPair {
            data,
            presence,
            info: Arc::new(server),
            found: Arc::new(found),
            in_flight,
            links,
            is_given_up: AtomicBool::new(false),
        })
    }

    /// The presence connection: its subscription says that this process lives. Scripts believe a
    /// node's absence only within one run id of the server, so both connections must reach the
    /// same server process.
    async fn subscribed(
        &self,
        found: &Found,
        in_flight: &Arc<AtomicUsize>,
        links: &Arc<Links>,
        channels: &Channels,
        server: &ServerInfo,
    ) -> Result<Connection, Error> {
        let (ring, run_id) = (channels.ring(&server.run_id), &server.run_id);
        let ear = Ear::default();
        let heard = RingChannel {
            name: ring.clone(),
            run_id: run_id.clone(),
            ear: Arc::clone(&ear),
        };
        let connection = self.connection(found, in_flight, links, Some(heard));
        let mut connection = connection.await?;
        let reached = ServerInfo::parse(&info(&mut connection.redis).await?);
        check_same_process(run_id, &reached.run_id)?;
        // What the older connection has heard until here, the new one will not be sent.
        let older = self.only_hears(run_id, ear);
        let names = [&channels.presence, &channels.call, &ring];
        if let Err(error) = connection.redis.subscribe(&names[..]).await {
            older.and_then(|older| self.only_hears(run_id, older));
            return Err(unreachable(error));
        }
        Ok(connection)
    }

    /// From now on this ear hears the rings of a server process, and no older one does. What is lost between
    /// two connections is given back when the link is up again. Returns the older one.
    fn only_hears(&self, run_id: &str, ear: Ear) -> Option<Ear> {
        let mut ears = lock(&self.ears);
        // Of a connection that is gone, only this map has the ear.
        ears.retain(|_, ear| Arc::strong_count(ear) > 1);
        ear.store(true, Ordering::Release);
        let older = ears.insert(run_id.to_owned(), ear)?;
        older.store(false, Ordering::Release);
        Some(older)
    }

    async fn connection(
        &self,
        found: &Found,
        in_flight: &Arc<AtomicUsize>,
        links: &Arc<Links>,
        ring: Option<RingChannel>,
    ) -> Result<Connection, Error> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let is_closed: Arc<AtomicBool> = Arc::default();
        let (beat_call, rings) = (Arc::clone(&self.beat_call), self.rings.clone());
        let (in_flight, links) = (Arc::clone(in_flight), Arc::clone(links));
        let closed = Arc::clone(&is_closed);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(move |push: PushInfo| -> Result<(), &'static str> {
                match push.kind {
                    PushKind::Disconnection => {
                        closed.store(true, Ordering::Release);
                        let idle = in_flight.load(Ordering::Relaxed) == 0;
                        links.send(|| LinkEvent::Broken {
                            id,
                            why: "the connection was closed".to_owned(),
                            idle,
                        });
                    }
                    PushKind::Message => match (&ring, <[Value; 2]>::try_from(push.data)) {
                        (Some(ring), Ok([Value::BulkString(channel), Value::BulkString(text)]))
                            if ring.name.as_bytes() == channel =>
                        {
                            if ring.ear.load(Ordering::Acquire) {
                                rings.hear(&ring.run_id, &text);
                            }
                        }
                        _ => beat_call.notify_one(),
                    },
                    _ => {}
                }
                Ok(())
            });
        let opened = open(&found.client, &config).await;
        let redis = match opened {
            Ok(redis) => redis,
            Err(Failure { error, is_unclear }) => {
                let diagnoses = self.diagnoses.swap(is_unclear, Ordering::Relaxed);
                return Err(match diagnoses && is_unclear {
                    true => diagnosis(&found.client).await.unwrap_or(error),
                    false => error,
                });
            }
        };
        self.diagnoses.store(false, Ordering::Relaxed);
        Ok(Connection {
            id,
            redis,
            since: Instant::now(),
            is_closed,
        })
    }
}

/// A connection for calls that block on the server for up to `max_wait`.
pub(super) async fn blocking(
    client: &redis::Client,
    max_wait: Duration,
) -> Result<MultiplexedConnection, Error> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(Some(max_wait + ANSWER_TIMEOUT));
    let opened = open(client, &config).await;
    opened.map_err(|failure| failure.error)
}

fn check_same_process(run_id: &str, other: &str) -> Result<(), Error> {
    match run_id == other {
        true => Ok(()),
        false => Err(Error::Unavailable(
            "two connections reached servers with different run ids".to_owned(),
        )),
    }
}

/// The text of `INFO`.
async fn info(redis: &mut MultiplexedConnection) -> Result<String, Error> {
    let info = redis::cmd("INFO");
    info.query_async(redis).await.map_err(unreachable)
}

#[cfg(test)]
mod tests {
    use baton_server::PrivateServer;

    use super::*;
    use crate::Target;
    use crate::link::locate::Locator;

    #[tokio::test]
    async fn a_ring_is_heard_once_while_the_connection_before_lives_on() {
        let server = PrivateServer::builder().unix_socket().start().unwrap();
        let target = Target::parse(&server.url()).unwrap();
        let locator = Locator::new(&target, 0, Arc::default()).unwrap();
        let channels = Channels {
            presence: "presence:n".to_owned(),
            call: "call:n".to_owned(),
        };
        let pool = Pool::new(Some(channels));
        let (heard, mut rings) = mpsc::unbounded_channel();
        pool.rings
            .listen(move |_, text| drop(heard.send(text.to_vec())));
        let (events, _link) = mpsc::unbounded_channel();
        let pair = async || {
            let found = locator.locate().await.unwrap();
            let pair = pool.pair(found, &events, |_, _| Ok(())).await;
            pair.map_err(|error| error.to_string()).unwrap()
        };

        // As while a call still waits for its answer on the first pair.
        let first = pair().await;
        first.give_up("for the test");
        let second = pair().await;
        let ring = format!("presence:n@{}", second.info.run_id);
        let mut redis = second.data.redis.clone();
        for text in ["one", "two"] {
            let mut publish = redis::cmd("PUBLISH");
            let publish = publish.arg(&ring).arg(text);
            let reached: u64 = publish.query_async(&mut redis).await.unwrap();
            assert_eq!(reached, 2, "both connections are subscribed");
        }
        for text in ["one", "two"] {
            assert_eq!(rings.recv().await.as_deref(), Some(text.as_bytes()));
        }
        // An answer on the first presence connection comes behind all that was published there.
        let mut presence = first.presence.as_ref().unwrap().redis.clone();
        let _: String = redis::cmd("PING").query_async(&mut presence).await.unwrap();
        assert_eq!(rings.try_recv().ok(), None);
    }
}
