//! The owner of the connections to Redis, but for one: `calls/confirm.rs` owns the connection that waits
//! for replicas.
//!
//! A [`Link`] leads to the server of one partition, and keeps two connections there alive. Links to the
//! same server share them (see [`pool`]). The *presence* connection carries the subscription
//! that tells other nodes that this process lives (the kernel closes it when the process dies). It
//! also carries the beats, which prove regularly that it works. The *data* connection carries
//! everything else. Two connections, because a server closes a subscribed connection when more
//! than 32 MB of answers wait on it (its setting `client-output-buffer-limit pubsub`), and answers
//! to data calls may be larger.
//!
//! The link is up while both connections are. When either breaks, the [`supervisor`] replaces both.
//! The link never retries a call: after a lost answer the outcome is unknown, and only the caller
//! knows the ids with which the call is idempotent.

mod backoff;
mod certificate;
mod cluster;
mod connect;
mod greeting;
mod locate;
mod logged_reasons;
mod masters;
mod pool;
mod sentinel;
mod supervisor;
mod tls_mismatch;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ConnectionAddr, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::calls::answer::unexpected;
use crate::error::{classify, plain};
use crate::server_info::ServerInfo;
use crate::slot::slot;
use crate::{Error, Target};
pub use backoff::Backoff;
use cluster::Slots;
use connect::Connector;
use locate::Locator;
pub use logged_reasons::LoggedReasons;
pub use masters::{Master, masters};
use pool::{Pool, ServerPair};
pub use sentinel::{SentinelReport, SentinelView};
use supervisor::Supervisor;

/// What happened to the connections, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// This process cannot use Redis, for this reason. Each reason is reported once.
    Lost(String),
    /// It can use Redis again.
    Regained,
}

/// What a presence connection subscribes to, beside the ring channel.
pub(crate) struct Channels {
    /// The subscription itself says that this process lives. Nothing is published here.
    pub(crate) presence: String,
    /// On this channel another node calls this process to beat at once.
    pub(crate) call: String,
}

impl Channels {
    /// On this channel the server process with this run id says that messages wait in a partition. A
    /// cluster spreads what is published over all its servers; no other one has this name.
    fn ring(&self, run_id: &str) -> String {
        format!("{}@{run_id}", self.presence)
    }
}

/// Hears what servers publish on the ring channel of this process, once it listens: before, it has no lanes.
/// The connection calls the listener itself, because another task would take up the message later.
#[derive(Clone, Default)]
pub(crate) struct RingListener(Arc<OnceLock<Box<Heard>>>);

/// Gets the run id of a server process, and what it published.
type Heard = dyn Fn(&str, &[u8]) + Send + Sync;

impl RingListener {
    /// Listens from now on, if the process does not listen yet.
    pub(crate) fn listen(&self, heard: impl Fn(&str, &[u8]) + Send + Sync + 'static) {
        let heard: Box<Heard> = Box::new(heard);
        let _ = self.0.set(heard);
    }

    fn hear(&self, run_id: &str, text: &[u8]) {
        if let Some(heard) = self.0.get() {
            heard(run_id, text);
        }
    }
}

/// Which of the two connections carries a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ConnectionKind {
    /// Everything but the calls of [`ConnectionKind::Presence`].
    Data,
    /// Small calls about this process's own presence: beat and leave.
    Presence,
}

/// The connections of a link, as long as it uses them.
#[derive(Clone)]
struct ConnectionPair {
    /// A new number each time that the link connects, so that a late failure does not take down what
    /// came after it.
    number: u64,
    server: Arc<ServerPair>,
    /// Notified when the supervisor gives the pair up: a server that hangs answers to no call on it.
    ended: Arc<Ended>,
    since: Instant,
    /// Calls that have succeeded on either connection.
    answered: Arc<AtomicU64>,
}

impl ConnectionPair {
    fn new(number: u64, server: Arc<ServerPair>) -> Self {
        Self {
            number,
            server,
            ended: Arc::default(),
            since: Instant::now(),
            answered: Arc::default(),
        }
    }
}

