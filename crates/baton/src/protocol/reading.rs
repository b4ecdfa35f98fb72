//! The whole fleet in one atomic read: what a snapshot is made of.

use super::{Census, Roster, Store, command, read};
use crate::snapshot::{FailedGlance, Takeover};
use crate::{Error, scripts};

/// Longest queue that is counted range by range (about 3 ms of Redis's time).
const COUNTED_RANGES: u64 = 10_000;
/// Failed messages that are looked at, and bytes of each.
const NEWEST: (u64, u64) = (20, 2048);

/// Everything that was read in one step.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) roster: Roster,
    pub(crate) census: Census,
    pub(crate) takeovers: Vec<Takeover>,
    pub(crate) newest: Vec<FailedGlance>,
}

impl Store {
    /// Reads the fleet: several read-only scripts in one transaction.
    pub(crate) async fn reading(&self) -> Result<Reading, Error> {
        let answers = match self.link.atomic(&self.questions("EVALSHA")).await {
            Err(Error::Refused(why)) if why.contains("NOSCRIPT") => {
                self.link.atomic(&self.questions("EVAL")).await
            }
            answers => answers,
        };
        let answers = match answers {
            Err(Error::Refused(why)) if why.contains("WRONGTYPE") => {
                self.check_types().await?;
                return Err(Error::Refused(why));
            }
            answers => answers?,
        };
        read::reading(&self.fleet, &answers)
    }

    fn questions(&self, verb: &str) -> [redis::Cmd; 5] {
        let keys = &self.keys;
        let script = |script: &scripts::Script, keys: &[&String], args: &[&[u8]]| {
            let text = match verb {
                "EVAL" => script.source,
                _ => &script.sha,
            };
            command(verb, text, keys, args)
        };
        let (newest, bytes) = NEWEST;
        let mut protocol = redis::cmd("HGET");
        protocol.arg(&keys.meta).arg("protocol");
        let mut takeovers = redis::cmd("LRANGE");
        takeovers.arg(&keys.takeovers).arg(&[0, -1]);
        [
            protocol,
            script(
                &scripts::ROSTER,
                &self.roster_keys(),
                &[keys.presence.as_bytes()],
            ),
            script(
                &scripts::CENSUS,
                &self.census_keys(),
                &[COUNTED_RANGES.to_string().as_bytes()],
            ),
            takeovers,
            script(
                &scripts::NEWEST,
                &[&keys.errors],
                &[newest.to_string().as_bytes(), bytes.to_string().as_bytes()],
            ),
        ]
    }
}
