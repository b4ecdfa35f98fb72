//! What a generator does with its source: one that waits, fails, ends, hangs, or replays.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton::inspect::Snapshot;
use baton::{
    Batch, Effects, Event, FleetName, Flow, Handler, HandlerError, Inspector, Message, Node,
    NodeBuilder, Position, Roles, Source, SourceError, Target, Warning, interval,
};
use baton_server::PrivateServer;
use redis::Commands;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// No condition takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

/// Keeps the texts of all messages in a list, in the step that commits them.
struct Keep;

impl Handler for Keep {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        effects.rpush("texts", message.text);
        Ok(())
    }
}

/// What a source was asked, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Open {
        next_seq: u64,
        cursor: Option<String>,
    },
    Accepted(String),
    Close,
}

/// Rows 1 to `rows`, a few at a time. Its cursor is the number of the last row.
#[derive(Clone)]
struct Rows {
    rows: u64,
    at_a_time: u64,
    pause: Duration,
    /// What `next` does instead when it has made this row.
    trouble: Option<(u64, Trouble)>,
    at: u64,
    asked: Arc<Mutex<Vec<Asked>>>,
}

#[derive(Clone, Copy)]
enum Trouble {
    /// It fails, once.
    Retry,
    Fatal,
    Panic,
    Hang,
    NoCursor,
    LongCursor,
    Overfull,
}

fn rows(rows: u64) -> Rows {
    Rows {
        rows,
        at_a_time: 3,
        pause: Duration::from_millis(1),
        trouble: None,
        at: 0,
        asked: Arc::default(),
    }
}

impl Rows {
    fn with(mut self, at: u64, trouble: Trouble) -> Self {
        self.trouble = Some((at, trouble));
        self
    }

    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap().push(asked);
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

fn text(cursor: &[u8]) -> String {
    String::from_utf8(cursor.to_vec()).unwrap()
}

impl Source for Rows {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        let cursor = from.cursor.map(text);
        self.at = cursor.as_ref().map_or(0, |cursor| cursor.parse().unwrap());
        self.note(Asked::Open {
            next_seq: from.next_seq,
            cursor,
        });
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        tokio::time::sleep(self.pause).await;
        match self.trouble {
            Some((at, trouble)) if self.at >= at => match trouble {
                Trouble::Retry => {
                    self.trouble = None;
                    return Err(SourceError::retry("the table is locked"));
                }
                Trouble::Fatal => return Err(SourceError::fatal("the table is gone")),
                Trouble::Panic => panic!("a bug in the source"),
                Trouble::Hang => return std::future::pending().await,
                Trouble::NoCursor => {
                    batch.push(b"a row without a cursor");
                    return Ok(Flow::More);
                }
                Trouble::LongCursor => {
                    batch.push(b"a row");
                    batch.set_cursor(vec![b'x'; 65 << 10]);
                    return Ok(Flow::More);
                }
                Trouble::Overfull => {
                    while batch.count() <= 1000 {
                        batch.push(b"a row");
                    }
                    batch.set_cursor(*b"1001");
                    return Ok(Flow::More);
                }
            },
            _ => {}
        }
        if self.at == self.rows {
            return Ok(Flow::End);
        }
        for _ in 0..self.at_a_time {
            if self.at < self.rows && batch.has_room() {
                self.at += 1;
                batch.push(format!("row {}", self.at).as_bytes());
            }
        }
        batch.set_cursor(self.at.to_string());
        Ok(Flow::More)
    }

    async fn accepted(&mut self, cursor: &[u8]) {
        self.note(Asked::Accepted(text(cursor)));
    }

    async fn close(&mut self) {
        self.note(Asked::Close);
    }
}

/// A server, and the settings of all nodes on it.
struct Fleet {
    server: Arc<PrivateServer>,
    target: Target,
    settings: NodeBuilder,
    inspector: Inspector,
}

