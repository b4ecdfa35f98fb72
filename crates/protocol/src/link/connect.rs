//! Making the connections of a [`Link`](super::Link): first the data connection, which reads the
//! server's `INFO`, then the presence connection, which must reach the same server process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, PushInfo, PushKind};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::locate::{Found, Locator};
use super::{Channels, Connection, ConnectionPair, LinkEvent, greeting, tls_mismatch};
use crate::error::{classify, plain};
use crate::server_info::ServerInfo;
use crate::{CertificateProblem, Error};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of an answer. A server that is silent for longer counts as gone: the supervisor replaces
/// the connections, and the outcome of every call that waited is unknown.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Makes connections, which report to the supervisor what the server pushes.
pub(super) struct Connector {
    pub(super) locator: Arc<Locator>,
    /// Data calls that wait for their answer.
    pub(super) in_flight: Arc<AtomicUsize>,
    /// None for a link without presence.
    pub(super) channels: Option<Channels>,
    /// Notified when another node calls this process to beat at once.
    pub(super) beat_call: Arc<Notify>,
    pub(super) events: mpsc::UnboundedSender<LinkEvent>,
    /// Whether an attempt that fails for no clear reason finds out why, which takes a while. The first
    /// one after a success does not: a failover closes connections, and the next attempt must be soon.
    pub(super) diagnoses: AtomicBool,
}

impl Connector {
    /// Both connections, numbered `id` and `id + 1`.
    pub(super) async fn connect(&self, id: u64) -> Result<ConnectionPair, Error> {
        let (data, server, found) = self.data(id).await?;
        self.with_presence(data, server, found).await
    }

    /// Both connections of a link that was up before. A demoted primary is a transient error here:
    /// the next attempt may reach its successor.
    pub(super) async fn reconnect(&self, id: u64) -> Result<ConnectionPair, Error> {
        let (data, server, found) = self.data(id).await?;
        if self.channels.is_some() && server.read_only_replica {
            return Err(Error::Unavailable(
                "the server has become a read-only replica".to_owned(),
            ));
        }
        self.with_presence(data, server, found).await
    }

    /// The pair with a new data connection, which must reach the same server process.
    pub(super) async fn renew(
        &self,
        id: u64,
        pair: &ConnectionPair,
    ) -> Result<ConnectionPair, Error> {
        let (data, server, _) = self.data(id).await?;
        check_same_process(&pair.server.run_id, &server.run_id)?;
        Ok(ConnectionPair {
            data,
            ..pair.clone()
        })
    }

    async fn data(&self, id: u64) -> Result<(Connection, ServerInfo, Found), Error> {
        let found = self.locator.locate().await?;
        let mut data = self.connection(&found.client, id).await?;
        let server = ServerInfo::parse(&info(&mut data.redis).await?);
        self.locator.check(&found, &server)?;
        match server.loading {
            true => Err(Error::Unavailable(
                "the server is still loading its data".to_owned(),
            )),
            false => Ok((data, server, found)),
        }
    }

    async fn with_presence(
        &self,
        data: Connection,
        server: ServerInfo,
        found: Found,
    ) -> Result<ConnectionPair, Error> {
        let presence = match &self.channels {
            None => None,
            Some(channels) => {
                let id = data.id + 1;
                let presence = self.subscribed(&found.client, id, channels, &server);
                Some(presence.await?)
            }
        };
        Ok(ConnectionPair {
            data,
            presence,
            server: Arc::new(server),
            found: Arc::new(found),
            ended: Arc::default(),
            since: Instant::now(),
            answered: Arc::default(),
        })
    }

    /// The presence connection: its subscription says that this process lives. Scripts believe a
    /// node's absence only within one run id of the server, so both connections must reach the
    /// same server process.
    async fn subscribed(
        &self,
        client: &redis::Client,
        id: u64,
        channels: &Channels,
        server: &ServerInfo,
    ) -> Result<Connection, Error> {
        let mut connection = self.connection(client, id).await?;
        let reached = ServerInfo::parse(&info(&mut connection.redis).await?);
        check_same_process(&server.run_id, &reached.run_id)?;
        let Channels { presence, call } = channels;
        let subscribed = connection.redis.subscribe(&[presence, call]).await;
        subscribed.map_err(unreachable)?;
        Ok(connection)
    }

    async fn connection(&self, client: &redis::Client, id: u64) -> Result<Connection, Error> {
        let (events, beat_call) = (self.events.clone(), Arc::clone(&self.beat_call));
        let in_flight = Arc::clone(&self.in_flight);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(move |push: PushInfo| -> Result<(), &'static str> {
                match push.kind {
                    PushKind::Disconnection => {
                        let why = "the connection was closed".to_owned();
                        let idle = in_flight.load(Ordering::Relaxed) == 0;
                        // The supervisor may be gone at the very end of the process.
                        let _ = events.send(LinkEvent::Broken { id, why, idle });
                    }
                    PushKind::Message => beat_call.notify_one(),
                    _ => {}
                }
                Ok(())
            });
        let opened = open(client, &config).await;
        let redis = match opened {
            Ok(redis) => redis,
            Err(Failure { error, is_unclear }) => {
                let diagnoses = self.diagnoses.swap(is_unclear, Ordering::Relaxed);
                return Err(match diagnoses && is_unclear {
                    true => diagnosis(client).await.unwrap_or(error),
                    false => error,
                });
            }
        };
        self.diagnoses.store(false, Ordering::Relaxed);
        Ok(Connection {
            id,
            redis,
            since: Instant::now(),
        })
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
}

/// Why a connection could not be opened.
pub(super) struct Failure {
    pub(super) error: Error,
    /// Whether the error does not say what is wrong: the server hung up or said nothing.
    pub(super) is_unclear: bool,
}

pub(super) async fn open(
    client: &redis::Client,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, Failure> {
    let opened = client.get_multiplexed_async_connection_with_config(config);
    opened.await.map_err(|error| {
        let is_unclear = error.kind() == redis::ErrorKind::Parse
            || error.is_io_error() && !error.is_connection_refusal();
        let error = unreachable(error);
        let is_unclear = is_unclear && !matches!(error, Error::Certificate { .. });
        Failure { error, is_unclear }
    })
}

/// Finds out why a server hung up or said nothing. This takes up to 0.3 s.
pub(super) async fn diagnosis(client: &redis::Client) -> Option<Error> {
    let address = client.get_connection_info().addr();
    // A server that cannot take one more client sends a refusal and closes at once. The refusal is
    // lost when our first command arrives after the close, so it is read from a second connection
    // that sends nothing.
    let reasons = tokio::join!(
        greeting::refusal_of(address),
        tls_mismatch::mismatch_at(address)
    );
    reasons.0.or(reasons.1)
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

/// Sorts an error of connecting. No call of the protocol was sent yet, so a broken or refused
/// connection is *unavailable*, not *reply lost*.
pub(super) fn unreachable(error: redis::RedisError) -> Error {
    let detail = plain(&error);
    if let Some(problem) = CertificateProblem::of(&error) {
        return Error::Certificate { problem, detail };
    }
    let is_parse = error.kind() == redis::ErrorKind::Parse;
    match classify(error) {
        Error::ReplyLost(_) if is_parse => {
            Error::Refused("what answers there does not speak Redis's protocol".to_owned())
        }
        Error::ReplyLost(_) => Error::Unavailable(detail),
        other => other,
    }
}
