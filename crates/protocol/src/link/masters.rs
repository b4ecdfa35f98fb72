//! The servers that have the keys of fleets, for tools that read what each of them used.

use std::sync::Arc;

use super::cluster;
use super::locate::Locator;
use crate::slot::{SLOTS, slot};
use crate::target::{Place, Target};
use crate::{Error, Keys};

/// A server that has keys.
#[derive(Debug)]
pub struct Master {
    client: redis::Client,
    /// First and last slot of each range. A server outside of a cluster has all slots.
    slots: Vec<(u16, u16)>,
}

impl Master {
    /// A client of the server. It has opened no connection.
    pub fn client(&self) -> &redis::Client {
        &self.client
    }

    /// Whether the server has these keys.
    pub fn has(&self, keys: &Keys) -> bool {
        let slot = slot(keys.tag().as_bytes());
        let mut ranges = self.slots.iter();
        ranges.any(|(first, last)| (*first..=*last).contains(&slot))
    }
}

/// All servers that have keys now: the server, the master that Sentinels name, or the masters of a
/// cluster in the order of their first slots.
pub async fn masters(target: &Target) -> Result<Vec<Master>, Error> {
    let Place::Cluster { seeds } = target.place() else {
        let found = Locator::new(target, 0, Arc::default())?.locate().await?;
        return Ok(vec![Master {
            client: found.client,
            slots: vec![(0, (SLOTS - 1) as u16)],
        }]);
    };
    let shares = cluster::masters(target, seeds).await?.into_iter();
    let open = |(address, slots): cluster::Share| {
        let client = target.client_at(&address.host, address.port)?;
        Ok(Master { client, slots })
    };
    shares.map(open).collect()
}
