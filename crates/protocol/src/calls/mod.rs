//! The protocol: one typed function per script, one enum per set of answers.
//!
//! Nothing else writes to Redis. Every call is idempotent: after [`Error::ReplyLost`] or
//! [`Error::Unconfirmed`] repeat it with the same arguments, and its answer says what the first attempt
//! did.

pub(crate) mod answer;
mod checkup;
mod claim;
mod commit;
mod confirm;
mod control;
pub mod decode;
mod errors;
mod errors_page;
mod fleet_state;
mod ledger;
mod outcomes;
mod park;
mod partitions;
mod pause;
mod publish;
mod reclaim;
mod rights;
mod ring;
mod spares;
mod transaction;

pub use answer::exact;
pub use checkup::{RoundTrip, ask_sentinels};
pub use claim::{Claim, ClaimCall, ClaimedPack, Extend, GiveBack, Slot};
pub use commit::{Commit, CommitCall, Delay};
pub use control::{Beat, BeatCall};
pub use errors::{ErrorsClaim, ErrorsCommit, Settle, Settled, Wanted};
pub use errors_page::{Failure, Page};
pub use fleet_state::{Census, FleetState, Lease, PartitionState, Roster, RosterEntry};
pub use outcomes::Outcomes;
pub use park::Park;
pub use partitions::{Handed, Partitions, Ring, Rings, check_partitions};
pub use pause::{Part, Paused};
pub use publish::{Fence, Progress, Publish, PublishCall, Seal};
pub use reclaim::Reclaimed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::Value;
use tokio::sync::watch;

use self::confirm::{Confirmer, Era};
use crate::keys::{FleetName, Keys};
use crate::link::{Channels, ConnectionKind, Link, LinkState, Servers, Start};
use crate::rights::RedisUser;
use crate::scripts::Script;
use crate::server_info::ServerInfo;
use crate::{Digest, Durability, Error, Target, new_name};

/// The version of keys, scripts and encodings. A node of another version cannot join a fleet.
pub const PROTOCOL: &str = "1";

/// One node's (or one command's) access to a fleet in Redis.
#[derive(Clone)]
pub struct Store {
    fleet: FleetName,
    node: String,
    keys: Keys,
    place: Place,
    link: Link,
    loads: Arc<Loads>,
    stages: Arc<AtomicU64>,
    /// None if an answer counts as it comes.
    confirmer: Option<Arc<Confirmer>>,
    /// The era in which the confirmer began.
    first_era: Option<Era>,
}

/// Which of a fleet's partitions a store is for.
#[derive(Debug, Clone, Copy)]
struct Place {
    index: u32,
    count: u32,
}

impl Place {
    /// The only partition.
    const ONLY: Self = Self { index: 0, count: 1 };

    /// How its link begins. A process of several partitions works with those that it can reach.
    fn start(self) -> Start {
        match self.count {
            1 => Start::Up,
            _ => Start::UpOrDown,
        }
    }
}

/// The channels of a node.
fn channels(keys: &Keys, node: &str) -> Channels {
    Channels {
        presence: format!("{}{node}", keys.presence),
        call: format!("{}{node}", keys.calls),
    }
}

/// Scripts that this process has sent whole. When a server has lost its scripts, thousands of
/// lanes learn it at the same time. One of them sends the text; the others wait for it.
#[derive(Default)]
struct Loads {
    turn: tokio::sync::Mutex<()>,
    count: AtomicU64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({} as {})", self.fleet, self.node)
    }
}

impl Store {
    /// Connects to a fleet of one partition. `node` is the name under which this process is present;
    /// `observe` is called when the connection is lost and regained.
    pub async fn open(
        target: &Target,
        fleet: &FleetName,
        node: &str,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        let keys = Keys::new(fleet);
        let servers = Servers::new(target, Some(channels(&keys, node)));
        Self::at(&servers, fleet, node, keys, Place::ONLY, observe).await
    }

    /// Connects to a fleet of one partition, to read only: this process is not present in the fleet, and
    /// its user needs no right to write. Claims and beats need [`Store::open`].
    pub async fn view(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        let servers = Servers::new(target, None);
        let (keys, node) = (Keys::new(fleet), new_name());
        Self::at(&servers, fleet, &node, keys, Place::ONLY, |_| {}).await
    }

