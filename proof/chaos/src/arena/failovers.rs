//! The failovers of a group of servers.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Arena, Servers};

/// Replicas may be this much behind their master, at most.
const JUST_BEFORE: Duration = Duration::from_secs(1);

/// A time in which a group of servers may forget what its master had acknowledged.
#[derive(Debug, Clone)]
pub struct Failover {
    /// The partitions of that master.
    pub partitions: Vec<u32>,
    /// When the fault began.
    pub from: Instant,
    /// When the group was whole again and the fleet had recovered; `None` if it never did.
    pub until: Option<Instant>,
}

impl Failover {
    /// All of it. What the last master acknowledged just before counts, too.
    pub fn time(&self) -> RangeInclusive<Instant> {
        let from = self.from.checked_sub(JUST_BEFORE).unwrap_or(self.from);
        from..=self.until.unwrap_or_else(Instant::now)
    }
}

impl Arena {
    /// Notes that from now on the group may forget what this master had acknowledged.
    pub fn begin_failover(&mut self, master: usize) -> Result<()> {
        let partitions = self.group()?.partitions_of(master)?;
        self.failovers.push(Failover {
            partitions,
            from: Instant::now(),
            until: None,
        });
        Ok(())
    }

    /// Waits until a group of servers is whole; a single server always is.
    pub fn wait_until_whole(&mut self) -> Result<()> {
        let timeout = self.settings.timeout;
        let deadline = Instant::now() + timeout;
        loop {
            let Servers::Group(group) = &self.servers else {
                return Ok(());
            };
            match group.check_whole() {
                Ok(masters) => {
                    self.note_whole(masters);
                    return Ok(());
                }
                Err(error) if Instant::now() > deadline => {
                    return Err(error).with_context(|| {
                        format!("the group of servers is not whole within {timeout:?}")
                    });
                }
                Err(_) => self.stop.pause_poll()?,
            }
        }
    }

    /// On a busy machine Sentinels or a cluster may replace a master that only was slow.
    fn note_whole(&mut self, masters: Vec<usize>) {
        let (whole, now) = (self.whole.take(), Instant::now());
        if let Some((before, at)) = whole {
            let known = self.failovers.iter().filter(|of| of.from > at);
            let known: Vec<u32> = known.flat_map(|of| of.partitions.clone()).collect();
            let pairs = (0..).zip(before.iter().zip(&masters));
            let changed = pairs.filter(|(_, (before, now))| before != now);
            let mut changed: Vec<u32> = changed.map(|(partition, _)| partition).collect();
            changed.retain(|partition| !known.contains(partition));
            if !changed.is_empty() {
                self.failovers.push(Failover {
                    partitions: changed,
                    from: at,
                    until: None,
                });
            }
        }
        self.whole = Some((masters, now));
    }

    /// Notes that the fleet has recovered from its failovers. The group may have lost its master
    /// meanwhile, so it is looked at once more.
    pub fn end_failovers(&mut self) -> Result<()> {
        self.wait_until_whole()?;
        let now = Instant::now();
        for failover in &mut self.failovers {
            failover.until.get_or_insert(now);
        }
        Ok(())
    }
}
