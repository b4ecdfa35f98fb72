//! Returning what dead workers and drains had claimed.

use std::collections::HashSet;
use std::time::Duration;

use super::{Store, decode};
use crate::{Error, scripts};

/// Max claims that one call checks: Redis does nothing else meanwhile.
const MAX_CLAIMS: u64 = 64;
/// Random claims that each call checks for a missing deadline, and random idle nodes that it checks
/// for presence.
const PROBES: u64 = 2;
/// The same for the first call of [`Store::reclaim_absent`], which is to find them all.
const ALL_PROBES: u64 = 1000;
/// Returned records after which a call checks no further claim.
const MAX_RECORDS: u64 = 2_000;
/// Max delayed messages that one call returns to the queue.
const MAX_DUE: u64 = 500;

/// What a reclaim returned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Messages back in the queue.
    pub messages: u64,
    /// Error records back in the errors store.
    pub records: u64,
    /// Delayed messages back in the queue, because their next attempt is due.
    pub woken: u64,
    /// When the next delayed message is due; none if no message is delayed.
    pub next_due: Option<Duration>,
    /// The dead nodes that had claimed them.
    pub nodes: Vec<String>,
}

impl Reclaimed {
    /// Adds what another call returned; each node is named once.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.records += other.records;
        self.woken += other.woken;
        self.next_due = other.next_due;
        let known: HashSet<&str> = self.nodes.iter().map(String::as_str).collect();
        let mut new = other.nodes;
        new.retain(|node| !known.contains(node.as_str()));
        self.nodes.append(&mut new);
    }
}

impl Store {
    /// Returns the claims of dead workers and drains. Believes that a node is dead only if its
    /// claim was made at the server's current run id.
    pub async fn reclaim(&self) -> Result<Reclaimed, Error> {
        let run_id = self.link.run_id();
        self.reclaim_from(&run_id, 0, PROBES, &self.sleeper(&self.node))
            .await
    }

    /// Returns all claims of nodes that are not connected, also those from before a restart of the
    /// server.
    pub async fn reclaim_absent(&self) -> Result<Reclaimed, Error> {
        let mut all = self.reclaim_from("", 0, ALL_PROBES, "").await?;
        let (mut skip, mut claims) = (0, self.claims_len().await?);
        loop {
            let some = self.reclaim_from("", skip, PROBES, "").await?;
            let cut_short = some.records >= MAX_RECORDS;
            let none = some.nodes.is_empty();
            all.add(some);
            if claims <= skip + MAX_CLAIMS && !cut_short {
                return Ok(all);
            }
            if none {
                // Living nodes hold these claims: go on behind them.
                skip += MAX_CLAIMS;
            }
            claims = self.claims_len().await?;
        }
    }

    async fn claims_len(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(&self.keys.deadlines);
        decode::length(&self.link.call(&command).await?)
    }

    /// One call of the script. With an empty run id it believes every absence. If messages wait and
    /// no node is idle, it rings for `node`.
    async fn reclaim_from(
        &self,
        run_id: &str,
        skip: u64,
        probes: u64,
        node: &str,
    ) -> Result<Reclaimed, Error> {
        let mut keys = self.return_keys().to_vec();
        keys.push(self.keys.delayed.as_bytes());
        let answer = self
            .eval(
                &scripts::RECLAIM,
                &keys,
                &[
                    run_id.as_bytes(),
                    self.keys.presence.as_bytes(),
                    MAX_CLAIMS.to_string().as_bytes(),
                    skip.to_string().as_bytes(),
                    MAX_RECORDS.to_string().as_bytes(),
                    probes.to_string().as_bytes(),
                    node.as_bytes(),
                    MAX_DUE.to_string().as_bytes(),
                ],
            )
            .await?;
        decode::reclaim(&answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reclaimed(messages: u64, records: u64, nodes: &[&str]) -> Reclaimed {
        Reclaimed {
            messages,
            records,
            woken: 0,
            next_due: None,
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
        }
    }

    #[test]
    fn what_several_calls_returned_adds_up_and_names_each_node_once() {
        let mut all = reclaimed(3, 0, &["b", "a"]);
        all.add(reclaimed(2, 5, &["a", "c", "b"]));
        all.add(reclaimed(1, 1, &["c"]));
        assert_eq!(all, reclaimed(6, 6, &["b", "a", "c"]));
    }
}
