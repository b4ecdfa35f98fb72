//! The servers of a fleet: one, or the masters of a cluster. It sums up what they used.

use anyhow::Result;
use baton::{FleetName, Target};
use baton_bench::{FleetProbe, ServerProbe, Shards};
use baton_figures::ServerProgram;
use baton_server::{ClusterGroup, PrivateServer};

/// One server or a cluster without replicas.
pub(super) struct ServerGroup {
    servers: Servers,
    probe: FleetProbe,
}

enum Servers {
    One(PrivateServer),
    Cluster(ClusterGroup),
}

impl Servers {
    fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }
}

impl ServerGroup {
    /// A server that is in no cluster.
    pub(super) fn one(program: &ServerProgram) -> Result<Self> {
        Self::new(Servers::One(program.start()?))
    }

    /// A cluster of so many masters, without replicas.
    pub(super) fn cluster(program: &ServerProgram, masters: usize) -> Result<Self> {
        let builder = ClusterGroup::builder(program.builder());
        let cluster = builder.masters(masters).replicas(0).start()?;
        Self::new(Servers::Cluster(cluster))
    }

    fn new(servers: Servers) -> Result<Self> {
        let probe = FleetProbe::open(&Target::parse(&servers.url())?)?;
        Ok(Self { servers, probe })
    }

    /// Where clients find the fleet.
    pub(super) fn url(&self) -> String {
        self.servers.url()
    }

    /// The servers, in the order of the slots that they have.
    pub(super) fn servers(&self) -> &[PrivateServer] {
        match &self.servers {
            Servers::One(server) => std::slice::from_ref(server),
            Servers::Cluster(cluster) => &cluster.servers,
        }
    }

    /// Name and version of the servers.
    pub(super) fn version(&mut self) -> Result<String> {
        self.probe.version()
    }

    /// Processor time of the main threads of all servers so far, in µs.
    pub(super) fn cpu_us(&mut self) -> Result<f64> {
        self.probe.cpu_us()
    }

    /// Bytes of memory that each server has allocated.
    pub(super) fn memory(&mut self) -> Result<Vec<u64>> {
        let used = |probe: &mut ServerProbe| Ok(probe.memory()?.used);
        self.probe.servers().map(used).collect()
    }

    /// Connections to each server that are not this group's own.
    pub(super) fn clients(&mut self) -> Result<Vec<u64>> {
        let count = |probe: &mut ServerProbe| {
            let info = baton_processes::Info::read(probe.redis(), "clients")?;
            Ok(info.number("connected_clients")? as u64 - 1)
        };
        self.probe.servers().map(count).collect()
    }

    /// Removes all data. No node may run any more.
    pub(super) fn clear(&mut self) -> Result<()> {
        let flush = |probe: &mut ServerProbe| Ok(redis::cmd("FLUSHALL").exec(probe.redis())?);
        self.probe.servers().try_for_each(flush)
    }

    /// Which servers have the partitions of a fleet.
    pub(super) fn shards(&self, fleet: &FleetName, partitions: u32) -> Result<Shards> {
        self.probe.shards_of(fleet, partitions)
    }

    /// How many messages of a fleet were published and how many ended.
    pub(super) fn sums(&mut self, shards: &Shards) -> Result<(u64, u64)> {
        self.probe.sums(shards)
    }
}
