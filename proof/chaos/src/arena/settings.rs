//! The settings of a run.

use std::path::PathBuf;
use std::time::Duration;

use crate::handlers::HandlerKind;
use crate::plan::Setup;
use crate::sources::SourceKind;
use crate::topology::{Level, Topology};

/// How many messages may wait in the fleet at least, and in each partition.
const MAX_PENDING: u32 = 60;
const MAX_PENDING_EACH: u32 = 15;

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The program, built with the feature `chaos`.
    pub program: PathBuf,
    /// The server program.
    pub server_program: PathBuf,
    /// Which servers there are.
    pub topology: Topology,
    /// How many partitions the fleet has.
    pub partitions: u32,
    /// What nodes wait for before they log.
    pub level: Level,
    /// Whether a group of servers speaks TLS.
    pub tls: bool,
    /// What handles the messages.
    pub handler: HandlerKind,
    /// What makes the messages.
    pub source: SourceKind,
    /// The program `chaos`, which has handlers and a source.
    pub own_program: PathBuf,
    /// How many nodes there are at a time.
    pub nodes: usize,
    /// Whether the server forces every write to the disk before it answers.
    pub always: bool,
    /// The library that fakes clocks, where there is one.
    pub faketime: Option<PathBuf>,
    /// Whether the server runs with that library: an allocator of its own may clash with it.
    pub server_faketime: bool,
    /// Whether there can be network namespaces.
    pub namespaces: bool,
    /// The timeout of everything that must happen.
    pub timeout: Duration,
}

impl Settings {
    /// What the run consists of.
    pub fn setup(&self) -> Setup {
        Setup {
            topology: self.topology,
            partitions: self.partitions,
            handler: self.handler,
            source: self.source,
        }
    }

    /// The words on the command line of a node that say how many partitions a new fleet gets. Only the first
    /// nodes say it: the others find out.
    pub fn partition_words(&self, node: usize) -> Vec<String> {
        let is_new = node < self.nodes;
        match self.topology {
            Topology::Single | Topology::Cluster if is_new => {
                vec!["--partitions".to_owned(), self.partitions.to_string()]
            }
            _ => Vec::new(),
        }
    }

    /// How many messages may wait: enough that each partition has packs of several messages.
    pub fn max_pending(&self) -> u32 {
        MAX_PENDING.max(self.partitions * MAX_PENDING_EACH)
    }

    /// The library that fakes the clocks of nodes. Commands would inherit it, and it shares a lock
    /// with its children: a command that is killed while it holds the lock would stop its node.
    pub fn node_faketime(&self) -> Option<&PathBuf> {
        let faketime = self.faketime.as_ref();
        let has_commands = self.handler == HandlerKind::Exec || self.source == SourceKind::Rows;
        faketime.filter(|_| !has_commands)
    }
}
