//! Making the connections of a [`Link`](super::Link): first the one for data, which asks the
//! server what it is, then the one for presence, which must reach the same run of it.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind};
use tokio::sync::{Notify, mpsc};

use super::{Break, Channels, Line, Up};
use crate::Error;
use crate::error::{classify, plain};
use crate::server::ServerInfo;

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of an answer. A server that is silent for longer counts as gone: the link gives its
/// connections up, and whatever was under way is of unknown outcome.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes connections, and lets them report what the server pushes.
pub(super) struct Connector {
    pub(super) client: redis::Client,
    /// None for a link without presence.
    pub(super) channels: Option<Channels>,
    pub(super) called: Arc<Notify>,
    pub(super) breaks: mpsc::UnboundedSender<Break>,
}

impl Connector {
    /// Both connections, numbered `id` and `id + 1`.
    pub(super) async fn connect(&self, id: u64) -> Result<Up, Error> {
        let mut data = self.line(id).await?;
        let server = ask_server(&mut data.connection).await?;
        if server.loading {
            return Err(Error::Unavailable(
                "the server is still loading its data".to_owned(),
            ));
        }
        let presence = match &self.channels {
            None => None,
            Some(channels) => Some(self.subscribed(id + 1, channels, &server.run).await?),
        };
        Ok(Up {
            data,
            presence,
            server: Arc::new(server),
        })
    }

    /// A connection that says by its subscription that this process lives. `run` is the run of
    /// the server that the other connection found: absence is believed within one run only, so
    /// presence must not lie in another than the claims.
    async fn subscribed(&self, id: u64, channels: &Channels, run: &str) -> Result<Line, Error> {
        let mut line = self.line(id).await?;
        if ask_server(&mut line.connection).await?.run != run {
            return Err(Error::Unavailable(
                "two connections reached two runs of the server".to_owned(),
            ));
        }
        let Channels { presence, call } = channels;
        let subscribed = line.connection.subscribe(&[presence, call]).await;
        subscribed.map_err(unreachable)?;
        Ok(line)
    }

    async fn line(&self, id: u64) -> Result<Line, Error> {
        let (breaks, called) = (self.breaks.clone(), Arc::clone(&self.called));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(move |push: PushInfo| -> Result<(), &'static str> {
                match push.kind {
                    PushKind::Disconnection => {
                        let why = "the connection was closed".to_owned();
                        let _ = breaks.send(Break { id, why });
                    }
                    PushKind::Message => called.notify_one(),
                    _ => {}
                }
                Ok(())
            });
        let connection = self.open(&config).await?;
        Ok(Line { id, connection })
    }

    /// A connection of its own for calls that block on the server for up to `longest`.
    pub(super) async fn blocking(&self, longest: Duration) -> Result<MultiplexedConnection, Error> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(longest + ANSWER_TIMEOUT));
        self.open(&config).await
    }

    async fn open(&self, config: &AsyncConnectionConfig) -> Result<MultiplexedConnection, Error> {
        let client = &self.client;
        client
            .get_multiplexed_async_connection_with_config(config)
            .await
            .map_err(unreachable)
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
    match classify(error) {
        Error::ReplyLost(error) if error.kind() == redis::ErrorKind::Parse => {
            Error::Refused("what answers there does not speak Redis's protocol".to_owned())
        }
        Error::ReplyLost(error) => Error::Unavailable(plain(&error)),
        other => other,
    }
}