struct Running {
    name: String,
    events: Arc<Mutex<Vec<Event>>>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Fleet {
    async fn new() -> Self {
        let server = Arc::new(PrivateServer::builder().start().unwrap());
        let target = Target::parse(&server.url()).unwrap();
        let name = FleetName::new("sources").unwrap();
        Self {
            inspector: Inspector::connect(&target, &name).await.unwrap(),
            settings: Node::builder(name).lease_ttl(Duration::from_millis(600)),
            server,
            target,
        }
    }

    /// The same fleet, for nodes with these roles.
    fn with(&self, roles: Roles) -> Self {
        Self {
            settings: self.settings.clone().roles(roles),
            inspector: self.inspector.clone(),
            target: self.target.clone(),
            server: Arc::clone(&self.server),
        }
    }

    fn start(&self, source: impl Source) -> Running {
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let settings = self.settings.clone();
        let node = settings
            .on_event(move |event| log.lock().unwrap().push(event.clone()))
            .build(self.target.clone(), source, Keep)
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        Running {
            name: node.name().to_owned(),
            events,
            stop,
            task: tokio::spawn(async move {
                let stopped = async { stopped.await.unwrap_or_default() };
                node.run(stopped).await.unwrap();
            }),
        }
    }

    async fn until(&self, what: &str, fits: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let snapshot = self.inspector.snapshot().await.unwrap();
            if fits(&snapshot) {
                return snapshot;
            }
            assert!(Instant::now() < deadline, "in vain: {what}: {snapshot:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until so many messages are done.
    async fn all_done(&self, messages: u64) {
        self.until("all done", |at| {
            at.done == messages && at.published == messages
        })
        .await;
    }

    fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(self.server.url()).unwrap();
        client.get_connection().unwrap()
    }

    /// The texts that were handled, sorted by their row.
    fn texts(&self) -> Vec<String> {
        let mut texts: Vec<String> = self.redis().lrange("texts", 0, -1).unwrap();
        texts.sort_by_key(|text| (text.len(), text.clone()));
        texts
    }

    fn fence(&self, field: &str) -> String {
        self.redis().hget("baton:{sources:0}:fence", field).unwrap()
    }
}

impl Running {
    fn generates(&self) -> bool {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .any(|event| matches!(event, Event::Generator { .. }))
    }

    fn warnings(&self) -> Vec<Warning> {
        let events = self.events.lock().unwrap();
        let warnings = events.iter().filter_map(|event| match event {
            Event::Warning(warning) => Some(warning.clone()),
            _ => None,
        });
        warnings.collect()
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    /// Others notice only that its connections close.
    async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

async fn until(what: &str, fits: impl Fn() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !fits() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

fn all_rows(rows: u64) -> Vec<String> {
    (1..=rows).map(|row| format!("row {row}")).collect()
}

fn failed(reason: &str) -> Warning {
    Warning::SourceFailed {
        reason: reason.to_owned(),
    }
}

#[tokio::test]
async fn every_row_is_handled_once_though_generators_are_killed() {
    const ROWS: u64 = 600;
    let fleet = Fleet::new().await;
    let mut nodes = vec![fleet.start(rows(ROWS)), fleet.start(rows(ROWS))];
    for kill in 1..=6 {
        nodes.push(fleet.start(rows(ROWS)));
        let snapshot = fleet
            .until("a generator that published", |at| {
                at.published > 40 * kill && at.generator.node.is_some()
            })
            .await;
        let generator = snapshot.generator.node.unwrap();
        let at = nodes.iter().position(|node| node.name == generator);
        nodes.remove(at.unwrap()).kill().await;
    }
    fleet.all_done(ROWS).await;
    assert_eq!(fleet.texts(), all_rows(ROWS));
    assert_eq!(fleet.fence("cursor"), format!("source {ROWS}"));
}

#[tokio::test]
async fn a_source_hears_where_it_continues_what_is_accepted_and_that_it_is_over() {
    let fleet = Fleet::new().await;
    let first = rows(5);
    let a = fleet.start(first.clone());
    until("a generator", || a.generates()).await;
    let b = fleet.start(rows(5));
    fleet.all_done(5).await;
    let last = Asked::Accepted("5".to_owned());
    until("all accepted", || first.asked().last() == Some(&last)).await;
    let (opened, second) = (
        Asked::Open {
            next_seq: 1,
            cursor: None,
        },
        Asked::Accepted("3".to_owned()),
    );
    assert_eq!(
        first.asked(),
        [opened.clone(), second.clone(), last.clone()]
    );
    a.stop().await;
    assert_eq!(first.asked(), [opened, second, last, Asked::Close]);
    b.stop().await;

    let third = rows(7);
    let c = fleet.start(third.clone());
    until("a generator", || c.generates()).await;
    let d = fleet.start(rows(7));
    fleet.all_done(7).await;
    assert_eq!(
        third.asked().first(),
        Some(&Asked::Open {
            next_seq: 6,
            cursor: Some("5".to_owned()),
        })
    );
    assert_eq!(fleet.texts(), all_rows(7));
    c.stop().await;
    d.stop().await;
}

#[tokio::test]
async fn a_source_that_waits_hears_what_is_accepted() {
    let fleet = Fleet::new().await;
    let source = rows(100).with(3, Trouble::Hang);
    let a = fleet.start(source.clone());
    until("a generator", || a.generates()).await;
    let b = fleet.start(rows(0));
    let accepted = Asked::Accepted("3".to_owned());
    until("accepted", || source.asked().contains(&accepted)).await;
    a.kill().await;
    b.kill().await;
}

#[tokio::test]
async fn a_batch_leaves_when_its_source_pauses_however_few_messages_it_has() {
    let fleet = Fleet::new().await;
    let source = rows(100).with(3, Trouble::Hang);
    let a = fleet.start(source);
    until("a generator", || a.generates()).await;
    let b = fleet.start(rows(0));
    fleet.until("three rows", |at| at.done == 3).await;
    assert_eq!(fleet.texts(), all_rows(3));
    a.kill().await;
    b.kill().await;
}

#[tokio::test]
async fn a_source_that_hangs_delays_no_beat_no_stop_and_no_takeover() {
    let fleet = Fleet::new().await;
    let hangs = fleet.start(rows(9).with(3, Trouble::Hang));
    until("a generator", || hangs.generates()).await;
    let next = fleet.start(rows(9));
    fleet.until("three rows", |at| at.done == 3).await;
    // It keeps its lease for much longer than a lease lives without beats.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let snapshot = fleet.inspector.snapshot().await.unwrap();
    assert_eq!(snapshot.generator.node.as_ref(), Some(&hangs.name));
    assert_eq!(snapshot.generator.epoch, 1);
    let helper = fleet.start(rows(9));
    let asked = Instant::now();
    hangs.stop().await;
    assert!(
        asked.elapsed() < Duration::from_secs(1),
        "{:?}",
        asked.elapsed()
    );
    fleet.all_done(9).await;
    assert_eq!(fleet.texts(), all_rows(9));
    next.stop().await;
    helper.stop().await;
}

#[tokio::test]
async fn a_source_that_fails_is_opened_again_where_redis_stands() {
    let fleet = Fleet::new().await;
    let source = rows(9).with(6, Trouble::Retry);
    let a = fleet.start(source.clone());
    until("a generator", || a.generates()).await;
    let b = fleet.start(rows(9));
    fleet.all_done(9).await;
    assert_eq!(fleet.texts(), all_rows(9));
    assert_eq!(a.warnings(), [failed("the table is locked")]);
    let opened: Vec<Asked> = source.asked();
    assert!(
        opened.contains(&Asked::Open {
            next_seq: 7,
            cursor: Some("6".to_owned())
        }),
        "{opened:?}"
    );
    a.stop().await;
    b.stop().await;
}

#[tokio::test]
async fn a_node_whose_source_cannot_go_on_says_why_and_leaves_the_lease_to_another() {
    for (trouble, reason) in [
        (Trouble::Fatal, "the table is gone"),
        (Trouble::Panic, "the source panicked"),
        (
            Trouble::NoCursor,
            "the source gave messages without a cursor, after others with one",
        ),
        (
            Trouble::LongCursor,
            "the source gave a cursor of 66560 bytes; it may have 65529",
        ),
        (
            Trouble::Overfull,
            "the source made more messages than there was room for",
        ),
    ] {
        let fleet = Fleet::new().await;
        let a = fleet.start(rows(9).with(3, trouble));
        until("a generator", || a.generates()).await;
        let b = fleet.start(rows(9));
        fleet.all_done(9).await;
        assert_eq!(fleet.texts(), all_rows(9), "{reason}");
        let gave_up = Warning::SourceGaveUp {
            reason: reason.to_owned(),
        };
        assert_eq!(a.warnings(), [gave_up]);
        // The first node works on, and does not take the lease again.
        let snapshot = fleet.inspector.snapshot().await.unwrap();
        assert_eq!(snapshot.generator.node.as_ref(), Some(&b.name));
        assert_eq!(snapshot.generator.epoch, 2);
        assert_eq!(snapshot.nodes.len(), 2);
        b.kill().await;
        fleet
            .until("no generator", |at| at.generator.node.is_none())
            .await;
        a.stop().await;
    }
}

/// Loses all writes after the first pack, except who may publish: as a failover does that forgets.
const LOSE_ALL_BUT_THREE_ROWS: &str = "
redis.call('HSET', 'baton:{sources:0}:fence', 'last', 3, 'cursor', 'source 3')
redis.call('LTRIM', 'baton:{sources:0}:queue', 0, 0)
for _, pack in ipairs(redis.call('KEYS', 'baton:{sources:0}:pack:*')) do
  if pack ~= 'baton:{sources:0}:pack:1' then redis.call('DEL', pack) end
end";

#[tokio::test]
async fn a_source_makes_lost_rows_again_under_their_numbers() {
    const ROWS: u64 = 60;
    let fleet = Fleet::new().await;
    let generators = fleet.with(Roles::OnlyGenerates);
    let first = generators.start(rows(ROWS).with(6, Trouble::Hang));
    until("a generator", || first.generates()).await;
    let source = Rows {
        pause: Duration::from_millis(50),
        ..rows(ROWS)
    };
    let second = generators.start(source.clone());
    fleet.until("six rows", |at| at.published == 6).await;
    // The second generator does not have rows 4 to 6, so it cannot send them again.
    first.kill().await;
    fleet.until("nine rows", |at| at.published >= 9).await;
    let mut lose = redis::cmd("EVAL");
    let lose = lose.arg(LOSE_ALL_BUT_THREE_ROWS).arg(0);
    let () = lose.query(&mut fleet.redis()).unwrap();
    fleet
        .until("all published", |at| at.published == ROWS)
        .await;
    let worker = fleet.with(Roles::OnlyWorks).start(rows(ROWS));
    fleet.all_done(ROWS).await;
    assert_eq!(fleet.texts(), all_rows(ROWS));
    assert_eq!(fleet.fence("cursor"), format!("source {ROWS}"));
    let asked = source.asked().into_iter();
    let opened: Vec<Asked> = asked.filter(|a| matches!(a, Asked::Open { .. })).collect();
    let open = |next_seq: u64| Asked::Open {
        next_seq,
        cursor: Some((next_seq - 1).to_string()),
    };
    assert_eq!(opened, [open(7), open(4)]);
    let warnings = second.warnings();
    assert!(
        matches!(warnings[..], [Warning::MessagesLost { first: 4, last }] if last >= 9),
        "{warnings:?}"
    );
    worker.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn nodes_take_only_the_roles_that_they_are_given() {
    let fleet = Fleet::new().await;
    let works = fleet.with(Roles::OnlyWorks).start(rows(30));
    fleet.until("a node", |at| at.nodes.len() == 1).await;
    let first = fleet.with(Roles::OnlyGenerates).start(rows(30));
    until("a generator", || first.generates()).await;
    let second = fleet.with(Roles::OnlyGenerates).start(rows(30));
    fleet.until("messages", |at| at.done >= 9).await;
    first.kill().await;
    fleet.all_done(30).await;
    assert_eq!(fleet.texts(), all_rows(30));
    let snapshot = fleet.inspector.snapshot().await.unwrap();
    assert_eq!(snapshot.generator.node.as_ref(), Some(&second.name));
    let processed = |name: &str| {
        let mut nodes = snapshot.nodes.iter();
        nodes.find(|node| node.node == name).unwrap().processed
    };
    assert_eq!(processed(&second.name), 0);
    assert!(!works.generates());
    works.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_source_of_another_kind_begins_anew_and_says_so() {
    let fleet = Fleet::new().await;
    let every = Duration::from_millis(5);
    let ticks = || {
        interval(every, |seq, text| {
            text.extend_from_slice(seq.to_string().as_bytes())
        })
    };
    let (a, b) = (fleet.start(ticks()), fleet.start(ticks()));
    fleet.until("messages", |at| at.done >= 3).await;
    a.stop().await;
    b.stop().await;
    assert!(fleet.fence("cursor").starts_with("interval "));

    let before = fleet.inspector.snapshot().await.unwrap().published;
    let c = fleet.start(rows(3));
    until("a generator", || c.generates()).await;
    let d = fleet.start(rows(3));
    let all = before + 3;
    fleet
        .until("the rows", |at| at.published == all && at.done == all)
        .await;
    let key = "baton:{sources:0}:fence".to_owned();
    assert_eq!(c.warnings(), [Warning::ForeignCursor { key }]);
    c.stop().await;
    d.stop().await;
}
