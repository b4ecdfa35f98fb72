//! The one owner of the connections to Redis.
//!
//! A [`Link`] keeps two connections alive. The *presence* connection carries the subscription
//! that tells others that this process lives (the kernel ends it when the process dies), and the
//! beats, which prove regularly that it works. The *data* connection carries everything else: a
//! server cuts a subscribed connection off when answers pile up on it (its setting
//! `client-output-buffer-limit pubsub`, 32 MB by default), and answers of ours may be larger.
//!
//! The link is up while both are; when either breaks, both are replaced, with growing pauses. The
//! link never repeats a call by itself: after a lost answer the outcome is unknown, and only the
//! caller knows the ids with which the call is idempotent.

mod connect;

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::sync::{Notify, mpsc, watch};

use crate::error::{classify, plain};
use crate::protocol::answer::unexpected;
use crate::server::ServerInfo;
use crate::{Error, Target};
use connect::Connector;

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
}

/// Both connections, and what the server says about itself.
#[derive(Clone)]
struct Up {
    data: Line,
    presence: Option<Line>,
    server: Arc<ServerInfo>,
}

impl Up {
    fn has(&self, id: u64) -> bool {
        self.data.id == id || self.presence.as_ref().is_some_and(|line| line.id == id)
    }
}

/// A connection broke.
struct Break {
    id: u64,
    why: String,
}

struct Shared {
    connector: Connector,
    up: watch::Sender<Option<Up>>,
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
    /// Connects once. `observe` hears when a connection breaks and when both are back.
    pub(crate) async fn open(
        target: &Target,
        channels: Channels,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        let (breaks, mut broken) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            connector: Connector {
                client: target.client()?,
                channels: Some(channels),
                called: Arc::new(Notify::new()),
                breaks,
            },
            up: watch::Sender::new(None),
        });
        let mut next_id = 0;
        let first = shared.connector.connect(next_id).await?;
        shared.up.send_replace(Some(first));
        let supervised = Arc::clone(&shared);
        let supervisor = tokio::spawn(async move {
            while let Some(Break { id, why }) = broken.recv().await {
                if !supervised.up.borrow().as_ref().is_some_and(|up| up.has(id)) {
                    continue;
                }
                supervised.up.send_replace(None);
                observe(LinkState::Lost(why));
                let (mut pause, longest) = BACKOFF;
                let up = loop {
                    next_id += 2;
                    if let Ok(up) = supervised.connector.connect(next_id).await {
                        break up;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(longest);
                };
                supervised.up.send_replace(Some(up));
                observe(LinkState::Regained);
            }
        });
        Ok(Self {
            shared,
            _supervisor: Arc::new(AbortOnDrop(supervisor.abort_handle())),
        })
    }

    /// What the server said about itself when the connections were made.
    pub(crate) fn server(&self) -> Option<Arc<ServerInfo>> {
        let up = self.shared.up.borrow();
        up.as_ref().map(|up| Arc::clone(&up.server))
    }

    /// The run of the server, in the short form that claims carry; empty while there is none.
    pub(crate) fn run(&self) -> String {
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
        let _ = self.shared.up.subscribe().wait_for(Option::is_some).await;
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

    /// Sends something over one of the connections, and gives both up if it does not answer.
    async fn send<T>(
        &self,
        over: Over,
        send: impl AsyncFnOnce(&mut MultiplexedConnection) -> redis::RedisResult<T>,
    ) -> Result<T, Error> {
        let Some(up) = self.shared.up.borrow().clone() else {
            return Err(Error::Unavailable("not connected".to_owned()));
        };
        let line = match over {
            Over::Data => Some(up.data),
            Over::Presence => up.presence,
        };
        let Some(Line { id, mut connection }) = line else {
            return Err(Error::Refused(
                "this connection only looks: it has no presence".to_owned(),
            ));
        };
        send(&mut connection).await.map_err(|error| {
            let moved = matches!(error.code(), Some("READONLY" | "MOVED"));
            let why = plain(&error);
            let error = classify(error);
            if moved || matches!(error, Error::ReplyLost(_)) {
                // The supervisor may be gone at the very end of the process.
                let _ = self.shared.connector.breaks.send(Break { id, why });
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

    /// One more connection, for calls that block on the server for up to `longest`.
    pub(crate) async fn blocking(&self, longest: Duration) -> Result<MultiplexedConnection, Error> {
        self.shared.connector.blocking(longest).await
    }
}