/// Whether a pair of connections is given up.
#[derive(Default)]
struct Ended {
    is_over: AtomicBool,
    notify: Notify,
}

impl Ended {
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    async fn wait(&self) {
        let notified = self.notify.notified();
        if !self.is_over.load(Ordering::Acquire) {
            notified.await;
        }
    }
}

#[derive(Clone)]
enum State {
    Up(Arc<ConnectionPair>),
    /// Why there is no connection.
    Down(Arc<str>),
}

/// What happens to the connections, for the supervisor.
enum LinkEvent {
    /// A connection broke.
    Broken {
        id: u64,
        why: String,
        /// Whether no data call waited for its answer.
        idle: bool,
    },
    /// The link's slot is not at this server any more, by the answer to a call on the pair with this number.
    Moved { number: u64, why: String },
    /// The server did not execute a call about this process's presence, for this reason.
    Rejecting(String),
    /// The server executes such calls again.
    Accepting,
}

struct Shared {
    connector: Connector,
    state: watch::Sender<State>,
    /// Whether the server did not execute the last call about this process's presence.
    rejecting: AtomicBool,
}

/// The servers of a target, and this process's connections to them. The links of a process share them.
#[derive(Clone)]
pub(crate) struct Servers {
    target: Target,
    pool: Arc<Pool>,
    slots: Arc<Slots>,
}

impl Servers {
    /// Connects to nothing yet. Without channels the process has no presence, which is enough to read.
    pub(crate) fn new(target: &Target, channels: Option<Channels>) -> Self {
        Self {
            target: target.clone(),
            pool: Arc::new(Pool::new(channels)),
            slots: Arc::default(),
        }
    }

    /// Hears what servers publish on the process's ring channel.
    pub(crate) fn rings(&self) -> RingListener {
        self.pool.rings.clone()
    }

    /// Several links use these connections from now on.
    pub(crate) fn share(&self) {
        self.pool.share();
    }
}

/// How a link begins.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    /// It is up, or it is an error.
    Up,
    /// It may be down, and comes up when it can: other links of the process have work meanwhile.
    UpOrDown,
}

/// What a server of a cluster says of a slot that no server has. Its other slots are served.
const UNSERVED: &str = "slot not served";

/// How long the first attempt of a link may take that may be down at first.
const FIRST_TIMEOUT: Duration = Duration::from_millis(700);

/// Connections that are replaced when they break. Clones share them; dropping the last clone closes
/// them.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    _supervisor: Arc<AbortOnDrop>,
    /// Dropping them ends them.
    _listeners: Arc<Option<JoinSet<()>>>,
}

