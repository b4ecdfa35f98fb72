//! Finds the server on which a fleet lives: at a fixed address, where Sentinels say, or where a cluster
//! has the fleet's slot.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cluster::{self, Slots};
use super::connect::{Failure, diagnosis, open};
use super::sentinel;
use crate::Error;
use crate::server_info::ServerInfo;
use crate::target::{Place, Target, bracketed};

/// How long a Sentinel or a server of a cluster may take to say where the fleet lives.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How long a server is tried after a Sentinel has begun to promote it.
const PROMOTION: Duration = Duration::from_secs(2);

/// How often a server of a cluster is asked, at least, while the fleet's server is lost, and for how long.
/// Sentinels call all nodes when they promote a server, a cluster calls none. The nodes must come back
/// well within [`REUNION_MS`](crate::bounds::REUNION_MS) of each other: then they tell the new generator which numbers the
/// failover forgot. By default a cluster takes a server for dead after 15 s.
const CLUSTER_PAUSE: Duration = Duration::from_millis(100);
const CLUSTER_PROMOTION: Duration = Duration::from_secs(30);

/// Host and port of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

/// A server that may be the fleet's.
pub(super) struct Found {
    pub(super) client: redis::Client,
    /// None if it is fixed.
    pub(super) address: Option<Address>,
}

/// A server that a Sentinel promotes.
struct Promoted {
    address: Address,
    /// Until when it is tried before the Sentinels are asked again.
    until: Instant,
}

/// Finds the fleet's server again and again.
pub(super) struct Locator {
    pub(super) target: Target,
    /// The slot of the link's keys: in a cluster, they live where this slot is.
    slot: u16,
    /// A server that a Sentinel promotes. The Sentinels name it as the master a second later.
    promoted: Mutex<Option<Promoted>>,
    /// What the process knows of the cluster.
    slots: Arc<Slots>,
    /// Notified when there is a new server to look at.
    pub(super) moved: Notify,
}

impl Locator {
    pub(super) fn new(target: &Target, slot: u16, slots: Arc<Slots>) -> Result<Self, Error> {
        // A target that cannot work is an error before the first attempt.
        target.client()?;
        Ok(Self {
            target: target.clone(),
            slot,
            promoted: Mutex::default(),
            slots,
            moved: Notify::new(),
        })
    }

    /// The server to connect to now.
    pub(super) async fn locate(&self) -> Result<Found, Error> {
        let address = match self.target.place() {
            Place::Server => {
                return Ok(Found {
                    client: self.target.client()?,
                    address: None,
                });
            }
            Place::Sentinels { sentinels, master } => match self.promoted() {
                Some(address) => address,
                None => sentinel::master(&self.target, sentinels, master).await?,
            },
            Place::Cluster { seeds } => self.slots.owner(&self.target, seeds, self.slot).await?,
        };
        Ok(Found {
            client: self.target.client_at(&address.host, address.port)?,
            address: Some(address),
        })
    }

    /// The pause before the next attempt to find the server, which was lost this long ago.
    pub(super) fn shortened(&self, pause: Duration, lost_for: Duration) -> Duration {
        match self.target.place() {
            Place::Cluster { .. } if lost_for < CLUSTER_PROMOTION => pause.min(CLUSTER_PAUSE),
            _ => pause,
        }
    }

    /// The server that a Sentinel promotes now. At first it is a replica, and when it becomes the master,
    /// it closes all connections.
    fn promoted(&self) -> Option<Address> {
        let promoted = lock(&self.promoted);
        let promoted = promoted.as_ref()?;
        (Instant::now() < promoted.until).then(|| promoted.address.clone())
    }

    /// A server says that the link's slot has moved.
    pub(super) fn slot_moved(&self) {
        self.slots.moved();
    }

    /// Takes note that a Sentinel promotes the server at this address.
    pub(super) fn promote(&self, address: Address) {
        let until = Instant::now() + PROMOTION;
        *lock(&self.promoted) = Some(Promoted { address, until });
        self.moved.notify_one();
    }

    /// Whether the server that a Sentinel promoted last is this one. It need not be looked at then.
    pub(super) fn leads_to(&self, found: &Found) -> bool {
        let promoted = lock(&self.promoted);
        promoted.as_ref().map(|promoted| &promoted.address) == found.address.as_ref()
    }

    /// Whether the server is what the target names, now that it said who it is.
    pub(super) fn check(&self, found: &Found, server: &ServerInfo) -> Result<(), Error> {
        if server.sentinel {
            return Err(Error::Refused(server.needs_sentinel_url()));
        }
        let is_cluster_target = matches!(self.target.place(), Place::Cluster { .. });
        match (server.cluster, is_cluster_target) {
            (true, false) => return Err(Error::Refused(server.needs_cluster_url())),
            (false, true) => {
                return Err(Error::Refused(cluster::NOT_IN_A_CLUSTER.to_owned()));
            }
            _ => {}
        }
        match &found.address {
            Some(address) if server.read_only_replica => Err(Error::Unavailable(format!(
                "{address} should be the master and is a replica; a failover may be under way"
            ))),
            _ => Ok(()),
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to ask where the fleet lives.
pub(super) async fn connect(client: &redis::Client) -> Result<MultiplexedConnection, Error> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(TIMEOUT))
        .set_response_timeout(Some(TIMEOUT));
    match open(client, &config).await {
        Ok(connection) => Ok(connection),
        Err(Failure { error, is_unclear }) => Err(match is_unclear {
            true => diagnosis(client).await.unwrap_or(error),
            false => error,
        }),
    }
}
