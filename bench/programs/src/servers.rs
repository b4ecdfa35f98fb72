//! The servers that figures are measured on.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use baton_server::{Fsync, PrivateServer, PrivateServerBuilder};

/// Where `scripts/setup-servers` puts the programs, seen from the folder that cargo builds into.
const FOLDER: &str = "tools/servers";
/// The servers that the documents have figures of.
const NAMES: [&str; 3] = ["redis-7.0", "redis-8.2", "valkey-9.1"];

/// A server program of this machine.
#[derive(Debug, Clone)]
pub struct ServerProgram {
    /// Its name, such as `redis-7.0`.
    pub name: String,
    path: PathBuf,
}

impl ServerProgram {
    /// The named programs. Without names, those of the documents that this machine has.
    pub fn find(wanted: Option<&[String]>) -> Result<Vec<Self>> {
        let exe = std::env::current_exe()?.canonicalize()?;
        let folder = exe
            .ancestors()
            .map(|folder| folder.join(FOLDER))
            .find(|folder| folder.is_dir());
        let program = |name: &str| {
            let path = folder.as_ref()?.join(name);
            let name = name.to_owned();
            path.exists().then_some(Self { name, path })
        };
        let Some(wanted) = wanted else {
            let found: Vec<Self> = NAMES.iter().filter_map(|name| program(name)).collect();
            ensure!(
                !found.is_empty(),
                "no server is there: run scripts/setup-servers"
            );
            return Ok(found);
        };
        let one = |name: &String| match program(name) {
            Some(program) => Ok(program),
            None => bail!("there is no server {name}: scripts/setup-servers --list has the names"),
        };
        wanted.iter().map(one).collect()
    }

    /// Settings of a server that runs it, without persistence.
    pub fn builder(&self) -> PrivateServerBuilder {
        PrivateServer::builder().program(&self.path)
    }

    /// Starts it without persistence.
    pub fn start(&self) -> Result<PrivateServer> {
        Ok(self.builder().start()?)
    }

    /// Starts it as a replica of the server at this port.
    pub fn start_replica(&self, port: u16) -> Result<PrivateServer> {
        let builder = PrivateServer::builder()
            .program(&self.path)
            .config("replicaof", format!("127.0.0.1 {port}"))
            .config("repl-diskless-sync-delay", "0");
        Ok(builder.start()?)
    }

    /// Starts it with an append-only file that is forced to the disk every second, and that the
    /// server does not rewrite by itself: the file grows by what a run writes.
    pub fn start_everysec(&self) -> Result<PrivateServer> {
        let builder = self
            .builder()
            .appendonly(Fsync::EverySec)
            .config("auto-aof-rewrite-percentage", "0");
        Ok(builder.start()?)
    }
}
