//! The protocol: one typed function per script, one enum per set of answers.
//!
//! Nothing else writes to Redis. Every call is idempotent: after [`Error::ReplyLost`] repeat
//! it with the same arguments, and the answer tells what became of it.

pub(crate) mod answer;
mod bell;
mod control;
pub mod decode;
mod errors;
mod errors_page;
mod outcomes;
mod queue;
mod reading;
mod upkeep;

pub use answer::exact;
pub use bell::BellTurn;
pub use control::Beat;
pub use errors::{ErrorsClaim, ErrorsCommit, Settle, Settled, Wanted};
pub use errors_page::{Failure, Page};
pub use outcomes::Outcomes;
pub use queue::{
    Claim, ClaimCall, ClaimedPack, Commit, CommitCall, Extend, Fence, GiveBack, Publish,
    PublishCall, Seal, Slot,
};
pub use reading::Reading;
pub use reading::{Census, Lease, Listed, Roster};
pub use upkeep::Reclaimed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;

use self::bell::Bell;
use crate::keys::{FleetName, Keys};
use crate::link::{Channels, Link, LinkState, Over};
use crate::new_name;
use crate::scripts::{self, Script};
use crate::server_info::ServerInfo;
use crate::{Error, Target};

/// The version of keys, scripts and encodings. Nodes of different versions never mix.
pub const PROTOCOL: &str = "1";

/// One node's (or one command's) access to a fleet in Redis.
#[derive(Clone)]
pub struct Store {
    fleet: FleetName,
    node: String,
    keys: Keys,
    link: Link,
    bell: Arc<Bell>,
    loads: Arc<Loads>,
}

/// Scripts that were sent whole. When a server has forgotten its scripts, thousands of lanes
/// learn it at the same time; one of them sends the text, the others wait for it.
#[derive(Default)]
struct Loads {
    turn: tokio::sync::Mutex<()>,
    count: AtomicU64,
}

impl Store {
    /// Connects. `node` is the name under which this process is present; `observe` hears
    /// when the connection is lost and regained.
    pub async fn open(
        target: &Target,
        fleet: &FleetName,
        node: &str,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        let keys = Keys::new(fleet);
        let channels = Channels {
            presence: format!("{}{node}", keys.presence),
            call: format!("{}{node}", keys.calls),
        };
        let link = Link::open(target, Some(channels), observe).await?;
        Ok(Self {
            fleet: fleet.clone(),
            node: node.to_owned(),
            keys,
            link,
            bell: Arc::default(),
            loads: Arc::default(),
        })
    }

    /// Connects to look only: other processes do not see this one, and it needs no right but to
    /// read. What it would claim has no owner that is present; claims and beats need
    /// [`Store::open`].
    pub async fn view(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        Ok(Self {
            fleet: fleet.clone(),
            node: new_name(),
            keys: Keys::new(fleet),
            link: Link::open(target, None, |_| {}).await?,
            bell: Arc::default(),
            loads: Arc::default(),
        })
    }

    /// The fleet's name.
    pub fn fleet(&self) -> &FleetName {
        &self.fleet
    }

    /// The name of this node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The fleet's key names.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Waits until there is a connection.
    pub async fn wait_up(&self) {
        self.link.wait_up().await;
    }

    /// Waits until another node's beat calls this one.
    pub async fn called(&self) {
        self.link.called().await;
    }

    /// The server's process, in the short form that claims carry; empty while there is no
    /// connection.
    pub fn run_id(&self) -> String {
        self.link.run_id()
    }

    /// Makes sure that a fleet can live here: a server that takes writes and keeps keys, a
    /// user that may run every command the scripts use, keys of the right types.
    pub async fn preflight(&self, allow_eviction: bool) -> Result<(), Error> {
        let server = self.server().await?;
        if server.read_only_replica {
            return Err(Error::ReadOnlyReplica);
        }
        if server.evicts() && !allow_eviction {
            return Err(Error::Evicts {
                policy: server.maxmemory_policy,
            });
        }
        for scratch in &self.keys.preflight {
            let answer = self.eval(&scripts::PREFLIGHT, &[scratch], &[]).await?;
            decode::preflight(&answer)?;
        }
        self.check_bell().await?;
        self.check_asking().await?;
        self.check_types().await?;
        self.check_protocol().await
    }

