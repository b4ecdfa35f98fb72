//! The real side: the library's typed calls and the scripts behind them, on a real server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use baton::{Error, FleetName, Target};
use baton_model::state::{Body, Entry, Ms, Node, Run, State};
use baton_protocol::Keys;
use baton_protocol::Store;

use crate::event::Event;
use crate::look::{self, App, Look};
use crate::raw::{Raw, Request, Value};
use crate::words;

/// What every node says about itself.
pub(crate) const ABOUT: &str = "{}";
/// How long a connection may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a sequence did not come to its end.
pub(crate) enum Trouble {
    /// The host stood still for so long that an answer is missing: nobody knows who is right.
    Stalled(String),
    /// The server did or said what the model does not.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::ReplyLost(_) | Error::Unavailable(_) => Self::Stalled(error.to_string()),
            error => Self::Wrong(format!("the call ended with an error: {error}")),
        }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            // What the server says of a command.
            std::io::ErrorKind::Other => Self::Wrong(error.to_string()),
            _ => Self::Stalled(error.to_string()),
        }
    }
}

/// One server with one fleet on it.
pub(crate) struct Real {
    target: Target,
    fleet: FleetName,
    keys: Keys,
    app: App,
    socket: PathBuf,
    raw: Raw,
    stores: BTreeMap<Node, Store>,
    questions: Request,
    run: Run,
    /// What the server calls itself: `Redis 7.0.15`.
    pub(crate) version: String,
}

