//! The state of a fleet at one moment. `baton::Snapshot` is made of it.
//!
//! It has a *roster*, which lists the nodes and the lease, and a *census*, which counts where every
//! message is. The server runs plain reads in one transaction; this process does the counting. A
//! script that counts costs the server seven times as much. The one script in the transaction is
//! `newest.lua`: it cuts long failed messages, so that they do not travel whole.

use std::collections::BTreeMap;

use super::{Paused, Store, command, decode};
use crate::{Error, FailedPreview, Takeover, scripts};

/// Max ranges of a queue that a census counts one by one.
const CENSUS_RANGES: u64 = 100_000;
/// The same for a fleet's state, which is read every second.
const STATE_RANGES: u64 = 10_000;
/// How many of the newest failed messages are read, and how many bytes of each.
const NEWEST_FAILED: u64 = 20;
const NEWEST_BYTES: u64 = 2048;
/// Max bytes of a record that the script reads: it gets a record whole or not at all.
const MAX_NEWEST_RECORD: u64 = 32 << 10;

/// The lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The holder, if the lease has one.
    pub node: Option<String>,
    /// The fencing number.
    pub epoch: u64,
    /// When the holder got it, in ms on Redis's clock.
    pub since_ms: u64,
    /// When it expires, in ms on Redis's clock.
    pub until_ms: u64,
}

/// A node in the roster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RosterEntry {
    /// Its name.
    pub node: String,
    /// The JSON object that its last beat sent.
    pub about: String,
    /// When it joined the line of standbys, in ms; 0 if it is not in line.
    pub joined_ms: u64,
    /// Its last beat, in ms.
    pub seen_ms: u64,
    /// Whether its process is connected at this moment.
    pub present: bool,
}

/// The nodes and the lease, read in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Redis's clock in ms.
    pub now_ms: u64,
    /// The lease.
    pub lease: Lease,
    /// The nodes.
    pub nodes: Vec<RosterEntry>,
}

/// Where every message is, read in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Published messages.
    pub published: u64,
    /// Messages that ended well.
    pub done: u64,
    /// Messages that ended as failed.
    pub failed: u64,
    /// Messages that wait in the queue.
    pub pending: u64,
    /// Messages that workers have claimed.
    pub claimed: u64,
    /// Messages that wait for their next attempt.
    pub delayed: u64,
    /// When the first of them is due, in ms on Redis's clock.
    pub next_due_ms: Option<u64>,
    /// Records in the errors store, also those that drains hold.
    pub errors: u64,
    /// Foreign entries that claims found in the queue.
    pub foreign: u64,
    /// Failed messages that were retried.
    pub retried: u64,
    /// Numbers whose messages the server forgot, in a failover or a restart.
    pub void: u64,
    /// Records that were dropped: because of their age, or by hand.
    pub dropped: u64,
    /// Whether `pending` was counted range by range, not computed from the counters.
    pub counted: bool,
    /// Redis's clock in ms.
    pub now_ms: u64,
    /// What is paused.
    pub paused: Paused,
    /// Node → how many messages it has claimed.
    pub claimed_by: BTreeMap<String, u64>,
}

impl Census {
    /// Adds the messages of another partition. What is paused in any of the two is paused, since the
    /// earlier time.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in [
            (&mut self.published, other.published),
            (&mut self.done, other.done),
            (&mut self.failed, other.failed),
            (&mut self.pending, other.pending),
            (&mut self.claimed, other.claimed),
            (&mut self.delayed, other.delayed),
            (&mut self.errors, other.errors),
            (&mut self.foreign, other.foreign),
            (&mut self.retried, other.retried),
            (&mut self.void, other.void),
            (&mut self.dropped, other.dropped),
        ] {
            *sum = sum.saturating_add(count);
        }
        let due = [self.next_due_ms, other.next_due_ms];
        self.next_due_ms = due.into_iter().flatten().min();
        self.counted &= other.counted;
        self.paused = self.paused.in_any(other.paused);
        for (node, claimed) in &other.claimed_by {
            let sum = self.claimed_by.entry(node.clone()).or_default();
            *sum = sum.saturating_add(*claimed);
        }
    }

    /// The conservation check: every message is in exactly one place.
    pub fn balanced(&self) -> bool {
        // Foreign entries can make a count as large as a number can be.
        let sum = |counts: &[u64]| counts.iter().copied().map(u128::from).sum::<u128>();
        sum(&[self.published, self.retried])
            == sum(&[
                self.done,
                self.failed,
                self.pending,
                self.claimed,
                self.delayed,
                self.void,
            ])
    }
}

/// The whole state of a fleet, read in one step.
#[derive(Debug, Clone)]
pub struct FleetState {
    /// The lease and the nodes.
    pub roster: Roster,
    /// Where every message is.
    pub census: Census,
    /// Takeovers of the lease, newest first.
    pub takeovers: Vec<Takeover>,
    /// The newest failed messages, newest first.
    pub newest: Vec<FailedPreview>,
}

/// The messages of one partition, read in one step.
#[derive(Debug, Clone)]
pub struct PartitionState {
    /// Where every message is.
    pub census: Census,
    /// The newest failed messages, newest first.
    pub newest: Vec<FailedPreview>,
}

impl Store {
    /// Reads which nodes there are and which one generates.
    pub async fn roster(&self) -> Result<Roster, Error> {
        let answers = self.transaction(&self.roster_commands()).await?;
        decode::roster(&self.keys.presence, &answers)
    }