    /// Makes sure that the fleet, if there is one, speaks this protocol.
    pub async fn check_protocol(&self) -> Result<(), Error> {
        let mut command = redis::cmd("HGET");
        command.arg(&self.keys.meta).arg("protocol");
        decode::protocol(&self.fleet, &self.link.call(&command).await?)
    }

    /// What the server says about itself now.
    pub async fn server(&self) -> Result<ServerInfo, Error> {
        let mut server = decode::info(&self.link.call(&redis::cmd("INFO")).await?)?;
        // Managed servers often forbid CONFIG; then this one fact stays unknown.
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg("appendfsync");
        if let Ok(config) = self.link.call(&config).await {
            server.appendfsync = decode::setting(&config);
        }
        Ok(server)
    }

    /// Names the key of ours that holds another type, if one does.
    async fn check_types(&self) -> Result<(), Error> {
        for (key, needed) in self.keys.typed() {
            let mut command = redis::cmd("TYPE");
            command.arg(key);
            decode::key_type(key, needed, &self.link.call(&command).await?)?;
        }
        Ok(())
    }

    /// Calls a script. A server that has forgotten it is sent the whole text.
    async fn eval(
        &self,
        script: &'static Script,
        keys: &[impl AsRef<[u8]>],
        args: &[&[u8]],
    ) -> Result<Value, Error> {
        let command = |verb: &str, text: &str| command(verb, text, keys, args);
        let loads = self.loads();
        let answer = self.link.call(&command("EVALSHA", &script.sha)).await;
        self.insist(script, loads, answer, command).await
    }

    /// The same over the presence connection, which waits for no lane.
    async fn eval_present(
        &self,
        script: &'static Script,
        keys: &[impl AsRef<[u8]>],
        args: &[&[u8]],
    ) -> Result<Value, Error> {
        let call = async |verb: &str, text: &str| {
            let command = command(verb, text, keys, args);
            self.link.call_over(Over::Presence, &command).await
        };
        let mut answer = call("EVALSHA", &script.sha).await;
        if is_forgotten(&answer) {
            answer = call("EVAL", script.source).await;
        }
        self.name_wrong_type(answer).await
    }

    /// How many scripts were sent whole so far.
    fn loads(&self) -> u64 {
        self.loads.count.load(Ordering::Relaxed)
    }

    /// Goes on from the first answer to a script: what a server has forgotten, it is sent whole.
    /// `loads` is how many had been sent whole before that call.
    async fn insist(
        &self,
        script: &'static Script,
        mut loads: u64,
        mut answer: Result<Value, Error>,
        command: impl Fn(&str, &str) -> redis::Cmd,
    ) -> Result<Value, Error> {
        while is_forgotten(&answer) {
            let turn = self.loads.turn.lock().await;
            if loads == self.loads() {
                answer = self.link.call(&command("EVAL", script.source)).await;
                self.loads.count.fetch_add(1, Ordering::Relaxed);
                break;
            }
            drop(turn);
            loads = self.loads();
            answer = self.link.call(&command("EVALSHA", &script.sha)).await;
        }
        self.name_wrong_type(answer).await
    }

    /// Names the key if an answer says only that one holds another type.
    async fn name_wrong_type(&self, answer: Result<Value, Error>) -> Result<Value, Error> {
        match answer {
            Err(Error::Refused(why)) if why.contains("WRONGTYPE") => {
                self.check_types().await?;
                Err(Error::Refused(why))
            }
            answer => answer,
        }
    }
}

/// Whether the server does not have the script.
fn is_forgotten(answer: &Result<Value, Error>) -> bool {
    matches!(answer, Err(Error::Refused(why)) if why.starts_with("NOSCRIPT"))
}

fn command(verb: &str, script: &str, keys: &[impl AsRef<[u8]>], args: &[&[u8]]) -> redis::Cmd {
    let bytes = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
        + args.iter().map(|arg| arg.len()).sum::<usize>();
    // Room for the script's name, or nearly for the script.
    let mut command = redis::Cmd::with_capacity(3 + keys.len() + args.len(), bytes + 64);
    command.arg(verb).arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_ref());
    }
    for arg in args {
        command.arg(arg);
    }
    command
}