/// Ends a task when its owner goes.
pub(crate) struct AbortOnDrop(pub(crate) tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// Connects. A link that must be up is an error if the first attempt fails; any other may be down at
    /// first, and comes up when it can. Without channels the link has no presence connection, which is
    /// enough for a process that only reads. `tag` is the hash tag of the link's keys: in a cluster, the
    /// link leads to where their slot is. `observe` is called when the link is lost and regained.
    pub(crate) async fn open(
        servers: &Servers,
        tag: &str,
        start: Start,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        let (events, receiver) = mpsc::unbounded_channel();
        let (slot, slots) = (slot(tag.as_bytes()), Arc::clone(&servers.slots));
        let locator = Arc::new(Locator::new(&servers.target, slot, slots)?);
        let connector = Connector {
            locator: Arc::clone(&locator),
            pool: Arc::clone(&servers.pool),
            events,
        };
        let first = match start {
            Start::Up => Ok(connector.connect().await?),
            Start::UpOrDown => match tokio::time::timeout(FIRST_TIMEOUT, connector.connect()).await
            {
                Ok(Ok(pair)) => Ok(pair),
                Ok(Err(error)) if error.is_transient() => Err(supervisor::reason(error)),
                Ok(Err(error)) => return Err(error),
                Err(_) => Err("no answer yet".to_owned()),
            },
        };
        let first = match first {
            Ok(pair) => State::Up(Arc::new(ConnectionPair::new(0, pair))),
            Err(why) => State::Down(why.into()),
        };
        let shared = Arc::new(Shared {
            connector,
            state: watch::Sender::new(first),
            rejecting: AtomicBool::new(false),
        });
        let supervisor = Supervisor::new(Arc::clone(&shared), receiver, observe);
        Ok(Self {
            shared,
            _supervisor: Arc::new(AbortOnDrop(tokio::spawn(supervisor.run()).abort_handle())),
            _listeners: Arc::new(sentinel::listen(&locator)),
        })
    }

    /// What the server said about itself when the connections were made.
    pub(crate) fn server(&self) -> Option<Arc<ServerInfo>> {
        match &*self.shared.state.borrow() {
            State::Up(pair) => Some(Arc::clone(&pair.server.info)),
            State::Down(_) => None,
        }
    }

    /// Where the server is; none while the link is down.
    fn address(&self) -> Option<ConnectionAddr> {
        match &*self.shared.state.borrow() {
            State::Up(pair) => Some(
                pair.server
                    .found
                    .client
                    .get_connection_info()
                    .addr()
                    .clone(),
            ),
            State::Down(_) => None,
        }
    }

    /// Where the server is, in words; empty while the link is down.
    pub(crate) fn place(&self) -> String {
        self.address()
            .map_or_else(String::new, |address| address.to_string())
    }

    /// When the server's certificate expires; none without TLS.
    pub(crate) async fn certificate_expiry(&self) -> Option<SystemTime> {
        certificate::expiry(&self.address()?).await
    }

    /// What each Sentinel says; none if the target has no Sentinels.
    pub(crate) async fn sentinels(target: &Target) -> Vec<SentinelReport> {
        sentinel::reports(target).await
    }

    /// The server's run id, in the short form that claims carry; empty while the link is down.
    pub(crate) fn run_id(&self) -> String {
        self.server()
            .map(|server| server.run_id.clone())
            .unwrap_or_default()
    }

    /// Whether the link is up, and its connections are those with which the server said this.
    pub(crate) fn leads_to(&self, server: &Arc<ServerInfo>) -> bool {
        matches!(&*self.shared.state.borrow(), State::Up(pair) if Arc::ptr_eq(&pair.server.info, server))
    }

    /// The server is no longer what it said when the connections were made: the supervisor replaces them.
    pub(crate) fn replace(&self, server: &Arc<ServerInfo>) {
        if let State::Up(pair) = &*self.shared.state.borrow()
            && Arc::ptr_eq(&pair.server.info, server)
        {
            pair.server
                .give_up("the server has been a replica in between");
        }
    }

    /// Waits until another node calls this process to beat at once.
    pub(crate) async fn wait_called(&self) {
        self.shared.connector.pool.beat_call.notified().await;
    }

    /// Waits until the link is up.
    pub(crate) async fn wait_up(&self) {
        // An error would mean that the sender is gone, which `self` keeps alive.
        let is_up = |state: &State| matches!(state, State::Up(_));
        let _ = self.shared.state.subscribe().wait_for(is_up).await;
    }

    /// Waits until the link is down.
    pub(crate) async fn wait_down(&self) {
        let is_down = |state: &State| matches!(state, State::Down(_));
        let _ = self.shared.state.subscribe().wait_for(is_down).await;
    }

    /// Waits until the link is up with another pair of connections than the one with this number, which
    /// begins with 1. Returns the number of that pair.
    pub(crate) async fn wait_reconnected(&self, number: u64) -> u64 {
        let is_other =
            |state: &State| matches!(state, State::Up(pair) if pair.number + 1 != number);
        let mut states = self.shared.state.subscribe();
        match states.wait_for(is_other).await.as_deref() {
            Ok(State::Up(pair)) => pair.number + 1,
            // The sender lives as long as `self`.
            _ => 0,
        }
    }

    /// Waits until the link is up at another server process than this one.
    pub(crate) async fn wait_other_run(&self, run_id: &str) {
        let is_other =
            |state: &State| matches!(state, State::Up(pair) if pair.server.info.run_id != run_id);
        let _ = self.shared.state.subscribe().wait_for(is_other).await;
    }

    /// Sends one command over the data connection and waits for its answer.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Error> {
        self.call_on(ConnectionKind::Data, command).await
    }

    /// Sends one command over a connection of this kind and waits for its answer.
    pub(crate) async fn call_on(
        &self,
        kind: ConnectionKind,
        command: &Cmd,
    ) -> Result<Value, Error> {
        let sent = self.send(kind, async |connection| {
            let answer = connection.send_packed_command(command).await;
            answer.and_then(Value::extract_error)
        });
        sent.await
    }

    /// Sends two commands in this order and waits for both answers.
    pub(crate) async fn call_both(
        &self,
        commands: [Cmd; 2],
    ) -> Result<[Result<Value, Error>; 2], Error> {
        let answers = self.call_all(commands).await?;
        <[_; 2]>::try_from(answers).map_err(|answers| unexpected("two calls", &answers))
    }

    /// Sends commands in this order and waits for an answer to each. Concurrent calls of
    /// [`Link::call`] may overtake each other when thousands of lanes wait for the connection.
    pub(crate) async fn call_all(
        &self,
        commands: impl IntoIterator<Item = Cmd>,
    ) -> Result<Vec<Result<Value, Error>>, Error> {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command);
        }
        let sent = self.send(ConnectionKind::Data, async |connection| {
            let count = pipeline.len();
            connection.send_packed_commands(&pipeline, 0, count).await
        });
        let answers = sent.await?.into_iter();
        Ok(answers
            .map(|answer| answer.extract_error().map_err(classify))
            .collect())
    }

    /// Sends something over a connection of this kind. If no answer comes, the supervisor replaces
    /// both connections.
    async fn send<T>(
        &self,
        kind: ConnectionKind,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> redis::RedisResult<T>,
    ) -> Result<T, Error> {
        let state = self.shared.state.borrow().clone();
        let pair = match state {
            State::Up(pair) => pair,
            State::Down(why) => {
                return Err(Error::Unavailable(format!("not connected: {why}")));
            }
        };
        let connection = match kind {
            ConnectionKind::Data => Some(&pair.server.data),
            ConnectionKind::Presence => pair.server.presence.as_ref(),
        };
        let Some(connection) = connection else {
            return Err(Error::Refused(
                "this connection only looks: it has no presence".to_owned(),
            ));
        };
        let sent = {
            let _counted = InFlight::count(kind, &pair.server.in_flight);
            let mut redis = connection.redis.clone();
            tokio::select! {
                biased;
                sent = send(&mut redis) => sent,
                () = pair.ended.wait() => {
                    let lost = std::io::Error::other("the fleet's server has moved");
                    return Err(Error::ReplyLost(lost.into()));
                }
            }
        };
        match sent {
            Ok(answer) => {
                pair.answered.fetch_add(1, Ordering::Relaxed);
                if let ConnectionKind::Presence = kind {
                    self.shared.accepted();
                }
                Ok(answer)
            }
            Err(error) => Err(self.shared.failed(kind, &pair, error)),
        }
    }

    /// Runs commands in one transaction and returns their answers.
    pub(crate) async fn transaction(&self, commands: &[Cmd]) -> Result<Vec<Value>, Error> {
        // Not the client's own transactions: they cannot read the answer to a refused MULTI.
        let mut pipeline = redis::pipe();
        pipeline.cmd("MULTI");
        for command in commands {
            pipeline.add_command(command.clone());
        }
        pipeline.cmd("EXEC");
        let sent = self.send(ConnectionKind::Data, async |connection| {
            let answers = connection.send_packed_commands(&pipeline, 0, commands.len() + 2);
            // If one command fails, the transaction has failed.
            Value::Array(answers.await?).extract_error()
        });
        match sent.await? {
            Value::Array(mut answers) => match answers.pop() {
                Some(Value::Array(answers)) if answers.len() == commands.len() => Ok(answers),
                other => Err(unexpected("EXEC", &other)),
            },
            other => Err(unexpected("EXEC", &other)),
        }
    }

    /// Opens one more connection, for calls that block on the server for up to `max_wait`. The
    /// supervisor does not replace it when it breaks: its owner opens another.
    pub(crate) async fn open_blocking(
        &self,
        max_wait: Duration,
    ) -> Result<BlockingConnection, Error> {
        let state = self.shared.state.borrow().clone();
        match state {
            State::Up(pair) => {
                let redis = pool::blocking(&pair.server.found.client, max_wait).await?;
                Ok(BlockingConnection {
                    redis,
                    server: Arc::clone(&pair.server.info),
                    ended: Arc::clone(&pair.ended),
                })
            }
            State::Down(why) => Err(Error::Unavailable(format!("not connected: {why}"))),
        }
    }
}

