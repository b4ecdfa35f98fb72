//! The failovers of a group of servers.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Arena, Servers};

/// Replicas may be this much behind their master, at most.
const JUST_BEFORE: Duration = Duration::from_secs(1);

/// A time in which a group of servers may forget what its master had acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Failover {
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
    /// Notes that from now on the group may forget what its master had acknowledged.
    pub fn begin_failover(&mut self) {
        self.failovers.push(Failover {
            from: Instant::now(),
            until: None,
        });
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
                Ok(master) => {
                    self.note_whole(master);
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

    /// On a busy machine Sentinels may replace a master that only was slow.
    fn note_whole(&mut self, master: usize) {
        let now = Instant::now();
        if let Some((before, at)) = self.whole.replace((master, now)) {
            let known = self.failovers.iter().any(|of| of.from > at);
            if before != master && !known {
                self.failovers.push(Failover {
                    from: at,
                    until: None,
                });
            }
        }
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
