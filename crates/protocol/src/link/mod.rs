//! The one owner of the connections to Redis.
//!
//! A [`Link`] keeps two connections alive. The *presence* connection carries the subscription
//! that tells others that this process lives (the kernel ends it when the process dies), and the
//! beats, which prove regularly that it works. The *data* connection carries everything else: a
//! server cuts a subscribed connection off when answers pile up on it (its setting
//! `client-output-buffer-limit pubsub`, 32 MB by default), and answers of ours may be larger.
//!
//! The link is up while both are; when either breaks, both are replaced ([`supervisor`]). The link
//! never repeats a call by itself: after a lost answer the outcome is unknown, and only the caller
//! knows the ids with which the call is idempotent.

mod backoff;
mod connect;
mod first_words;
mod supervisor;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use crate::calls::answer::unexpected;
use crate::error::{classify, plain};
use crate::server_info::ServerInfo;
use crate::{Error, Target, redis_client};
pub use backoff::{Backoff, LoggedReasons};
use connect::Connector;
use supervisor::Supervisor;

/// What happened to the connections, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// This process cannot use Redis; the reason in words. Each new reason comes once.
    Lost(String),
    /// It can again.
    Regained,
}

/// What a presence connection subscribes to.
pub(crate) struct Channels {
    /// Where the subscription itself says that this process lives. Nothing is published there.
    pub(crate) presence: String,
    /// Where others call this process.
    pub(crate) call: String,
}

/// Over which of its connections a link sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Over {
    /// Everything but the calls of [`Over::Presence`].
    Data,
    /// Small calls about this process's own presence: the beat, and the goodbye.
    Presence,
}

/// One connection.
#[derive(Clone)]
struct Line {
    /// Counts connections, so that the end of an old one does not take down a new one.
    id: u64,
    connection: MultiplexedConnection,
    since: Instant,
}

/// Both connections, and what the server says about itself.
#[derive(Clone)]
struct Up {
    data: Line,
    /// None for a link without presence.
    presence: Option<Line>,
    server: Arc<ServerInfo>,
    since: Instant,
    /// How many calls have succeeded on either.
    answered: Arc<AtomicU64>,
}

impl Up {
    fn has(&self, id: u64) -> bool {
        self.data.id == id || self.presence.as_ref().is_some_and(|line| line.id == id)
    }
}

#[derive(Clone)]
enum State {
    Up(Up),
    /// Why there is no connection.
    Down(Arc<str>),
}

/// What the connections report to the supervisor.
enum News {
    /// A connection broke.
    Broke {
        id: u64,
        why: String,
        /// Whether no data call was under way.
        idle: bool,
    },
    /// The server did not execute a call about this process's presence, and says why.
    Unwilling(String),
    /// It executes them again.
    Willing,
}

struct Shared {
    connector: Connector,
    state: watch::Sender<State>,
    /// Whether the last call about this process's presence was not executed.
    unwilling: AtomicBool,
}