impl Real {
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        let (target, fleet) = (Target::parse(url)?, FleetName::new("twin")?);
        let store = Store::open(&target, &fleet, &words::node(0), |_| {}).await?;
        let server = store.server().await?;
        let keys = Keys::new(&fleet);
        let app = App {
            counter: "app:{twin:0}:counter".to_owned(),
            list: "app:{twin:0}:list".to_owned(),
        };
        let socket = PathBuf::from(url.strip_prefix("unix://").unwrap_or(url));
        let raw = Raw::connect(&socket);
        Ok(Self {
            questions: Request::from(&look::questions(&keys, &app)),
            raw: raw.map_err(|error| Error::Unavailable(error.to_string()))?,
            socket,
            stores: BTreeMap::from([(0, store)]),
            run: Run::from_str_radix(&server.run, 16).unwrap_or_default(),
            version: server.version,
            target,
            fleet,
            keys,
            app,
        })
    }

    /// The run of the server.
    pub(crate) fn run(&self) -> Run {
        self.run
    }

    /// An empty server, on which these nodes and no others are present.
    pub(crate) async fn begin(&mut self, nodes: &[Node]) -> Result<(), Trouble> {
        let mut pipe = redis::pipe();
        pipe.cmd("FLUSHDB");
        pipe.cmd("RPUSH").arg(&self.app.list).arg("x");
        self.raw.ask(&Request::from(&pipe))?;
        let stays = |node: &Node| nodes.contains(node);
        let gone: Vec<Node> = self.stores.keys().copied().filter(|n| !stays(n)).collect();
        for node in gone {
            self.part(node).await?;
        }
        for node in nodes {
            self.join(*node).await?;
        }
        Ok(())
    }

    /// After a stall nothing is known of the connections: all are opened anew, and those of
    /// nodes when a sequence begins.
    pub(crate) async fn recover(&mut self) -> Result<(), Trouble> {
        self.raw = Raw::connect(&self.socket)?;
        while let Some((node, _)) = self.stores.pop_first() {
            self.part(node).await?;
        }
        Ok(())
    }

    async fn join(&mut self, node: Node) -> Result<(), Trouble> {
        if !self.stores.contains_key(&node) {
            let name = words::node(node);
            let store = Store::open(&self.target, &self.fleet, &name, |_| {}).await?;
            self.stores.insert(node, store);
        }
        Ok(())
    }

    async fn part(&mut self, node: Node) -> Result<(), Trouble> {
        self.stores.remove(&node);
        let channel = format!("{}{}", self.keys.presence, words::node(node));
        let mut pipe = redis::pipe();
        pipe.cmd("PUBSUB").arg("NUMSUB").arg(&channel);
        let request = Request::from(&pipe);
        let nobody = [Value::Text(channel.into_bytes()), Value::Int(0)];
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Lets the connection come to its end.
            tokio::task::yield_now().await;
            if self.raw.ask(&request)? == [Value::Array(nobody.to_vec())] {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Trouble::Stalled("a connection does not end".to_owned()));
            }
        }
    }

    /// Reads the whole state. `since` is when the sequence began.
    pub(crate) fn look(&mut self, since: Ms) -> Result<Look, Trouble> {
        let answers = self.raw.ask(&self.questions)?;
        look::read(&answers, self.run, since).map_err(Trouble::Wrong)
    }

    /// The connection of a node that is present.
    pub(crate) fn store(&self, node: Node) -> Result<&Store, Trouble> {
        let absent = || Trouble::Wrong(format!("n{node} is not present"));
        self.stores.get(&node).ok_or_else(absent)
    }

    /// The application's keys.
    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    /// Lets something happen that no call does. The model has gone through it before.
    pub(crate) async fn befall(&mut self, event: &Event, model: &State) -> Result<(), Trouble> {
        let mut pipe = redis::pipe();
        match event {
            Event::Call { .. } => {}
            Event::Join(node) => return self.join(*node).await,
            Event::Drop(node) => return self.part(*node).await,
            Event::Shift(_) | Event::Restarted | Event::Crowd { .. } => {
                return self.rewrite(model);
            }
            Event::TakeBell => {
                pipe.cmd("LPOP").arg(&self.keys.bell);
            }
            Event::Blame(range) => {
                let range = words::write_range(range);
                pipe.cmd("LSET").arg(&self.keys.queue).arg(0).arg(range);
            }
            Event::Foreign(texts) => {
                let texts: Vec<String> = texts.clone().map(words::foreign).collect();
                pipe.cmd("RPUSH").arg(&self.keys.queue).arg(texts);
            }
            Event::Forge(record) => {
                // The model has appended it already.
                pipe.cmd("HSET")
                    .arg(&self.keys.errors)
                    .arg(model.last_id)
                    .arg(words::record(record));
                pipe.cmd("HSET")
                    .arg(&self.keys.errors_ids)
                    .arg("last")
                    .arg(model.last_id);
            }
            Event::LosePack(first) => {
                pipe.cmd("HDEL").arg(&self.keys.packs).arg(*first);
            }
            Event::LoseClaim(slot) => {
                let slot = words::slot(*slot);
                pipe.cmd("HDEL").arg(&self.keys.claims).arg(slot.name());
            }
            Event::LoseDeadline(slot) => {
                let slot = words::slot(*slot);
                pipe.cmd("ZREM").arg(&self.keys.deadlines).arg(slot.name());
            }
        }
        self.raw.ask(&Request::from(&pipe))?;
        Ok(())
    }

    /// Writes the times and runs of the model over those that are stored.
    fn rewrite(&mut self, model: &State) -> Result<(), Trouble> {
        let keys = &self.keys;
        let mut pipe = redis::pipe();
        let hex = |run: Run| format!("{run:08x}");
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
                .arg(hex(model.lease.run));
        }
        for (node, run) in &model.nodes {
            let about = format!("{} {ABOUT}", hex(*run));
            pipe.cmd("HSET")
                .arg(&keys.nodes)
                .arg(words::node(*node))
                .arg(about);
        }
        for (key, times) in [(&keys.joined, &model.joined), (&keys.seen, &model.seen)] {
            for (node, at) in times {
                pipe.cmd("ZADD").arg(key).arg(*at).arg(words::node(*node));
            }
        }
        for (slot, at) in &model.deadlines {
            let slot = words::slot(*slot);
            pipe.cmd("ZADD")
                .arg(&keys.deadlines)
                .arg(*at)
                .arg(slot.name());
        }
        for (slot, settled) in &model.workers {
            let (number, first, last) = (settled.number, settled.first, settled.last);
            let value = format!("{number} {first} {last} {}", settled.at / 1000);
            let slot = words::slot(*slot);
            pipe.cmd("HSET")
                .arg(&keys.workers)
                .arg(slot.name())
                .arg(value);
        }
        for (slot, claim) in &model.claims {
            let (kind, body) = match &claim.body {
                Body::Messages(range) => ('m', words::write_range(range)),
                Body::Records(ids) => (
                    'e',
                    ids.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
                ),
            };
            let value = format!("{kind} {} {} {body}", claim.number, hex(claim.run));
            let slot = words::slot(*slot);
            pipe.cmd("HSET")
                .arg(&keys.claims)
                .arg(slot.name())
                .arg(value);
        }
        for (at, range) in (0..).zip(&model.queue) {
            if let Entry::Range(range) = range
                && range.suspects.nodes != 0
            {
                let range = words::write_range(range);
                pipe.cmd("LSET").arg(&keys.queue).arg(at).arg(range);
            }
        }
        self.raw.ask(&Request::from(&pipe))?;
        Ok(())
    }
}
