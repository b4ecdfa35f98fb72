//! Reads what the server used and how far a fleet has come.

use std::time::Duration;

use anyhow::{Context, Result};
use baton::Target;
use baton_processes::{Info, redis_cpu_us};
use baton_protocol::Keys;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that reads figures of the server.
pub struct ServerProbe {
    redis: redis::Connection,
}

/// Bytes of memory that the server uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    /// Allocated now.
    pub used: u64,
    /// The most so far.
    pub peak: u64,
}

impl ServerProbe {
    /// Connects to the server that a target names.
    pub fn open(target: &Target) -> Result<Self> {
        let client = baton_protocol::redis_client(target)?;
        Self::connect(&client).with_context(|| format!("cannot use {target}"))
    }

    /// Connects to the server of a client.
    pub(crate) fn connect(client: &redis::Client) -> Result<Self> {
        let redis = client.get_connection_with_timeout(TIMEOUT)?;
        redis.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { redis })
    }

    /// The connection, for other commands.
    pub fn redis(&mut self) -> &mut redis::Connection {
        &mut self.redis
    }

    /// The server's name and version.
    pub fn version(&mut self) -> Result<String> {
        let info = Info::read(&mut self.redis, "server")?;
        Ok(match info.text("valkey_version") {
            Ok(version) => format!("Valkey {version}"),
            Err(_) => format!("Redis {}", info.text("redis_version")?),
        })
    }

    /// Processor time of the server's main thread so far, in µs.
    pub fn cpu_us(&mut self) -> Result<f64> {
        redis_cpu_us(&mut self.redis)
    }

    /// The memory that the server uses.
    pub fn memory(&mut self) -> Result<Memory> {
        let info = Info::read(&mut self.redis, "memory")?;
        Ok(Memory {
            used: info.number("used_memory")? as u64,
            peak: info.number("used_memory_peak")? as u64,
        })
    }

    /// Bytes of the append-only file. `None` if the server keeps none.
    pub fn aof_bytes(&mut self) -> Result<Option<u64>> {
        let info = Info::read(&mut self.redis, "persistence")?;
        if info.number("aof_enabled")? == 0.0 {
            return Ok(None);
        }
        Ok(Some(info.number("aof_current_size")? as u64))
    }

    /// The server's clock in µs.
    pub fn now_us(&mut self) -> Result<u64> {
        let (seconds, us): (u64, u64) = redis::cmd("TIME").query(&mut self.redis)?;
        Ok(seconds * 1_000_000 + us)
    }

    /// How many messages of a fleet were published, and how many ended.
    pub fn counts(&mut self, keys: &Keys) -> Result<(u64, u64)> {
        self.sums(std::slice::from_ref(keys))
    }

    /// How many messages of these partitions were published, and how many ended, in one round trip.
    pub(crate) fn sums(&mut self, partitions: &[Keys]) -> Result<(u64, u64)> {
        let mut pipe = redis::pipe();
        for keys in partitions {
            pipe.cmd("HGET").arg(&keys.fence).arg("last");
            pipe.cmd("HGET").arg(&keys.stats).arg("done");
            pipe.cmd("HGET").arg(&keys.stats).arg("failed");
        }
        let counts: Vec<Option<u64>> = pipe.query(&mut self.redis)?;
        let sum = |field| counts.iter().skip(field).step_by(3).flatten().sum::<u64>();
        Ok((sum(0), sum(1) + sum(2)))
    }

    /// Whether no message of a fleet waits and no worker holds one.
    pub fn at_rest(&mut self, keys: &Keys) -> Result<bool> {
        let (waiting, claimed): (u64, u64) = redis::pipe()
            .cmd("LLEN")
            .arg(&keys.queue)
            .cmd("HLEN")
            .arg(&keys.claims)
            .query(&mut self.redis)?;
        Ok(waiting + claimed == 0)
    }

    /// Removes every key of a fleet. A generator that was killed may have left a staged pack also where
    /// no message waits.
    pub fn remove(&mut self, keys: &Keys, was_killed: bool) -> Result<()> {
        let is_at_rest = self.at_rest(keys)?;
        if !is_at_rest {
            self.remove_all(&keys.pack)?;
        }
        if was_killed || !is_at_rest {
            self.remove_all(&keys.staged)?;
            self.remove_all(&keys.staged_record)?;
        }
        self.remove_long_records(keys)?;
        let mut command = redis::cmd("UNLINK");
        for (key, _) in keys.typed() {
            command.arg(key);
        }
        Ok(command.exec(&mut self.redis)?)
    }

    /// Removes the keys of long records.
    fn remove_long_records(&mut self, keys: &Keys) -> Result<()> {
        let last: Option<u64> = redis::cmd("HGET")
            .arg(&keys.errors_ids)
            .arg("last")
            .query(&mut self.redis)?;
        let ids: Vec<u64> = (1..=last.unwrap_or_default()).collect();
        for ids in ids.chunks(1000) {
            let mut command = redis::cmd("UNLINK");
            command.arg(
                ids.iter()
                    .map(|id| keys.record_key(*id))
                    .collect::<Vec<_>>(),
            );
            command.exec(&mut self.redis)?;
        }
        Ok(())
    }

    /// Removes every key that begins like this. It looks at all keys of the server.
    fn remove_all(&mut self, prefix: &str) -> Result<()> {
        let mut cursor = 0;
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(cursor).arg("MATCH").arg(format!("{prefix}*"));
            scan.arg("COUNT").arg(1000);
            let (next, packs): (u64, Vec<String>) = scan.query(&mut self.redis)?;
            if !packs.is_empty() {
                redis::cmd("UNLINK").arg(&packs).exec(&mut self.redis)?;
            }
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }
}