/// Connections that come back. Clones share them; they close when the last is dropped.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
    _supervisor: Arc<AbortOnDrop>,
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// Connects once. Without channels there is no presence connection: enough for a process that
    /// only looks. `observe` hears when the link is lost and regained.
    pub(crate) async fn open(
        target: &Target,
        channels: Option<Channels>,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        let (news, receiver) = mpsc::unbounded_channel();
        let connector = Connector {
            client: redis_client(target)?,
            channels,
            called: Arc::new(Notify::new()),
            under_way: Arc::default(),
            news,
        };
        let first = connector.connect(0).await?;
        let shared = Arc::new(Shared {
            connector,
            state: watch::Sender::new(State::Up(first)),
            unwilling: AtomicBool::new(false),
        });
        let supervisor = Supervisor::new(Arc::clone(&shared), receiver, observe, 0);
        Ok(Self {
            shared,
            _supervisor: Arc::new(AbortOnDrop(tokio::spawn(supervisor.run()).abort_handle())),
        })
    }

    /// What the server said about itself when the connections were made.
    pub(crate) fn server(&self) -> Option<Arc<ServerInfo>> {
        match &*self.shared.state.borrow() {
            State::Up(up) => Some(Arc::clone(&up.server)),
            State::Down(_) => None,
        }
    }

    /// The run of the server, in the short form that claims carry; empty while there is none.
    pub(crate) fn run_id(&self) -> String {
        self.server()
            .map(|server| server.run.clone())
            .unwrap_or_default()
    }

    /// Waits until another process calls this one.
    pub(crate) async fn called(&self) {
        self.shared.connector.called.notified().await;
    }

    /// Waits until the link is up.
    pub(crate) async fn wait_up(&self) {
        // An error would mean that the sender is gone, which `self` keeps alive.
        let is_up = |state: &State| matches!(state, State::Up(_));
        let _ = self.shared.state.subscribe().wait_for(is_up).await;
    }

    /// Sends one command over the data connection and waits for its answer.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Error> {
        self.call_over(Over::Data, command).await
    }

    /// The same over one of the connections.
    pub(crate) async fn call_over(&self, over: Over, command: &Cmd) -> Result<Value, Error> {
        let sent = self.send(over, async |connection| {
            let answer = connection.send_packed_command(command).await;
            answer.and_then(Value::extract_error)
        });
        sent.await
    }

    /// Sends two commands in this order and waits for both answers. Two calls of [`Link::call`]
    /// at a time may overtake each other when thousands wait for their turn.
    pub(crate) async fn call_both(
        &self,
        commands: [Cmd; 2],
    ) -> Result<[Result<Value, Error>; 2], Error> {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command);
        }
        let sent = self.send(Over::Data, async |connection| {
            let answers = connection.send_packed_commands(&pipeline, 0, 2).await?;
            <[Value; 2]>::try_from(answers)
                .map_err(|_| redis::RedisError::from((redis::ErrorKind::Parse, "two answers")))
        });
        let answers = sent.await?;
        Ok(answers.map(|answer| answer.extract_error().map_err(classify)))
    }

    /// Sends something over one of the connections, and gives both up if it does not answer.
    async fn send<T>(
        &self,
        over: Over,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> redis::RedisResult<T>,
    ) -> Result<T, Error> {
        let state = self.shared.state.borrow().clone();
        let up = match state {
            State::Up(up) => up,
            State::Down(why) => {
                return Err(Error::Unavailable(format!("not connected: {why}")));
            }
        };
        let line = match over {
            Over::Data => Some(up.data),
            Over::Presence => up.presence,
        };
        let Some(Line {
            id, mut connection, ..
        }) = line
        else {
            return Err(Error::Refused(
                "this connection only looks: it has no presence".to_owned(),
            ));
        };
        let sent = {
            let _counted = UnderWay::count(over, &self.shared.connector.under_way);
            send(&mut connection).await
        };
        match sent {
            Ok(answer) => {
                up.answered.fetch_add(1, Ordering::Relaxed);
                if let Over::Presence = over {
                    self.shared.willing();
                }
                Ok(answer)
            }
            Err(error) => Err(self.shared.failed(over, id, error)),
        }
    }

    /// Runs commands in one transaction and returns their answers.
    pub(crate) async fn atomic(&self, commands: &[Cmd]) -> Result<Vec<Value>, Error> {
        // Not the client's own transactions: they cannot read the answer to a refused MULTI.
        let mut pipeline = redis::pipe();
        pipeline.cmd("MULTI");
        for command in commands {
            pipeline.add_command(command.clone());
        }
        pipeline.cmd("EXEC");
        let sent = self.send(Over::Data, async |connection| {
            let answers = connection.send_packed_commands(&pipeline, 0, commands.len() + 2);
            // An error in one of them is the error of all.
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

    /// One more connection, for calls that block on the server for up to `max_wait`. It does not
    /// come back when it breaks: its owner opens another.
    pub(crate) async fn open_blocking(
        &self,
        max_wait: Duration,
    ) -> Result<MultiplexedConnection, Error> {
        self.shared.connector.blocking(max_wait).await
    }
}

impl Shared {
    /// A call over one of the connections failed: says so to the supervisor where that matters.
    fn failed(&self, over: Over, id: u64, error: redis::RedisError) -> Error {
        let moved = matches!(error.code(), Some("READONLY" | "MOVED"));
        let why = plain(&error);
        let error = classify(error);
        // The supervisor may be gone at the very end of the process.
        let news = &self.connector.news;
        if moved || matches!(error, Error::ReplyLost(_)) {
            let idle = false;
            let _ = news.send(News::Broke { id, why, idle });
        } else if let (Over::Presence, Error::Unavailable(why)) = (over, &error) {
            self.unwilling.store(true, Ordering::Relaxed);
            let _ = news.send(News::Unwilling(why.clone()));
        }
        error
    }

    fn willing(&self) {
        if self.unwilling.swap(false, Ordering::Relaxed) {
            let _ = self.connector.news.send(News::Willing);
        }
    }
}

/// Counts a data call for as long as it waits for its answer.
struct UnderWay<'a>(Option<&'a AtomicUsize>);

impl<'a> UnderWay<'a> {
    fn count(over: Over, calls: &'a AtomicUsize) -> Self {
        match over {
            Over::Data => {
                calls.fetch_add(1, Ordering::Relaxed);
                Self(Some(calls))
            }
            Over::Presence => Self(None),
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0 {
            calls.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
