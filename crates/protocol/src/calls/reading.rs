//! Reading the whole fleet: who is here, where every message is, what a snapshot is made of.
//!
//! Plain reads in one transaction, put together here. A script would do the same at seven times
//! the cost, and the server does nothing else meanwhile.

use std::collections::BTreeMap;

use redis::Value;

use super::answer::array;
use super::{Store, command, decode};
use crate::{Error, scripts};
use crate::{FailedGlance, Takeover};

/// Longest queue that is counted range by range, and the same for a look every second.
const COUNTED_RANGES: (u64, u64) = (100_000, 10_000);
/// Failed messages that are looked at, and bytes of each.
const NEWEST: (u64, u64) = (20, 2048);
/// A longer one is only named: scripts get a record whole or not at all.
const NEWEST_READABLE: u64 = 32 << 10;

/// Who holds the lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The holder, if the lease has one.
    pub node: Option<String>,
    /// The fencing number.
    pub epoch: u64,
    /// Since when the holder has it, in ms.
    pub since_ms: u64,
    /// Until when, in ms.
    pub until_ms: u64,
}

/// A node as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub node: String,
    /// What it says about itself, a JSON object.
    pub about: String,
    /// When it joined the line of standbys, in ms; 0 if it is in none.
    pub joined_ms: u64,
    /// Its last beat, in ms.
    pub seen_ms: u64,
    /// Whether its process is connected at this moment.
    pub present: bool,
}

/// Everybody, read in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roster {
    /// Redis's clock in ms.
    pub now_ms: u64,
    /// The lease.
    pub lease: Lease,
    /// The nodes.
    pub nodes: Vec<Listed>,
}

/// Where every message is, counted in one atomic step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// Messages accepted so far.
    pub published: u64,
    /// Ended well.
    pub done: u64,
    /// Ended as failed.
    pub failed: u64,
    /// Waiting.
    pub pending: u64,
    /// In workers' hands.
    pub claimed: u64,
    /// Error records waiting to be taken, those in a drain's hands included.
    pub errors: u64,
    /// Entries found in the queue that were not ours.
    pub foreign: u64,
    /// Failed messages that went back into the queue.
    pub retried: u64,
    /// Whether `pending` was counted range by range, not derived from the counters.
    pub counted: bool,
    /// Redis's clock in ms.
    pub now_ms: u64,
    /// How many messages are in whose hands.
    pub in_hand: BTreeMap<String, u64>,
}

impl Census {
    /// The conservation check: every message is in exactly one place.
    pub fn balanced(&self) -> bool {
        // What is counted from foreign entries may be as large as a number gets.
        let sum = |counts: &[u64]| counts.iter().copied().map(u128::from).sum::<u128>();
        sum(&[self.published, self.retried])
            == sum(&[self.done, self.failed, self.pending, self.claimed])
    }
}

/// Everything that was read in one step.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The lease and the nodes.
    pub roster: Roster,
    /// Where every message is.
    pub census: Census,
    /// Changes of the lease, newest first.
    pub takeovers: Vec<Takeover>,
    /// The newest failed messages, newest first.
    pub newest: Vec<FailedGlance>,
}

impl Store {
    /// Who is here and who generates.
    pub async fn roster(&self) -> Result<Roster, Error> {
        decode::roster(&self.keys.presence, &self.ask(&self.about_nodes()).await?)
    }

    /// Counts where every message is.
    pub async fn census(&self) -> Result<Census, Error> {
        self.census_up_to(COUNTED_RANGES.0).await
    }

    /// The same from the counters alone, at any length of the queue.
    pub async fn quick_census(&self) -> Result<Census, Error> {
        self.census_up_to(0).await
    }

    async fn census_up_to(&self, ranges: u64) -> Result<Census, Error> {
        decode::census(ranges, &self.ask(&self.about_messages(ranges)).await?)
    }

    /// Reads the fleet.
    pub async fn reading(&self) -> Result<Reading, Error> {
        let ranges = COUNTED_RANGES.1;
        let keys = &self.keys;
        let (newest, bytes) = NEWEST;
        let newest = [newest, bytes, NEWEST_READABLE].map(|number| number.to_string());
        let args = newest.each_ref().map(String::as_bytes);
        let own = [
            plain(&["HGET", &keys.meta, "protocol"]),
            plain(&["LRANGE", &keys.takeovers, "0", "-1"]),
            // The whole text: it is short, and a reader needs the right to one command less.
            command(
                self.eval_verb(),
                scripts::NEWEST.source,
                &[&keys.errors, &keys.errors_held, &keys.errors_ids],
                &args,
            ),
        ];
        let nodes = self.about_nodes().into_iter();
        let questions = nodes.chain(self.about_messages(ranges)).chain(own);
        let answers = match self.ask(&questions.collect::<Vec<_>>()).await {
            Err(Error::Refused(why)) if why.contains("can't run this command") => {
                self.name_missing_right().await?;
                return Err(Error::Refused(why));
            }
            answers => answers?,
        };
        decode::reading(&self.fleet, &keys.presence, ranges, &answers)
    }