    /// Connects to where these keys are.
    async fn at(
        servers: &Servers,
        fleet: &FleetName,
        node: &str,
        keys: Keys,
        place: Place,
        observe: impl Fn(LinkState) + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(Self {
            fleet: fleet.clone(),
            node: node.to_owned(),
            link: Link::open(servers, keys.tag(), place.start(), observe).await?,
            keys,
            place,
            loads: Arc::default(),
            stages: Arc::default(),
            confirmer: None,
            first_era: None,
        })
    }

    /// Which partition of the fleet this is.
    pub fn partition(&self) -> u32 {
        self.place.index
    }

    /// How many partitions the fleet has.
    pub fn partitions(&self) -> u32 {
        self.place.count
    }

    /// The name under which a node is idle: the end of its ring channel's name.
    fn sleeper(&self, node: &str) -> String {
        format!("{node}@{}", self.link.run_id())
    }

    /// From here on, the answer to a publish or a commit says *ok*, *already* or *done* only when what
    /// it says is so durable.
    pub async fn with_durability(mut self, level: Durability) -> Self {
        let key = self.keys.confirm.clone();
        self.confirmer = Confirmer::start(self.link.clone(), key, level).map(Arc::new);
        if let Some(confirmer) = &self.confirmer {
            self.first_era = Some(confirmer.first_era().await);
        }
        self
    }

    /// Waits until all that the server acknowledged since [`Store::with_durability`] is so durable.
    pub async fn confirm_all(&self) -> Result<(), Error> {
        self.confirm(self.first_era).await
    }

    /// From now on a call whose answer cannot be confirmed fails at once with [`Error::Unconfirmed`]: the
    /// node that stops has waited long enough.
    pub fn give_up_confirming(&self) {
        if let Some(confirmer) = &self.confirmer {
            confirmer.give_up();
        }
    }

    /// Why nothing is as durable as asked; none while it is. None if this store asks for nothing.
    pub fn durability_trouble(&self) -> Option<watch::Receiver<Option<String>>> {
        self.confirmer.as_ref().map(|confirmer| confirmer.trouble())
    }

    /// The era of a call that is sent now, for [`Store::confirm`].
    fn era(&self) -> Option<Era> {
        self.confirmer.as_ref().map(|confirmer| confirmer.era())
    }

    /// Waits until what the server answered to a call of this era is as durable as asked.
    async fn confirm(&self, era: Option<Era>) -> Result<(), Error> {
        match (&self.confirmer, era) {
            (Some(confirmer), Some(era)) => confirmer.confirm(era).await,
            _ => Ok(()),
        }
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

    /// Waits until there is no connection.
    pub async fn wait_down(&self) {
        self.link.wait_down().await;
    }

    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        self.link.server().is_some()
    }

    /// Waits until there are other connections than those with this number; returns theirs. 0 while
    /// there are none.
    pub async fn wait_reconnected(&self, number: u64) -> u64 {
        self.link.wait_reconnected(number).await
    }

    /// Waits until another node calls this one to beat at once: it has moved up in the line of
    /// standbys.
    pub async fn wait_called(&self) {
        self.link.wait_called().await;
    }

    /// The server's run id, in the short form that claims carry; empty while there is no
    /// connection.
    pub fn run_id(&self) -> String {
        self.link.run_id()
    }

    /// Waits until there is a connection to another server process than this one.
    pub async fn wait_other_run(&self, run_id: &str) {
        self.link.wait_other_run(run_id).await;
    }

