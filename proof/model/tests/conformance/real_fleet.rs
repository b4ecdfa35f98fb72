//! A real fleet: the protocol's typed calls, and the scripts behind them, on a real server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton::{Error, FleetName, Target};
use baton_model::call::{Handed, HandedPack, Ring};
use baton_model::state::{Body, Entry, Ms, Node, RunId, State};
use baton_protocol::{ClaimedPack, Keys, Partitions, Store};
use tokio::sync::mpsc::{self, UnboundedReceiver};

use crate::encoding;
use crate::event::Event;
use crate::raw_connection::{RawConnection, Request, Value};
use crate::redis_state::{self, App, RedisState};

/// The JSON object that every node's beat sends.
pub(crate) const ABOUT: &str = "{}";
/// How long a connection may take to end.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The number of a claim that no server makes: a ring with it says that a node has heard everything.
const FENCE: u64 = u64::MAX;

/// Why a sequence was not finished.
pub(crate) enum SequenceError {
    /// The host stood still for so long that an answer is missing: the sequence cannot be judged.
    Stalled(String),
    /// The server did something else than the model.
    Mismatch(String),
}

impl From<Error> for SequenceError {
    fn from(error: Error) -> Self {
        match error {
            Error::ReplyLost(_) | Error::Unconfirmed(_) | Error::Unavailable(_) => {
                Self::Stalled(error.to_string())
            }
            error => Self::Mismatch(format!("the call ended with an error: {error}")),
        }
    }
}

impl From<std::io::Error> for SequenceError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // An error of the server about a command.
            std::io::ErrorKind::Other => Self::Mismatch(error.to_string()),
            _ => Self::Stalled(error.to_string()),
        }
    }
}

/// A node that is present.
struct RealNode {
    store: Store,
    rings: UnboundedReceiver<baton_protocol::Ring>,
}

/// One server with one fleet on it.
pub(crate) struct RealFleet {
    target: Target,
    fleet: FleetName,
    keys: Keys,
    app: App,
    socket: PathBuf,
    connection: RawConnection,
    nodes: BTreeMap<Node, RealNode>,
    read_commands: Request,
    run_id: RunId,
    /// Name and version of the server: `Redis 7.0.15`.
    pub(crate) version: String,
}

