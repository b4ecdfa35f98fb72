//! The peers: what they are called, where they are, how they are run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Messages that a run of a peer has, by how fast it is: enough for some seconds of the fast
/// ones, and no more than a minute or two of the slow ones.
const MANY: u64 = 1_000_000;
const FEW: u64 = 20_000;

/// What runs an adapter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// A binary of bench/peers/rust.
    Rust,
    /// A script of bench/peers/node.
    Node,
    /// A script of bench/peers/python, in the virtual environment of this name.
    Python(&'static str),
    /// A script of bench/peers/ruby, with the system's Ruby.
    Ruby,
}

/// A job queue that is measured.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// The package whose version is told.
    package: &'static str,
    /// The adapter: a binary, or a script without its ending.
    adapter: &'static str,
    runtime: Runtime,
    /// Messages of one run.
    pub(crate) messages: u64,
    /// The first Redis that it runs on, if that is a late one; Valkey is none then.
    needs: Option<(u32, u32)>,
}

const fn peer(
    name: &'static str,
    package: &'static str,
    adapter: &'static str,
    runtime: Runtime,
    messages: u64,
) -> Peer {
    Peer {
        name,
        package,
        adapter,
        runtime,
        messages,
        needs: None,
    }
}

const VENV: Runtime = Runtime::Python("venv");
const VENV_ARQ: Runtime = Runtime::Python("venv-arq");

/// All peers, in the order of the table.
pub(crate) const PEERS: [Peer; 14] = [
    peer("streams", "redis", "streams", Runtime::Rust, MANY),
    Peer {
        needs: Some((8, 6)),
        ..peer("chasquimq", "chasquimq", "chasquimq", Runtime::Rust, MANY)
    },
    peer(
        "apalis-redis",
        "apalis-redis",
        "apalis-redis",
        Runtime::Rust,
        FEW,
    ),
    peer(
        "bullmq-official",
        "bullmq-official",
        "bullmq-official",
        Runtime::Rust,
        FEW,
    ),
    peer("oxana", "oxana", "oxana", Runtime::Rust, FEW),
    peer(
        "rusty-sidekiq",
        "rusty-sidekiq",
        "rusty-sidekiq",
        Runtime::Rust,
        FEW,
    ),
    peer("bullmq", "bullmq", "bullmq", Runtime::Node, FEW),
    peer("bee-queue", "bee-queue", "bee-queue", Runtime::Node, FEW),
    peer("celery", "celery", "celery_peer", VENV, FEW),
    peer("dramatiq", "dramatiq", "dramatiq_peer", VENV, FEW),
    peer("rq", "rq", "rq_peer", VENV, FEW),
    peer("taskiq-redis", "taskiq-redis", "taskiq_peer", VENV, FEW),
    peer("arq", "arq", "arq_peer", VENV_ARQ, FEW),
    peer("sidekiq", "sidekiq", "sidekiq", Runtime::Ruby, FEW),
];

/// Where the adapters are, and what `bench/peers/setup` has installed.
pub(crate) struct Place {
    /// The project's folder.
    pub(crate) root: PathBuf,
    /// What was installed.
    installed: PathBuf,
}

impl Place {
    /// Looks from the current folder upwards.
    pub(crate) fn find() -> Result<Self> {
        let here = std::env::current_dir()?;
        let root = here
            .ancestors()
            .find(|folder| folder.join("bench/peers").is_dir())
            .context("there is no bench/peers here: run this from the project's folder")?
            .to_owned();
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
        let installed = root.join(target).join("peers");
        Ok(Self { root, installed })
    }

    /// Where a peer's complaints go.
    pub(crate) fn log(&self, peer: &Peer) -> PathBuf {
        self.installed.join("log").join(peer.name)
    }
}