/// A connection for calls that block on the server.
pub(crate) struct BlockingConnection {
    redis: MultiplexedConnection,
    /// What the server said when the link's connections were made. This connection is newer: the address
    /// may have another server by now.
    pub(crate) server: Arc<ServerInfo>,
    ended: Arc<Ended>,
}

impl BlockingConnection {
    /// Sends commands and waits for their answers, or until the fleet's server moves.
    pub(crate) async fn send(&mut self, pipeline: &redis::Pipeline) -> Result<Vec<Value>, Error> {
        let answers = self.redis.send_packed_commands(pipeline, 0, pipeline.len());
        tokio::select! {
            biased;
            answers = answers => answers.map_err(classify),
            () = self.ended.wait() => {
                Err(Error::Unavailable("the fleet's server has moved".to_owned()))
            }
        }
    }
}

impl Shared {
    /// Sorts the error of a call, and reports it to the supervisor where that matters.
    fn failed(
        &self,
        kind: ConnectionKind,
        pair: &ConnectionPair,
        error: redis::RedisError,
    ) -> Error {
        let why = plain(&error);
        let is_unserved = error.code() == Some("CLUSTERDOWN") && why.contains(UNSERVED);
        let is_moved = error.code() == Some("MOVED") || is_unserved;
        let is_useless = matches!(error.code(), Some("READONLY" | "CLUSTERDOWN"));
        let error = classify(error);
        let events = &self.connector.events;
        if is_moved {
            // Other slots may still be at this server.
            self.connector.locator.slot_moved();
            let number = pair.number;
            // The supervisor may be gone at the very end of the process.
            let _ = events.send(LinkEvent::Moved { number, why });
        } else if is_useless || matches!(error, Error::ReplyLost(_)) {
            pair.server.give_up(&why);
        } else if let (ConnectionKind::Presence, Error::Unavailable(why)) = (kind, &error) {
            self.rejecting.store(true, Ordering::Relaxed);
            let _ = events.send(LinkEvent::Rejecting(why.clone()));
        }
        error
    }

    /// The server executed a call about this process's presence.
    fn accepted(&self) {
        if self.rejecting.swap(false, Ordering::Relaxed) {
            let _ = self.connector.events.send(LinkEvent::Accepting);
        }
    }
}

/// Counts a data call while it waits for its answer.
struct InFlight<'a>(Option<&'a AtomicUsize>);

impl<'a> InFlight<'a> {
    fn count(kind: ConnectionKind, calls: &'a AtomicUsize) -> Self {
        match kind {
            ConnectionKind::Data => {
                calls.fetch_add(1, Ordering::Relaxed);
                Self(Some(calls))
            }
            ConnectionKind::Presence => Self(None),
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0 {
            calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