    /// Most servers do not say which command of a script a user may not run: asked for by itself,
    /// they do.
    async fn name_missing_right(&self) -> Result<(), Error> {
        for command in ["HSTRLEN", "HEXISTS"] {
            let command = plain(&[command, &self.keys.errors, "1"]);
            self.link.call(&command).await?;
        }
        Ok(())
    }

    /// How to run a script that only reads. `EVAL` needs the right to write the keys it is given;
    /// `EVAL_RO` does not, and came with 7.0. Before that, rights have no such difference.
    fn eval_verb(&self) -> &'static str {
        match self.link.server() {
            Some(server) if server.release < (7, 0) => "EVAL",
            _ => "EVAL_RO",
        }
    }

    fn about_nodes(&self) -> [redis::Cmd; 6] {
        let keys = &self.keys;
        [
            plain(&["TIME"]),
            plain(&["HMGET", &keys.generator, "node", "epoch", "since", "until"]),
            plain(&["HGETALL", &keys.nodes]),
            plain(&["ZRANGE", &keys.joined, "0", "-1", "WITHSCORES"]),
            plain(&["ZRANGE", &keys.seen, "0", "-1", "WITHSCORES"]),
            // A fleet's name has nothing in it that a pattern could take for more.
            plain(&["PUBSUB", "CHANNELS", &format!("{}*", keys.presence)]),
        ]
    }

    fn about_messages(&self, ranges: u64) -> [redis::Cmd; 7] {
        let keys = &self.keys;
        // From the second to the first is none.
        let (from, to) = match ranges.checked_sub(1) {
            Some(last) => ("0", last.to_string()),
            None => ("1", "0".to_owned()),
        };
        [
            plain(&["TIME"]),
            plain(&["HGET", &keys.fence, "last"]),
            plain(&["HMGET", &keys.stats, "done", "failed", "foreign", "retried"]),
            plain(&["LLEN", &keys.queue]),
            plain(&["LRANGE", &keys.queue, from, &to]),
            plain(&["HGETALL", &keys.claims]),
            plain(&["HLEN", &keys.errors]),
        ]
    }

    /// Asks all of it in one step.
    pub(super) async fn ask(&self, questions: &[redis::Cmd]) -> Result<Vec<Value>, Error> {
        let asked = match self.link.atomic(questions).await {
            Err(Error::Unavailable(why)) if why.starts_with("OOM") => {
                self.ask_in_a_script(questions).await
            }
            asked => asked,
        };
        match asked {
            Err(Error::Refused(why)) if why.contains("WRONGTYPE") => {
                self.check_types().await?;
                Err(Error::Refused(why))
            }
            Err(Error::Refused(why)) if why.starts_with("NOPERM") => Err(Error::Refused(format!(
                "the Redis user lacks a right that looking at a fleet needs: {why}"
            ))),
            answers => answers,
        }
    }

    /// Asks in one step where the server's memory is full and it refuses the transaction. Scripts
    /// among the questions are asked behind it, for a script cannot run another.
    async fn ask_in_a_script(&self, questions: &[redis::Cmd]) -> Result<Vec<Value>, Error> {
        let questions: Vec<Vec<&[u8]>> = questions.iter().map(words).collect();
        let is_script =
            |words: &[&[u8]]| words.first().is_some_and(|word| word.starts_with(b"EVAL"));
        let mut ask = redis::cmd(self.eval_verb());
        ask.arg(scripts::TOGETHER.source).arg(0);
        for words in questions.iter().filter(|words| !is_script(words)) {
            ask.arg(words.len()).arg(words);
        }
        let answers = self.link.call(&ask).await?;
        let mut answers = array(scripts::TOGETHER.name, &answers)?.iter();
        let mut all = Vec::new();
        for words in &questions {
            all.push(match is_script(words) {
                true => {
                    let mut script = redis::Cmd::new();
                    script.arg(words);
                    self.link.call(&script).await?
                }
                false => {
                    let answer = answers.next().cloned().unwrap_or(Value::Nil);
                    decode::as_of_a_command(words, answer)?
                }
            });
        }
        Ok(all)
    }

    /// Makes sure that this user may ask so.
    pub(super) async fn check_asking(&self) -> Result<(), Error> {
        match self.ask(&[plain(&["TIME"])]).await {
            Err(Error::Refused(why)) => Err(Error::Refused(format!(
                "the Redis user lacks commands that a fleet needs: multi, exec ({why})"
            ))),
            asked => asked.map(drop),
        }
    }
}

/// The words of a command.
fn words(command: &redis::Cmd) -> Vec<&[u8]> {
    let word = |arg| match arg {
        redis::Arg::Simple(word) => Some(word),
        // What scans takes; none of ours does.
        _ => None,
    };
    command.args_iter().filter_map(word).collect()
}

fn plain(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command
}
