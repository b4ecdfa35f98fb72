//! Looking after the fleet's messages: returning what the dead held, reading what was written down.

use std::collections::HashSet;

use super::{Store, decode};
use crate::{Error, scripts};

/// Most claims that one call looks at: Redis does nothing else meanwhile.
const RECLAIM_CLAIMS: u64 = 64;
/// Claims in which a call looks for one that has no deadline, and in which `clean` does.
const RECLAIM_LOOKS: (u64, u64) = (2, 1000);
/// Error records after which it looks at no further claim.
const RECLAIM_RECORDS: u64 = 3_000;

/// Entries of the ledger that are read at a time.
const LEDGER_PAGE: u64 = 10_000;

/// What a reclaim returned to where it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Messages back in the queue.
    pub messages: u64,
    /// Error records back in the errors store.
    pub records: u64,
    /// The dead who held them.
    pub nodes: Vec<String>,
}

impl Reclaimed {
    /// Adds what another call returned; each node is named once.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.records += other.records;
        let known: HashSet<&str> = self.nodes.iter().map(String::as_str).collect();
        let mut new = other.nodes;
        new.retain(|node| !known.contains(node.as_str()));
        self.nodes.append(&mut new);
    }
}

impl Store {
    /// Returns the claims of dead workers and drains.
    pub async fn reclaim(&self) -> Result<Reclaimed, Error> {
        self.reclaim_from(&self.link.run_id(), 0, RECLAIM_LOOKS.0)
            .await
    }

    /// The same for all claims, believing absence from presence whatever happened to the server
    /// since.
    pub async fn reclaim_absent(&self) -> Result<Reclaimed, Error> {
        let mut all = self.reclaim_from("", 0, RECLAIM_LOOKS.1).await?;
        let (mut skip, mut claims) = (0, self.claims_len().await?);
        loop {
            let some = self.reclaim_from("", skip, RECLAIM_LOOKS.0).await?;
            let cut_short = some.records >= RECLAIM_RECORDS;
            let none = some.nodes.is_empty();
            all.add(some);
            if claims <= skip + RECLAIM_CLAIMS && !cut_short {
                return Ok(all);
            }
            if none {
                // They live, and are passed over.
                skip += RECLAIM_CLAIMS;
            }
            claims = self.claims_len().await?;
        }
    }

    async fn claims_len(&self) -> Result<u64, Error> {
        let mut command = redis::cmd("ZCARD");
        command.arg(&self.keys.deadlines);
        decode::length(&self.link.call(&command).await?)
    }

    async fn reclaim_from(&self, run: &str, skip: u64, looks: u64) -> Result<Reclaimed, Error> {
        let answer = self
            .eval(
                &scripts::RECLAIM,
                &self.return_keys(),
                &[
                    run.as_bytes(),
                    self.keys.presence.as_bytes(),
                    RECLAIM_CLAIMS.to_string().as_bytes(),
                    skip.to_string().as_bytes(),
                    RECLAIM_RECORDS.to_string().as_bytes(),
                    looks.to_string().as_bytes(),
                ],
            )
            .await?;
        decode::reclaim(&answer)
    }

    /// The entries of the ledger, oldest first, without the first `skip`.
    pub async fn ledger(&self, skip: usize) -> Result<Vec<String>, Error> {
        let mut entries = Vec::new();
        loop {
            let mut command = redis::cmd("LRANGE");
            let from = (skip + entries.len()) as u64;
            command
                .arg(&self.keys.ledger)
                .arg(from)
                .arg(from + LEDGER_PAGE - 1);
            let page = decode::lines(&self.link.call(&command).await?)?;
            if page.is_empty() {
                return Ok(entries);
            }
            entries.extend(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reclaimed(messages: u64, records: u64, nodes: &[&str]) -> Reclaimed {
        Reclaimed {
            messages,
            records,
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
