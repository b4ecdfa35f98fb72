//! Whether a group is whole: masters of the fleet, replicas that follow them, and Sentinels or a cluster
//! that agree.

use anyhow::{Context, Result, bail, ensure};
use baton_processes::Info;

use super::{Group, Kind, Member, port, probe};

impl Group {
    /// Checks that the group could lose any master of the fleet now: all Sentinels or all servers of the
    /// cluster name the same ones and see all others, and their replicas have all that they had. Returns
    /// the master of each partition, or an error that says what is missing.
    pub fn check_whole(&self) -> Result<Vec<usize>> {
        let masters = self.masters()?;
        let mut shards = masters.clone();
        match &self.kind {
            Kind::Sentinels(sentinels) => sentinels.check(masters[0])?,
            Kind::Cluster(cluster) => {
                cluster.group.check_complete()?;
                shards.push(self.master(self.control_shard())?);
            }
        }
        shards.sort_unstable();
        shards.dedup();
        shards
            .into_iter()
            .try_for_each(|master| self.check_shard(master))?;
        Ok(masters)
    }

    /// Checks that the replicas of a master have all that it had.
    fn check_shard(&self, master: usize) -> Result<()> {
        let replicas = self.replicas(master)?;
        let wanted = self.check_master(master, replicas.len())?;
        for replica in replicas {
            self.check_replica(replica, master, wanted)
                .with_context(|| Member::Server(replica).to_string())?;
        }
        Ok(())
    }

    /// Returns how far the master's history goes.
    fn check_master(&self, master: usize, replicas: usize) -> Result<f64> {
        let info = Info::read(&mut probe(&self.servers()[master])?, "replication")?;
        let role = info.text("role")?;
        ensure!(role == "master", "the master's role is {role}");
        let online = (0..replicas).filter(|index| {
            let replica = info.text(&format!("slave{index}"));
            replica.is_ok_and(|replica| replica.contains("state=online"))
        });
        let online = online.count();
        ensure!(
            online == replicas,
            "{online} of {replicas} replicas are in step with the master"
        );
        info.number("master_repl_offset")
    }

    fn check_replica(&self, replica: usize, master: usize, wanted: f64) -> Result<()> {
        let info = Info::read(&mut probe(&self.servers()[replica])?, "replication")?;
        let (role, link) = (info.text("role")?, info.text("master_link_status"));
        if role != "slave" {
            bail!("its role is {role}");
        }
        ensure!(
            info.number("master_port")? == f64::from(port(&self.servers()[master])?),
            "follows another master"
        );
        ensure!(link? == "up", "has lost its master");
        ensure!(
            info.number("slave_repl_offset")? >= wanted,
            "lags behind the master"
        );
        Ok(())
    }
}