    /// Makes sure that a fleet can run here: the server takes writes and evicts no keys, the user
    /// may run every command of the scripts, and all keys have the right types.
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
        self.check_rights(RedisUser::Node).await?;
        self.check_keys().await
    }

    /// Makes sure that all keys of the fleet have the right types, and that the fleet, if there is
    /// one, speaks this protocol.
    pub async fn check_keys(&self) -> Result<(), Error> {
        self.check_types().await?;
        self.check_protocol().await
    }

    /// The preflight of a client that changes a fleet and is no node of it: Redis does not roll back
    /// a script that lacks a permission halfway. A server that evicts keys is the nodes' concern.
    pub async fn preflight_to_act(&self) -> Result<(), Error> {
        self.preflight(true).await
    }

    /// The preflight of a client that takes failed messages, and needs fewer rights than a node.
    pub async fn preflight_to_drain(&self) -> Result<(), Error> {
        if self.server().await?.read_only_replica {
            return Err(Error::ReadOnlyReplica);
        }
        self.check_rights(RedisUser::GetErrors).await?;
        self.check_keys().await
    }

    /// Makes sure that the fleet, if there is one, speaks this protocol.
    pub async fn check_protocol(&self) -> Result<(), Error> {
        let mut command = redis::cmd("HGET");
        command.arg(&self.keys.meta).arg("protocol");
        decode::protocol(&self.fleet, &self.link.call(&command).await?)
    }

    /// Reads what the server says about itself now.
    pub async fn server(&self) -> Result<ServerInfo, Error> {
        let mut server = decode::info(&self.link.call(&redis::cmd("INFO")).await?)?;
        // Managed servers often forbid CONFIG; then this setting stays unknown.
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg("appendfsync");
        if let Ok(config) = self.link.call(&config).await {
            server.appendfsync = decode::setting(&config);
        }
        Ok(server)
    }

    /// Reads how the server's replicas follow now.
    pub async fn update_replication(&self, server: &mut ServerInfo) -> Result<(), Error> {
        let mut info = redis::cmd("INFO");
        info.arg("replication");
        decode::replication(server, &self.link.call(&info).await?)
    }

    /// An error that names the key, if a key of ours holds another type.
    async fn check_types(&self) -> Result<(), Error> {
        for (key, needed) in self.keys.typed() {
            let mut command = redis::cmd("TYPE");
            command.arg(key);
            let answer = self.link.call(&command).await;
            let answer = answer.map_err(|error| rights::naming_key(error, key))?;
            decode::key_type(key, needed, &answer)?;
        }
        Ok(())
    }

    /// Runs a script. If the server does not have it, sends the whole text.
    async fn eval(
        &self,
        script: &'static Script,
        keys: &[impl AsRef<[u8]>],
        args: &[&[u8]],
    ) -> Result<Value, Error> {
        let command = |verb: &str, text: &str| command(verb, text, keys, args);
        let loads = self.loads();
        let answer = self.link.call(&command("EVALSHA", &script.sha)).await;
        self.load_if_missing(script, loads, answer, command).await
    }

    /// Runs a script over the presence connection, which no lane keeps busy.
    async fn eval_on_presence(
        &self,
        script: &'static Script,
        keys: &[impl AsRef<[u8]>],
        args: &[&[u8]],
    ) -> Result<Value, Error> {
        let call = async |verb: &str, text: &str| {
            let command = command(verb, text, keys, args);
            self.link.call_on(ConnectionKind::Presence, &command).await
        };
        let mut answer = call("EVALSHA", &script.sha).await;
        if is_missing_script(&answer) {
            answer = call("EVAL", &script.source).await;
        }
        self.name_wrong_type(answer).await
    }

    /// How many scripts this process has sent whole.
    fn loads(&self) -> u64 {
        self.loads.count.load(Ordering::Relaxed)
    }

    /// Takes the answer to `EVALSHA`. If the server does not have the script, sends it whole, or
    /// waits until another lane has. `loads` is the count of [`Store::loads`] before that call.
    async fn load_if_missing(
        &self,
        script: &'static Script,
        mut loads: u64,
        mut answer: Result<Value, Error>,
        command: impl Fn(&str, &str) -> redis::Cmd,
    ) -> Result<Value, Error> {
        while is_missing_script(&answer) {
            let turn = self.loads.turn.lock().await;
            if loads == self.loads() {
                answer = self.link.call(&command("EVAL", &script.source)).await;
                self.loads.count.fetch_add(1, Ordering::Relaxed);
                break;
            }
            drop(turn);
            loads = self.loads();
            answer = self.link.call(&command("EVALSHA", &script.sha)).await;
        }
        self.name_wrong_type(answer).await
    }

    /// Adds the key's name to an error that says only that some key holds another type.
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
fn is_missing_script(answer: &Result<Value, Error>) -> bool {
    matches!(answer, Err(Error::Refused(why)) if why.starts_with("NOSCRIPT"))
}

/// A digest as an argument; empty for none.
fn digest_arg(digest: Option<Digest>) -> String {
    digest.map(|digest| digest.to_string()).unwrap_or_default()
}

fn command(verb: &str, script: &str, keys: &[impl AsRef<[u8]>], args: &[&[u8]]) -> redis::Cmd {
    let bytes = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
        + args.iter().map(|arg| arg.len()).sum::<usize>();
    // Room for the script's digest.
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
