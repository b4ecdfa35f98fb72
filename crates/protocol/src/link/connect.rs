//! Making the connections of a [`Link`](super::Link): it finds its server, and the pool has or makes the
//! pair of that server.

use std::sync::Arc;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::mpsc;

use super::locate::{Address, Found, Locator};
use super::pool::{Pool, ServerPair};
use super::{LinkEvent, greeting, tls_mismatch};
use crate::error::{classify, plain};
use crate::server_info::ServerInfo;
use crate::{CertificateProblem, Error};

/// Gets the connections of one link, which report to its supervisor.
pub(super) struct Connector {
    pub(super) locator: Arc<Locator>,
    pub(super) pool: Arc<Pool>,
    pub(super) events: mpsc::UnboundedSender<LinkEvent>,
}

impl Connector {
    /// The connections to the server of this link.
    pub(super) async fn connect(&self) -> Result<Arc<ServerPair>, Error> {
        let check = |found: &Found, server: &ServerInfo| self.locator.check(found, server);
        self.pair(check).await
    }

    /// The same for a link that was up before. A demoted primary is a transient error here: the next
    /// attempt may reach its successor.
    pub(super) async fn reconnect(&self) -> Result<Arc<ServerPair>, Error> {
        let check = |found: &Found, server: &ServerInfo| {
            self.locator.check(found, server)?;
            match self.pool.channels.is_some() && server.read_only_replica {
                true => Err(Error::Unavailable(
                    "the server has become a read-only replica".to_owned(),
                )),
                false => Ok(()),
            }
        };
        self.pair(check).await
    }

    async fn pair(
        &self,
        check: impl Fn(&Found, &ServerInfo) -> Result<(), Error>,
    ) -> Result<Arc<ServerPair>, Error> {
        let found = self.locator.locate().await?;
        let address = found.address.clone();
        let pair = self.pool.pair(found, &self.events, check).await;
        match (pair, address) {
            // One of several servers: the words must say which.
            (Err(Error::Unavailable(why)), Some(address)) => {
                Err(Error::Unavailable(at(&address, &why)))
            }
            (Err(Error::Refused(why)), Some(address)) => Err(Error::Refused(at(&address, &why))),
            (pair, _) => pair,
        }
    }

    /// The pair with a new data connection.
    pub(super) async fn renew(&self, pair: &Arc<ServerPair>) -> Result<Arc<ServerPair>, Error> {
        self.pool.renew(pair, &self.events).await
    }
}

/// A reason that names its server, if it does not by itself.
fn at(address: &Address, why: &str) -> String {
    let address = address.to_string();
    match why.contains(&address) {
        true => why.to_owned(),
        false => format!("{address}: {why}"),
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