impl RealFleet {
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        let (target, fleet) = (Target::parse(url)?, FleetName::new("conformance")?);
        let node = RealNode::open(&target, &fleet, 0).await?;
        let server = node.store.server().await?;
        let run_id = RunId::from_str_radix(&server.run_id, 16).unwrap_or_default();
        let keys = Keys::new(&fleet);
        let fence = format!("{}\n{FENCE}\n1 1 1 1 0\n\n", keys.queue);
        let app = App {
            counter: "app:{conformance:0}:counter".to_owned(),
            list: "app:{conformance:0}:list".to_owned(),
        };
        let socket = PathBuf::from(url.strip_prefix("unix://").unwrap_or(url));
        let connection = RawConnection::connect(&socket);
        Ok(Self {
            read_commands: Request::from(&redis_state::read_commands(&keys, &app, run_id, &fence)),
            connection: connection.map_err(|error| Error::Unavailable(error.to_string()))?,
            socket,
            nodes: BTreeMap::from([(0, node)]),
            run_id,
            version: server.version,
            target,
            fleet,
            keys,
            app,
        })
    }

    /// The server's run id.
    pub(crate) fn run(&self) -> RunId {
        self.run_id
    }

    /// Empties the server, and makes exactly these nodes present.
    pub(crate) async fn begin(&mut self, nodes: &[Node]) -> Result<(), SequenceError> {
        let mut pipe = redis::pipe();
        pipe.cmd("FLUSHDB");
        pipe.cmd("RPUSH").arg(&self.app.list).arg("x");
        self.connection.ask(&Request::from(&pipe))?;
        let stays = |node: &Node| nodes.contains(node);
        let gone: Vec<Node> = self.nodes.keys().copied().filter(|n| !stays(n)).collect();
        for node in gone {
            self.leave(node).await?;
        }
        for node in nodes {
            self.join(*node).await?;
        }
        Ok(())
    }

    /// Closes all connections, because after a stall nothing is known of them. The nodes connect
    /// again when the next sequence begins.
    pub(crate) async fn recover(&mut self) -> Result<(), SequenceError> {
        self.connection = RawConnection::connect(&self.socket)?;
        while let Some((node, _)) = self.nodes.pop_first() {
            self.leave(node).await?;
        }
        Ok(())
    }

    async fn join(&mut self, node: Node) -> Result<(), SequenceError> {
        if !self.nodes.contains_key(&node) {
            let opened = RealNode::open(&self.target, &self.fleet, node).await?;
            self.nodes.insert(node, opened);
        }
        Ok(())
    }

    async fn leave(&mut self, node: Node) -> Result<(), SequenceError> {
        self.nodes.remove(&node);
        let channel = format!("{}{}", self.keys.presence, encoding::node(node));
        let mut pipe = redis::pipe();
        pipe.cmd("PUBSUB").arg("NUMSUB").arg(&channel);
        let request = Request::from(&pipe);
        let no_subscriber = [Value::Text(channel.into_bytes()), Value::Int(0)];
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // Lets the task that closes the connection run.
            tokio::task::yield_now().await;
            if self.connection.ask(&request)? == [Value::Array(no_subscriber.to_vec())] {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(SequenceError::Stalled(
                    "a connection does not end".to_owned(),
                ));
            }
        }
    }

    /// Reads the whole state, and what the nodes have heard. `since` is when the sequence began.
    pub(crate) async fn read_state(&mut self, since: Ms) -> Result<RedisState, SequenceError> {
        let answers = self.connection.ask(&self.read_commands)?;
        let mut heard = Vec::new();
        for node in redis_state::hearing(&answers) {
            let absent = || SequenceError::Mismatch(format!("n{node} hears and is not present"));
            let real = self.nodes.get_mut(&node).ok_or_else(absent)?;
            let rings = real.hear().await?;
            heard.extend(rings.into_iter().map(|ring| (node, ring)));
        }
        let redis = redis_state::read(&answers, self.run_id, since);
        let mut redis = redis.map_err(SequenceError::Mismatch)?;
        for (node, ring) in heard {
            let born = redis.unmodelled.born.as_deref();
            let handed = ring.handed.map(|handed| self.handed(handed, born));
            let handed = handed.transpose()?;
            redis.rings.push(Ring { node, handed });
        }
        Ok(redis)
    }

    /// What a node was handed, as the model has it. `born` is the name of the data.
    fn handed(
        &self,
        handed: baton_protocol::Handed,
        born: Option<&str>,
    ) -> Result<Handed, SequenceError> {
        let strange = || SequenceError::Mismatch(format!("a node was handed {handed:?}"));
        let pack = match &handed.pack {
            ClaimedPack::Sent(bytes) => encoding::read_pack(bytes).map(HandedPack::Sent),
            ClaimedPack::Whole => Some(HandedPack::Whole),
            ClaimedPack::Part { born: of } => (born == Some(of)).then_some(HandedPack::Part),
        };
        let pack = pack.filter(|_| handed.run_id == hex(self.run_id));
        Ok(Handed {
            number: handed.number,
            range: encoding::range(handed.range),
            pack: pack.ok_or_else(strange)?,
        })
    }

    /// The connection of a node that is present.
    pub(crate) fn store(&self, node: Node) -> Result<&Store, SequenceError> {
        let absent = || SequenceError::Mismatch(format!("n{node} is not present"));
        self.nodes
            .get(&node)
            .map(|real| &real.store)
            .ok_or_else(absent)
    }

    /// The application's keys.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Applies an event that is not a call. The model is in the state after it.
    pub(crate) async fn apply(
        &mut self,
        event: &Event,
        model: &State,
    ) -> Result<(), SequenceError> {
        let mut pipe = redis::pipe();
        match event {
            Event::Call { .. } => {}
            Event::Join(node) => return self.join(*node).await,
            Event::Drop(node) => return self.leave(*node).await,
            Event::Shift(_) | Event::Restarted | Event::Crowd { .. } => {
                return self.rewrite(model);
            }
            Event::Blame { range, note } => {
                let words = encoding::write_range(range);
                pipe.cmd("LSET").arg(&self.keys.queue).arg(0).arg(words);
                if let Some(note) = note {
                    pipe.cmd("HSET").arg(&self.keys.notes).arg(range.first);
                    pipe.arg(encoding::note(note));
                }
            }
            Event::Foreign(texts) => {
                let texts: Vec<String> = texts.clone().map(encoding::foreign).collect();
                pipe.cmd("RPUSH").arg(&self.keys.queue).arg(texts);
            }
            Event::ForeignDelayed { text, due } => {
                let member = encoding::foreign(*text);
                pipe.cmd("ZADD").arg(&self.keys.delayed).arg(*due);
                pipe.arg(member);
            }
            Event::Forge(record) => {
                // The model has appended it already.
                pipe.cmd("HSET")
                    .arg(&self.keys.errors)
                    .arg(model.last_id)
                    .arg(encoding::record(record));
                pipe.cmd("HSET")
                    .arg(&self.keys.errors_ids)
                    .arg("last")
                    .arg(model.last_id);
            }
            Event::LosePack(first) => {
                pipe.cmd("DEL").arg(self.keys.pack_key(*first));
            }
            Event::Expire(node, stage) => {
                pipe.cmd("DEL")
                    .arg(encoding::staged(&self.keys, *node, *stage));
            }
            Event::LoseClaim(slot) => {
                let slot = encoding::slot(*slot);
                pipe.cmd("HDEL").arg(&self.keys.claims).arg(slot.name());
            }
            Event::LoseDeadline(slot) => {
                let slot = encoding::slot(*slot);
                pipe.cmd("ZREM").arg(&self.keys.deadlines).arg(slot.name());
            }
        }
        self.connection.ask(&Request::from(&pipe))?;
        Ok(())
    }

    /// Replaces all stored times and run ids by those of the model.
    fn rewrite(&mut self, model: &State) -> Result<(), SequenceError> {
        let mut pipe = redis::pipe();
        self.rewrite_control(model, &mut pipe);
        self.rewrite_partition(model, &mut pipe);
        self.connection.ask(&Request::from(&pipe))?;
        Ok(())
    }

    fn rewrite_control(&self, model: &State, pipe: &mut redis::Pipeline) {
        let keys = &self.keys;
        if let Some(since) = model.lease.since {
            pipe.cmd("HSET")
                .arg(&keys.generator)
                .arg("since")
                .arg(since);
        }
        if model.lease.node.is_some() {
            pipe.cmd("HSET")
                .arg(&keys.generator)
                .arg("until")
                .arg(model.lease.until)
                .arg("run")
                .arg(hex(model.lease.run_id));
        }
        if model.lease.waited != 0 {
            pipe.cmd("HSET")
                .arg(&keys.generator)
                .arg("waited")
                .arg(hex(model.lease.waited));
        }
        for (node, run_id) in &model.nodes {
            let about = format!("{} {ABOUT}", hex(*run_id));
            pipe.cmd("HSET")
                .arg(&keys.nodes)
                .arg(encoding::node(*node))
                .arg(about);
        }
        for (key, times) in [(&keys.joined, &model.joined), (&keys.seen, &model.seen)] {
            for (node, at) in times {
                pipe.cmd("ZADD")
                    .arg(key)
                    .arg(*at)
                    .arg(encoding::node(*node));
            }
        }
    }

    fn rewrite_partition(&self, model: &State, pipe: &mut redis::Pipeline) {
        let keys = &self.keys;
        for (slot, at) in &model.deadlines {
            let slot = encoding::slot(*slot);
            pipe.cmd("ZADD")
                .arg(&keys.deadlines)
                .arg(*at)
                .arg(slot.name());
        }
        for (entry, at) in &model.delayed {
            let member = encoding::write_entry(entry);
            pipe.cmd("ZADD").arg(&keys.delayed).arg(*at).arg(member);
        }
        // A restart changes the members.
        pipe.cmd("DEL").arg(&keys.idle);
        for (sleeper, idle) in &model.idle {
            pipe.cmd("ZADD")
                .arg(&keys.idle)
                .arg(encoding::score(*idle))
                .arg(encoding::sleeper(*sleeper));
        }
        for (slot, ended) in &model.workers {
            let (number, first, last) = (ended.number, ended.first, ended.last);
            let value = format!("{number} {first} {last} {}", ended.at / 1000);
            let slot = encoding::slot(*slot);
            pipe.cmd("HSET")
                .arg(&keys.workers)
                .arg(slot.name())
                .arg(value);
        }
        for (slot, claim) in &model.claims {
            let (kind, body) = match &claim.body {
                Body::Messages(range) => ('m', encoding::write_range(range)),
                Body::Records(ids) => (
                    'e',
                    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
                ),
            };
            let value = format!("{kind} {} {} {body}", claim.number, hex(claim.run_id));
            let slot = encoding::slot(*slot);
            pipe.cmd("HSET")
                .arg(&keys.claims)
                .arg(slot.name())
                .arg(value);
        }
        for (at, range) in (0..).zip(&model.queue) {
            if let Entry::Range(range) = range
                && range.suspects.nodes != 0
            {
                let range = encoding::write_range(range);
                pipe.cmd("LSET").arg(&keys.queue).arg(at).arg(range);
            }
        }
    }
}

impl RealNode {
    async fn open(target: &Target, fleet: &FleetName, node: Node) -> Result<Self, Error> {
        let name = encoding::node(node);
        let (partitions, rings) = Partitions::open(target, fleet, &name, None, |_| {}).await?;
        let store = partitions.control().clone();
        let (send, heard) = mpsc::unbounded_channel();
        rings.listen(move |ring| drop(send.send(ring)));
        Ok(Self {
            store,
            rings: heard,
        })
    }

    /// What the node has heard up to the next fence.
    async fn hear(&mut self) -> Result<Vec<baton_protocol::Ring>, SequenceError> {
        let mut heard = Vec::new();
        loop {
            let ring = tokio::time::timeout(TIMEOUT, self.rings.recv()).await;
            let silent = || SequenceError::Stalled("a node does not hear a fence".to_owned());
            let ring = ring.ok().flatten().ok_or_else(silent)?;
            match &ring.handed {
                Some(handed) if handed.number == FENCE => return Ok(heard),
                _ => heard.push(ring),
            }
        }
    }
}

/// A run id as scripts store it.
fn hex(run_id: RunId) -> String {
    format!("{run_id:08x}")
}
