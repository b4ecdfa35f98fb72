//! Whether a group is whole: one master, replicas that follow it, and Sentinels that agree.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use baton_processes::Info;

use super::{EACH, Group, MASTER, Member, port, probe};

impl Group {
    /// Checks that the group could lose its master now: all Sentinels name the same server and see
    /// all others, and both replicas have all that the master had. Returns the master, or an error that says
    /// what is missing.
    pub fn check_whole(&self) -> Result<usize> {
        let master = self.master()?;
        for index in 0..self.sentinels.len() {
            self.check_sentinel(index, master)
                .with_context(|| Member::Sentinel(index).to_string())?;
        }
        let wanted = self.check_master(master)?;
        for replica in (0..EACH).filter(|index| *index != master) {
            self.check_replica(replica, master, wanted)
                .with_context(|| Member::Server(replica).to_string())?;
        }
        Ok(master)
    }

    /// Whether each Sentinel knows that a server must not be promoted.
    pub fn is_passed_over(&self, server: usize) -> Result<bool> {
        let wanted = port(&self.servers[server])?.to_string();
        for sentinel in &self.sentinels {
            let all: Vec<HashMap<String, String>> = ask("REPLICAS").query(&mut probe(sentinel)?)?;
            let is_seen = |seen: &HashMap<String, String>| {
                let has = |field, value| seen.get(field).is_some_and(|found| found == value);
                has("port", wanted.as_str()) && has("slave-priority", "0")
            };
            if !all.iter().any(is_seen) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check_sentinel(&self, index: usize, master: usize) -> Result<()> {
        let mut sentinel = probe(&self.sentinels[index])?;
        ensure!(
            self.master_of(&mut sentinel)? == master,
            "names another master"
        );
        let seen: HashMap<String, String> = ask("MASTER").query(&mut sentinel)?;
        check_flags("the master", &seen)?;
        for (word, what) in [("REPLICAS", "a replica"), ("SENTINELS", "another Sentinel")] {
            let all: Vec<HashMap<String, String>> = ask(word).query(&mut sentinel)?;
            ensure!(all.len() == EACH - 1, "sees {} × {what}", all.len());
            for seen in &all {
                check_flags(what, seen)?;
                // A Sentinel that has not asked yet would demote a server once more.
                let role = seen.get("role-reported").map_or("slave", String::as_str);
                ensure!(role == "slave", "sees {what} as a {role}");
            }
        }
        Ok(())
    }

    /// Returns how far the master's history goes.
    fn check_master(&self, master: usize) -> Result<f64> {
        let info = Info::read(&mut probe(&self.servers[master])?, "replication")?;
        let role = info.text("role")?;
        ensure!(role == "master", "the master's role is {role}");
        let online = (0..EACH - 1).filter(|index| {
            let replica = info.text(&format!("slave{index}"));
            replica.is_ok_and(|replica| replica.contains("state=online"))
        });
        let online = online.count();
        ensure!(
            online == EACH - 1,
            "{online} of {} replicas are in step with the master",
            EACH - 1
        );
        info.number("master_repl_offset")
    }

    fn check_replica(&self, replica: usize, master: usize, wanted: f64) -> Result<()> {
        let info = Info::read(&mut probe(&self.servers[replica])?, "replication")?;
        let (role, link) = (info.text("role")?, info.text("master_link_status"));
        if role != "slave" {
            bail!("its role is {role}");
        }
        ensure!(
            info.number("master_port")? == f64::from(port(&self.servers[master])?),
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

/// A question to a Sentinel about the group.
fn ask(word: &str) -> redis::Cmd {
    let mut command = redis::cmd("SENTINEL");
    command.arg(word).arg(MASTER);
    command
}

/// Flags that mean no trouble. A Sentinel keeps the last one after the trouble is over.
const HARMLESS: [&str; 4] = ["master", "slave", "sentinel", "master_down"];

/// Other flags, such as `s_down` and `disconnected`, mean trouble.
fn check_flags(what: &str, seen: &HashMap<String, String>) -> Result<()> {
    let flags = seen.get("flags").map_or("", String::as_str);
    let well = flags.split(',').all(|flag| HARMLESS.contains(&flag));
    ensure!(well, "sees {what} as {flags:?}");
    Ok(())
}