    /// Redis's clock, in ms.
    pub async fn now_ms(&self) -> Result<u64, Error> {
        decode::now_ms(&self.link.call(&plain(&["TIME"])).await?)
    }

    /// Counts where every message is.
    pub async fn census(&self) -> Result<Census, Error> {
        self.census_up_to(CENSUS_RANGES).await
    }

    /// A census from the counters alone, whose cost does not depend on the queue.
    pub async fn quick_census(&self) -> Result<Census, Error> {
        self.census_up_to(0).await
    }

    async fn census_up_to(&self, ranges: u64) -> Result<Census, Error> {
        let answers = self.transaction(&self.census_commands(ranges)).await?;
        decode::census(ranges, &answers)
    }

    /// Reads the fleet's state. In a fleet of several partitions the control store has no messages: see
    /// [`Store::partition_state`].
    pub async fn fleet_state(&self) -> Result<FleetState, Error> {
        let keys = &self.keys;
        let rest = [
            plain(&["HMGET", &keys.meta, "protocol", "partitions"]),
            plain(&["LRANGE", &keys.takeovers, "0", "-1"]),
            self.newest_command(),
        ];
        let roster = self.roster_commands().into_iter();
        let commands = roster.chain(self.census_commands(STATE_RANGES)).chain(rest);
        let answers = self
            .state_transaction(&commands.collect::<Vec<_>>())
            .await?;
        let (presence, partitions) = (&keys.presence, self.place.count);
        decode::fleet_state(&self.fleet, partitions, presence, STATE_RANGES, &answers)
    }

    /// Reads where the messages of this partition are. All partitions together cost as much as one.
    pub async fn partition_state(&self) -> Result<PartitionState, Error> {
        let ranges = (STATE_RANGES / u64::from(self.place.count)).max(1);
        let commands = self.census_commands(ranges).into_iter();
        let commands = commands.chain([self.newest_command()]);
        let answers = self
            .state_transaction(&commands.collect::<Vec<_>>())
            .await?;
        decode::partition_state(ranges, &answers)
    }

    /// Reads the newest failed messages.
    fn newest_command(&self) -> redis::Cmd {
        let keys = &self.keys;
        let newest = [NEWEST_FAILED, NEWEST_BYTES, MAX_NEWEST_RECORD];
        let newest = newest.map(|number| number.to_string());
        // EVAL, not EVALSHA: the script is short, and a viewer needs one right less.
        command(
            self.eval_verb(),
            &scripts::NEWEST.source,
            &[&keys.errors, &keys.errors_held, &keys.errors_ids],
            &newest.each_ref().map(String::as_bytes),
        )
    }

    async fn state_transaction(&self, commands: &[redis::Cmd]) -> Result<Vec<redis::Value>, Error> {
        match self.transaction(commands).await {
            Err(Error::Refused(why)) if why.contains("can't run this command") => {
                self.name_missing_right().await?;
                Err(Error::Refused(why))
            }
            answers => answers,
        }
    }

    /// Most servers do not say which command of a script the user may not run. So this sends the
    /// commands one by one, and returns the server's refusal.
    async fn name_missing_right(&self) -> Result<(), Error> {
        for command in ["HGET", "HSTRLEN", "HEXISTS"] {
            let command = plain(&[command, &self.keys.errors, "1"]);
            self.link.call(&command).await?;
        }
        Ok(())
    }

    /// The command that runs a script which only reads. `EVAL` needs the right to write its keys;
    /// `EVAL_RO` does not. Servers before 7.0 have neither `EVAL_RO` nor separate rights.
    pub(super) fn eval_verb(&self) -> &'static str {
        match self.link.server() {
            Some(server) if server.release < (7, 0) => "EVAL",
            _ => "EVAL_RO",
        }
    }

    fn roster_commands(&self) -> [redis::Cmd; 6] {
        let keys = &self.keys;
        [
            plain(&["TIME"]),
            plain(&["HMGET", &keys.generator, "node", "epoch", "since", "until"]),
            plain(&["HGETALL", &keys.nodes]),
            plain(&["ZRANGE", &keys.joined, "0", "-1", "WITHSCORES"]),
            plain(&["ZRANGE", &keys.seen, "0", "-1", "WITHSCORES"]),
            // A fleet's name has no character that is special in a pattern.
            plain(&["PUBSUB", "CHANNELS", &format!("{}*", keys.presence)]),
        ]
    }

    fn census_commands(&self, ranges: u64) -> [redis::Cmd; 9] {
        let keys = &self.keys;
        // From the second to the first is an empty list.
        let (from, to) = match ranges.checked_sub(1) {
            Some(last) => ("0", last.to_string()),
            None => ("1", "0".to_owned()),
        };
        [
            plain(&["TIME"]),
            plain(&[
                "HMGET",
                &keys.fence,
                "last",
                "generator_paused",
                "workers_paused",
            ]),
            plain(&[
                "HMGET",
                &keys.stats,
                "done",
                "failed",
                "foreign",
                "retried",
                "dropped",
                "void",
            ]),
            plain(&["LLEN", &keys.queue]),
            plain(&["LRANGE", &keys.queue, from, &to]),
            plain(&["HGETALL", &keys.claims]),
            plain(&["ZCARD", &keys.delayed]),
            plain(&["ZRANGE", &keys.delayed, "0", "0", "WITHSCORES"]),
            plain(&["HLEN", &keys.errors]),
        ]
    }
}

pub(super) fn plain(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
}
