//! Reads what all servers of a fleet used, and how far the fleet has come.

use anyhow::{Context, Result, anyhow, ensure};
use baton::{FleetName, Target};
use baton_protocol::{Keys, Master};

use crate::server_probe::{Memory, ServerProbe};

/// A connection to each server that has keys: to one server, or to all masters of a cluster. A slot must
/// not move while it is used.
pub struct FleetProbe {
    servers: Vec<(Master, ServerProbe)>,
}

/// The partitions of a fleet.
#[derive(Debug)]
pub struct Shards {
    /// The keys of the partitions on each server.
    of_server: Vec<Vec<Keys>>,
}

impl Shards {
    /// The keys of each partition, server by server.
    fn all(&self) -> impl Iterator<Item = &Keys> {
        self.of_server.iter().flatten()
    }
}

impl FleetProbe {
    /// Connects to all servers.
    pub fn open(target: &Target) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let masters = runtime.block_on(baton_protocol::masters(target))?;
        let open = |master: Master| {
            let probe = ServerProbe::connect(master.client());
            let probe = probe.with_context(|| format!("cannot use {target}"))?;
            Ok((master, probe))
        };
        let servers = masters.into_iter().map(open).collect::<Result<_>>()?;
        Ok(Self { servers })
    }

    /// The connection to each server.
    pub fn servers(&mut self) -> impl ExactSizeIterator<Item = &mut ServerProbe> {
        self.servers.iter_mut().map(|(_, probe)| probe)
    }

    /// The only server. It is an error if there are several.
    pub fn only(&mut self) -> Result<&mut ServerProbe> {
        match &mut self.servers[..] {
            [(_, probe)] => Ok(probe),
            several => Err(anyhow!("this needs one server, not {}", several.len())),
        }
    }

    /// The connection to the server that has these keys.
    fn of(&mut self, keys: &Keys) -> Result<&mut ServerProbe> {
        let mut servers = self.servers.iter_mut();
        let found = servers.find(|(master, _)| master.has(keys));
        let (_, probe) = found.with_context(|| format!("no server has {}", keys.fence))?;
        Ok(probe)
    }

    /// Name and version of the servers, once for all that have the same.
    pub fn version(&mut self) -> Result<String> {
        let mut versions = Vec::new();
        for server in self.servers() {
            versions.push(server.version()?);
        }
        versions.dedup();
        Ok(versions.join(", "))
    }

    /// Processor time of the main threads of all servers so far, in µs.
    pub fn cpu_us(&mut self) -> Result<f64> {
        self.servers().map(ServerProbe::cpu_us).sum()
    }

    /// The memory that all servers use. The peaks of two servers need not be at the same moment.
    pub fn memory(&mut self) -> Result<Memory> {
        let mut sum = Memory::default();
        for server in self.servers() {
            let memory = server.memory()?;
            sum.used += memory.used;
            sum.peak += memory.peak;
        }
        Ok(sum)
    }

    /// The clock of the server that has the fleet's control keys, in µs.
    pub fn now_us(&mut self, fleet: &FleetName) -> Result<u64> {
        self.of(&Keys::new(fleet))?.now_us()
    }

    /// The partitions of a fleet that has begun.
    pub fn shards(&mut self, fleet: &FleetName) -> Result<Shards> {
        let control = Keys::new(fleet);
        let mut command = redis::cmd("HGET");
        command.arg(&control.meta).arg("partitions");
        let count: Option<u32> = command.query(self.of(&control)?.redis())?;
        self.shards_of(fleet, count.unwrap_or(1))
    }

    /// The partitions of a fleet that has so many.
    pub fn shards_of(&self, fleet: &FleetName, partitions: u32) -> Result<Shards> {
        let all = (0..partitions).map(|index| Keys::of_partition(fleet, index, partitions));
        let all: Vec<Keys> = all.collect();
        let of_server = |(master, _): &(Master, _)| -> Vec<Keys> {
            let on_it = all.iter().filter(|keys| master.has(keys));
            on_it.cloned().collect()
        };
        let of_server: Vec<_> = self.servers.iter().map(of_server).collect();
        let found: usize = of_server.iter().map(Vec::len).sum();
        let all = all.len();
        ensure!(
            found == all,
            "only {found} of {all} partitions have a server"
        );
        Ok(Shards { of_server })
    }

    /// How many messages of all partitions were published, and how many ended, with one round trip to
    /// each server.
    pub fn sums(&mut self, shards: &Shards) -> Result<(u64, u64)> {
        let mut sums = (0, 0);
        for (server, partitions) in self.servers().zip(&shards.of_server) {
            // A pipeline without commands is an error.
            if !partitions.is_empty() {
                let (published, ended) = server.sums(partitions)?;
                sums = (sums.0 + published, sums.1 + ended);
            }
        }
        Ok(sums)
    }

    /// Whether so many nodes are idle in each partition.
    pub fn are_idle(&mut self, shards: &Shards, nodes: usize) -> Result<bool> {
        for keys in shards.all() {
            let mut command = redis::cmd("ZCARD");
            let idle: usize = command.arg(&keys.idle).query(self.of(keys)?.redis())?;
            if idle < nodes {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no message of any partition waits and no worker holds one.
    pub fn at_rest(&mut self, shards: &Shards) -> Result<bool> {
        for keys in shards.all() {
            if !self.of(keys)?.at_rest(keys)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes every key of a fleet, as far as its servers answer. `was_killed`: whether nodes of it were.
    pub(crate) fn remove(&mut self, fleet: &FleetName, was_killed: bool) -> Result<()> {
        let shards = self.shards(fleet)?;
        let mut removed = Ok(());
        let others: Vec<_> = std::iter::once(Keys::new(fleet))
            .chain(Keys::spares(fleet))
            .collect();
        for keys in shards.all().chain(&others) {
            let server = self.of(keys);
            removed = removed.and(server.and_then(|server| server.remove(keys, was_killed)));
        }
        removed
    }
}
