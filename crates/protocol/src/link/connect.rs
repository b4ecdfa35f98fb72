//! Making the connections of a [`Link`](super::Link): first the one for data, which asks the
//! server what it is, then the one for presence, which must reach the same run of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::{Channels, Line, News, Up, first_words};
use crate::Error;
use crate::error::{classify, plain};
use crate::server_info::ServerInfo;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of an answer. A server that is silent for longer counts as gone: the link gives its
/// connections up, and whatever was under way is of unknown outcome.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes connections, and lets them report what the server pushes.
pub(super) struct Connector {
    pub(super) client: redis::Client,
    /// Data calls that wait for their answer.
    pub(super) under_way: Arc<AtomicUsize>,
    /// None for a link without presence.
    pub(super) channels: Option<Channels>,
    pub(super) called: Arc<Notify>,
    pub(super) news: mpsc::UnboundedSender<News>,
}

impl Connector {
    /// Both connections, numbered `id` and `id + 1`.
    pub(super) async fn connect(&self, id: u64) -> Result<Up, Error> {
        let (data, server) = self.data(id).await?;
        self.with_presence(data, server).await
    }

    /// The same for a link that was up before. A primary may have been demoted meanwhile: the
    /// next attempt may reach its successor.
    pub(super) async fn reconnect(&self, id: u64) -> Result<Up, Error> {
        let (data, server) = self.data(id).await?;
        if self.channels.is_some() && server.read_only_replica {
            return Err(Error::Unavailable(
                "the server has become a read-only replica".to_owned(),
            ));
        }
        self.with_presence(data, server).await
    }

    /// The pair with a new data connection, which must reach the same run of the server.
    pub(super) async fn renew(&self, id: u64, up: &Up) -> Result<Up, Error> {
        let (data, server) = self.data(id).await?;
        same_run(&up.server, &server)?;
        Ok(Up { data, ..up.clone() })
    }

    async fn data(&self, id: u64) -> Result<(Line, ServerInfo), Error> {
        let mut line = self.line(id).await?;
        let server = ask_server(&mut line.connection).await?;
        if let Some(why) = server.unsupported() {
            return Err(Error::Refused(why));
        }
        match server.loading {
            true => Err(Error::Unavailable(
                "the server is still loading its data".to_owned(),
            )),
            false => Ok((line, server)),
        }
    }

    async fn with_presence(&self, data: Line, server: ServerInfo) -> Result<Up, Error> {
        let presence = match &self.channels {
            None => None,
            Some(channels) => Some(self.subscribed(data.id + 1, channels, &server).await?),
        };
        Ok(Up {
            data,
            presence,
            server: Arc::new(server),
            since: Instant::now(),
            answered: Arc::default(),
        })
    }

    /// A connection that says by its subscription that this process lives. Absence is believed
    /// within one run of the server only, so presence must not lie in another run than the claims.
    async fn subscribed(
        &self,
        id: u64,
        channels: &Channels,
        server: &ServerInfo,
    ) -> Result<Line, Error> {
        let mut line = self.line(id).await?;
        same_run(server, &ask_server(&mut line.connection).await?)?;
        let Channels { presence, call } = channels;
        let subscribed = line.connection.subscribe(&[presence, call]).await;
        subscribed.map_err(unreachable)?;
        Ok(line)
    }

    async fn line(&self, id: u64) -> Result<Line, Error> {
        let (news, called) = (self.news.clone(), Arc::clone(&self.called));
        let under_way = Arc::clone(&self.under_way);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(move |push: PushInfo| -> Result<(), &'static str> {
                match push.kind {
                    PushKind::Disconnection => {
                        let why = "the connection was closed".to_owned();
                        let idle = under_way.load(Ordering::Relaxed) == 0;
                        // The supervisor may be gone at the very end of the process.
                        let _ = news.send(News::Broke { id, why, idle });
                    }
                    PushKind::Message => called.notify_one(),
                    _ => {}
                }
                Ok(())
            });
        let connection = self.open(&config).await?;
        let since = Instant::now();
        Ok(Line {
            id,
            connection,
            since,
        })
    }

    /// A connection of its own for calls that block on the server for up to `max_wait`.
    pub(super) async fn blocking(
        &self,
        max_wait: Duration,
    ) -> Result<MultiplexedConnection, Error> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(max_wait + ANSWER_TIMEOUT));
        self.open(&config).await
    }

    async fn open(&self, config: &AsyncConnectionConfig) -> Result<MultiplexedConnection, Error> {
        let client = &self.client;
        let opened = client
            .get_multiplexed_async_connection_with_config(config)
            .await;
        match opened {
            Err(error) if error.is_io_error() && !error.is_connection_refusal() => {
                // A server that cannot take one more client says so and closes at once. What it
                // said is lost when our own first words arrive behind the end.
                match first_words::of(client.get_connection_info().addr()).await {
                    Some(refusal) => Err(refusal),
                    None => Err(unreachable(error)),
                }
            }
            opened => opened.map_err(unreachable),
        }
    }
}

fn same_run(one: &ServerInfo, other: &ServerInfo) -> Result<(), Error> {
    match one.run == other.run {
        true => Ok(()),
        false => Err(Error::Unavailable(
            "two connections reached two runs of the server".to_owned(),
        )),
    }
}

async fn ask_server(connection: &mut MultiplexedConnection) -> Result<ServerInfo, Error> {
    let info: String = redis::cmd("INFO")
        .query_async(connection)
        .await
        .map_err(unreachable)?;
    Ok(ServerInfo::parse(&info))
}

/// Sorts an error of connecting: nothing was sent that could matter, so a broken or refused
/// connection is simply *not available*.
fn unreachable(error: redis::RedisError) -> Error {
    let (is_parse, words) = (error.kind() == redis::ErrorKind::Parse, plain(&error));
    match classify(error) {
        Error::ReplyLost(_) if is_parse => {
            Error::Refused("what answers there does not speak Redis's protocol".to_owned())
        }
        Error::ReplyLost(_) => Error::Unavailable(words),
        other => other,
    }
}
