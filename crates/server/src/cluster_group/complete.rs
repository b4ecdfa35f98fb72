//! Whether a cluster is complete: all servers say the same, and none is missing.

use super::{ClusterGroup, PROBE_TIMEOUT, Seen, view};
use crate::reply::Reply;
use crate::{Error, PrivateServer};

/// How many slots every cluster has.
pub(super) const SLOTS: u16 = 16384;

impl ClusterGroup {
    /// Checks that the cluster could lose any of its masters now: each server serves, all of them see
    /// all others and agree about every slot, no slot is on its way, and each master has its replicas.
    ///
    /// # Errors
    ///
    /// [`Error::IncompleteCluster`] says what is missing.
    pub fn check_complete(&self) -> Result<(), Error> {
        let mut first: Option<Vec<(u16, Vec<_>)>> = None;
        for server in &self.servers {
            let in_words = |error: Error| match (error, server.port()) {
                (Error::IncompleteCluster { why }, Some(port)) => {
                    Error::incomplete(format!("port {port} {why}"))
                }
                (error, _) => error,
            };
            let mut seen = view(server)?;
            self.check_view(&seen).map_err(in_words)?;
            check_served(server).map_err(in_words)?;
            seen.sort_by_key(|seen| seen.port);
            let slots = seen.into_iter().map(|seen| (seen.port, seen.slots));
            let slots = slots.collect();
            match &first {
                Some(first) if *first != slots => {
                    return Err(in_words(Error::incomplete("names other masters")));
                }
                Some(_) => {}
                None => first = Some(slots),
            }
        }
        Ok(())
    }

    fn check_view(&self, all: &[Seen]) -> Result<(), Error> {
        if all.len() != self.servers.len() {
            return Err(Error::incomplete(format!("sees {} servers", all.len())));
        }
        for seen in all {
            let trouble = match seen.trouble() {
                None if !seen.is_connected => Some("disconnected"),
                None if seen.is_moving => Some("with a slot on its way"),
                trouble => trouble,
            };
            if let Some(trouble) = trouble {
                let why = format!("sees port {} as {trouble:?}", seen.port);
                return Err(Error::incomplete(why));
            }
            let id = Some(seen.id.as_str());
            let replicas = all.iter().filter(|other| other.master.as_deref() == id);
            let replicas = replicas.count();
            if seen.has_flag("master") && replicas != self.replicas {
                let why = format!("sees {replicas} replicas of port {}", seen.port);
                return Err(Error::incomplete(why));
            }
        }
        match all.iter().map(Seen::count_slots).sum::<usize>() {
            slots if slots == usize::from(SLOTS) => Ok(()),
            slots => Err(Error::incomplete(format!("sees {slots} slots"))),
        }
    }
}

/// Checks that a server answers clients, and follows its master if it is a replica.
fn check_served(server: &PrivateServer) -> Result<(), Error> {
    let info = server.command(&["CLUSTER", "INFO"], PROBE_TIMEOUT)?;
    if !info.text().contains("cluster_state:ok") {
        return Err(Error::incomplete("does not serve yet"));
    }
    let info = server.command(&["INFO", "replication"], PROBE_TIMEOUT);
    let info = info.map(Reply::text)?;
    match info.contains("role:slave") && !info.contains("master_link_status:up") {
        true => Err(Error::incomplete("has lost its master")),
        false => Ok(()),
    }
}
