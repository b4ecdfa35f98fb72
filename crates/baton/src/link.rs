//! The one owner of the connection to Redis.
//!
//! A [`Link`] keeps one connection alive: it connects, announces the node's presence on it
//! (a subscription that the kernel ends when the process dies), and connects again with
//! growing pauses when it breaks. It never repeats a call by itself: after a lost answer the
//! outcome is unknown, and only the caller knows the ids with which the call is idempotent.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, Value};
use tokio::sync::{Notify, mpsc, watch};

use crate::error::{classify, plain};
use crate::protocol::answer::unexpected;
use crate::server::ServerInfo;
use crate::{Error, Target};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest wait for an answer. A server that is silent for longer counts as gone: the
/// connection is given up, and whatever was under way is of unknown outcome.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Pauses between attempts to connect: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What happened to the connection, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkState {
    /// The connection is gone; the reason in words.
    Lost(String),
    /// The connection is there again.
    Regained,
}

#[derive(Clone)]
struct Up {
    connection: MultiplexedConnection,
    server: Arc<ServerInfo>,
    /// Counts connections, so that an old one's end does not take down a new one.
    number: u64,
}

/// What a connection subscribes to.
pub(crate) struct Channels {
    /// Where the subscription itself says that this process lives. Nothing is published there.
    pub(crate) presence: String,
    /// Where others call this process.
    pub(crate) call: String,
}

struct Shared {
    client: redis::Client,
    channels: Channels,
    called: Arc<Notify>,
    up: watch::Sender<Option<Up>>,
    broken: mpsc::UnboundedSender<(u64, String)>,
}

/// A connection that comes back. Clones share it; it closes when the last is dropped.
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
    /// Connects once. `observe` hears when the connection breaks and when it is back.
    pub(crate) async fn open(
        target: &Target,
        channels: Channels,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        let (broken, mut breaks) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            client: target.client()?,
            channels,
            called: Arc::default(),
            up: watch::Sender::new(None),
            broken,
        });
        let first = shared.connect(1).await?;
        shared.up.send_replace(Some(first));
        let supervised = Arc::clone(&shared);
        let supervisor = tokio::spawn(async move {
            let mut number = 1;
            while let Some((broken, why)) = breaks.recv().await {
                if broken != number {
                    continue;
                }
                supervised.up.send_replace(None);
                observe(LinkState::Lost(why));
                number += 1;
                let next = supervised.connect_patiently(number).await;
                supervised.up.send_replace(Some(next));
                observe(LinkState::Regained);
            }
        });
        Ok(Self {
            shared,
            _supervisor: Arc::new(AbortOnDrop(supervisor.abort_handle())),
        })
    }

    /// What the server said about itself when this connection was made.
    pub(crate) fn server(&self) -> Option<Arc<ServerInfo>> {
        self.shared
            .up
            .borrow()
            .as_ref()
            .map(|up| Arc::clone(&up.server))
    }

    /// The run of the server, in the short form that claims carry; empty while there is none.
    pub(crate) fn run(&self) -> String {
        self.server()
            .map(|server| server.run.clone())
            .unwrap_or_default()
    }

    /// Waits until somebody calls this process.
    pub(crate) async fn called(&self) {
        self.shared.called.notified().await;
    }

    /// Waits until there is a connection.
    pub(crate) async fn wait_up(&self) {
        // An error would mean that the sender is gone, which `self` keeps alive.
        let _ = self.shared.up.subscribe().wait_for(Option::is_some).await;
    }

    /// Sends one command and waits for its answer.
    pub(crate) async fn call(&self, command: &Cmd) -> Result<Value, Error> {
        let sent = self.send(async |connection| {
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
        let sent = self.send(async |connection| {
            let answers = connection.send_packed_commands(&pipeline, 0, 2).await?;
            <[Value; 2]>::try_from(answers)
                .map_err(|_| redis::RedisError::from((redis::ErrorKind::Parse, "two answers")))
        });
        let answers = sent.await?;
        Ok(answers.map(|answer| answer.extract_error().map_err(classify)))
    }

    /// Sends something over the connection, and gives that up if it does not answer.
    async fn send<T>(
        &self,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> redis::RedisResult<T>,
    ) -> Result<T, Error> {
        let Some(up) = self.shared.up.borrow().clone() else {
            return Err(Error::Unavailable("not connected".to_owned()));
        };
        let mut connection = up.connection;
        send(&mut connection).await.map_err(|error| {
            let moved = matches!(error.code(), Some("READONLY" | "MOVED"));
            let why = plain(&error);
            let error = classify(error);
            if moved || matches!(error, Error::ReplyLost(_)) {
                // The supervisor may be gone at the very end of the process.
                let _ = self.shared.broken.send((up.number, why));
            }
            error
        })
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
        let sent = self.send(async |connection| {
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

    /// A second connection, for calls that block on the server for up to `longest`.
    pub(crate) async fn blocking(&self, longest: Duration) -> Result<MultiplexedConnection, Error> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(longest + ANSWER_TIMEOUT));
        let client = &self.shared.client;
        client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(classify)
    }
}

impl Shared {
    async fn connect(&self, number: u64) -> Result<Up, Error> {
        let (broken, called) = (self.broken.clone(), Arc::clone(&self.called));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(move |push: PushInfo| -> Result<(), &'static str> {
                match push.kind {
                    PushKind::Disconnection => {
                        let _ = broken.send((number, "the connection was closed".to_owned()));
                    }
                    PushKind::Message => called.notify_one(),
                    _ => {}
                }
                Ok(())
            });
        let client = &self.client;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(unreachable)?;
        let info: String = redis::cmd("INFO")
            .query_async(&mut connection)
            .await
            .map_err(classify)?;
        let server = ServerInfo::parse(&info);
        if server.loading {
            return Err(Error::Unavailable(
                "the server is still loading its data".to_owned(),
            ));
        }
        let Channels { presence, call } = &self.channels;
        connection
            .subscribe(&[presence, call])
            .await
            .map_err(classify)?;
        Ok(Up {
            connection,
            server: Arc::new(server),
            number,
        })
    }

    async fn connect_patiently(&self, number: u64) -> Up {
        let (mut pause, longest) = BACKOFF;
        loop {
            if let Ok(up) = self.connect(number).await {
                return up;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }
}

/// Sorts an error of connecting: nothing was sent that could matter, so a broken or refused
/// connection is simply *not available*.
fn unreachable(error: redis::RedisError) -> Error {
    match classify(error) {
        Error::ReplyLost(error) if error.kind() == redis::ErrorKind::Parse => {
            Error::Refused("what answers there does not speak Redis's protocol".to_owned())
        }
        Error::ReplyLost(error) => Error::Unavailable(plain(&error)),
        other => other,
    }
}