impl Peer {
    pub(crate) fn language(&self) -> &'static str {
        match self.runtime {
            Runtime::Rust => "Rust",
            Runtime::Node => "JavaScript",
            Runtime::Python(_) => "Python",
            Runtime::Ruby => "Ruby",
        }
    }

    /// The adapter's command, still without arguments.
    pub(crate) fn command(&self, place: &Place) -> Command {
        let script = |folder: &str, ending: &str| {
            let folder = place.root.join("bench/peers").join(folder);
            folder.join(format!("{}.{ending}", self.adapter))
        };
        let mut command = Command::new(self.program(place));
        match self.runtime {
            Runtime::Rust => {}
            Runtime::Node => {
                command.arg(script("node", "js"));
                command.env("NODE_PATH", place.installed.join("node/node_modules"));
            }
            Runtime::Python(_) => {
                command.arg(script("python", "py"));
                command.env("PYTHONDONTWRITEBYTECODE", "1");
            }
            Runtime::Ruby => {
                command.arg(script("ruby", "rb"));
            }
        }
        command
    }

    fn program(&self, place: &Place) -> PathBuf {
        match self.runtime {
            Runtime::Rust => place.installed.join("rust/release").join(self.adapter),
            Runtime::Node => "node".into(),
            Runtime::Python(venv) => place.installed.join(venv).join("bin/python"),
            Runtime::Ruby => "/usr/bin/ruby".into(),
        }
    }

    /// Why it cannot run on a server that calls itself so, if it cannot.
    pub(crate) fn unfit(&self, server: &str) -> Option<String> {
        let (major, minor) = self.needs?;
        let version = server.strip_prefix("Redis ").map(|version| {
            let mut numbers = version.split('.').map(|text| text.parse().unwrap_or(0));
            (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
        });
        let fits = version.is_some_and(|version| version >= (major, minor));
        (!fits).then(|| format!("not run: it needs Redis {major}.{minor}, and this is {server}"))
    }

    /// The version that is installed; none if the peer is not.
    pub(crate) fn version(&self, place: &Place) -> Option<String> {
        let package = self.package;
        match self.runtime {
            Runtime::Rust => {
                let lock = place.root.join("bench/peers/rust/Cargo.lock");
                let built = self.program(place).is_file();
                built.then(|| locked_version(&lock, package)).flatten()
            }
            Runtime::Node => {
                let modules = place.installed.join("node/node_modules");
                let text = std::fs::read(modules.join(package).join("package.json")).ok()?;
                let about: serde_json::Value = serde_json::from_slice(&text).ok()?;
                about["version"].as_str().map(str::to_owned)
            }
            Runtime::Python(_) => {
                let code =
                    format!("from importlib import metadata; print(metadata.version('{package}'))");
                ask(Command::new(self.program(place)).args(["-c", &code]))
            }
            Runtime::Ruby => {
                let code = format!(
                    "require '{package}'; puts Gem.loaded_specs['{package}']&.version || Sidekiq::VERSION"
                );
                ask(Command::new(self.program(place)).args(["-e", &code]))
            }
        }
    }
}

/// The first line that a command prints, if it ends well.
fn ask(command: &mut Command) -> Option<String> {
    let output = command
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.lines().next().map(str::to_owned)
}

fn locked_version(lock: &Path, package: &str) -> Option<String> {
    version_in(&std::fs::read_to_string(lock).ok()?, package)
}

fn version_in(lock: &str, package: &str) -> Option<String> {
    let name = format!("name = \"{package}\"");
    let mut lines = lock.lines().skip_while(|line| *line != name);
    let version = lines.nth(1)?.strip_prefix("version = ")?;
    Some(version.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_needs_a_late_redis_is_not_run_on_another() {
        let peer = Peer {
            needs: Some((8, 6)),
            ..peer("late", "late", "late", Runtime::Rust, FEW)
        };
        assert!(peer.unfit("Redis 8.10.0").is_none());
        assert!(peer.unfit("Redis 8.4.9").is_some());
        assert!(peer.unfit("Valkey 9.1.2").is_some());
    }

    #[test]
    fn a_version_is_read_from_the_lock_file() {
        let lock = "[[package]]\nname = \"redis-macros\"\nversion = \"9\"\n\n\
                    [[package]]\nname = \"redis\"\nversion = \"1.8.1\"\n";
        assert_eq!(version_in(lock, "redis").as_deref(), Some("1.8.1"));
        assert_eq!(version_in(lock, "oxana"), None);
    }
}
