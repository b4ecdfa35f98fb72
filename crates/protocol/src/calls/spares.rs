//! Where a fleet in a cluster keeps its number of partitions, beside its control keys.
//!
//! If the shard of the control keys loses all its data while no node runs, these say nothing any more. A node
//! that starts would take the fleet for a new one with another number, and would never look where the old
//! messages are. So *spare* keys in other parts of the cluster have the number, too.

use super::{PROTOCOL, Place, Store, decode};
use crate::Error;
use crate::bounds::CLUSTER_PARTITIONS;
use crate::keys::{FleetName, Keys, SPARES};
use crate::link::Servers;

/// The stores of the spare keys; none outside of a cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Spares(pub(super) Vec<Store>);

impl Spares {
    pub(super) async fn open(
        servers: &Servers,
        fleet: &FleetName,
        node: &str,
    ) -> Result<Self, Error> {
        servers.share();
        let opened = (0..SPARES).map(async |nth| {
            let keys = Keys::spare(fleet, nth);
            // As of several partitions: one that cannot be reached holds nothing up.
            let place = Place {
                index: 0,
                count: CLUSTER_PARTITIONS,
            };
            // The fleet works without them: their loss is no loss of Redis.
            Store::at(servers, fleet, node, keys, place, |_| {}).await
        });
        futures_util::future::try_join_all(opened).await.map(Self)
    }

    /// How many partitions the fleet has; none if it is new, and has no spare key yet.
    pub(super) async fn partitions(&self) -> Result<Option<u32>, Error> {
        let reads = self.0.iter().map(Store::stored_partitions);
        let (mut found, mut silent) = (None, None);
        for (spare, read) in self
            .0
            .iter()
            .zip(futures_util::future::join_all(reads).await)
        {
            match read {
                Ok(None) => {}
                Ok(Some(count)) => {
                    let (other, other_count) = *found.get_or_insert((spare, count));
                    if other_count != count {
                        let (one, two) = (&other.keys.meta, &spare.keys.meta);
                        return Err(Error::Refused(format!(
                            "BADVALUE {one} partitions is {other_count}, and {two} partitions is \
                             {count}: remove the wrong one"
                        )));
                    }
                }
                Err(error) if error.is_transient() => silent = Some(error),
                Err(error) => return Err(error),
            }
        }
        match (found, silent) {
            (Some((_, count)), _) => Ok(Some(count)),
            (None, None) => Ok(None),
            (None, Some(error)) => Err(Error::Unavailable(format!(
                "the control keys have no number of partitions, and the shard that may know it is away: {error}"
            ))),
        }
    }
}

impl Store {
    /// How many partitions the fleet has; none if there is no fleet yet. A fleet from before there were
    /// partitions has one.
    pub(super) async fn stored_partitions(&self) -> Result<Option<u32>, Error> {
        let mut command = redis::cmd("HMGET");
        command
            .arg(&self.keys.meta)
            .arg("protocol")
            .arg("partitions");
        let answer = self.link.call(&command).await;
        decode::stored_partitions(&self.keys.meta, &self.name_wrong_type(answer).await?)
    }

    /// Decides how many partitions a fleet has that has not decided yet. Returns what it has decided, perhaps by
    /// another node.
    pub(super) async fn decide_partitions(&self, count: u32) -> Result<Option<u32>, Error> {
        // The number first: a fleet with a protocol and no number has one partition.
        for (field, value) in [("partitions", &*count.to_string()), ("protocol", PROTOCOL)] {
            let mut command = redis::cmd("HSETNX");
            command.arg(&self.keys.meta).arg(field).arg(value);
            let answer = self.link.call(&command).await;
            self.name_wrong_type(answer).await?;
        }
        self.stored_partitions().await
    }

    /// Stores how many partitions the fleet has, in a spare key.
    pub async fn store_partitions(&self, count: u32) -> Result<(), Error> {
        let mut command = redis::cmd("HSET");
        command.arg(&self.keys.meta).arg("protocol").arg(PROTOCOL);
        command.arg("partitions").arg(count);
        let answer = self.link.call(&command).await;
        self.name_wrong_type(answer).await.map(drop)
    }
}
