//! What a generator does with its source: one that waits, fails, ends, hangs, or replays.

#![allow(clippy::unwrap_used)]

mod fleet;
mod lost_writes;
mod rows;

use std::slice;
use std::time::{Duration, Instant};

use baton::{
    Batch, Event, Flow, Part, Position, Rate, Roles, Source, SourceError, Warning, interval,
};

use fleet::{Fleet, LEASE_TTL, until};
use redis::Commands;
use rows::{Asked, Trouble, rows};

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
async fn while_the_generator_is_paused_no_row_and_no_cursor_is_accepted_and_then_each_once() {
    const ROWS: u64 = 300;
    let fleet = Fleet::new().await;
    let part = Part::Generator;
    let (paused, resumed) = (Event::Paused { part }, Event::Resumed { part });
    let before = fleet.inspector.pause(&[part]).await.unwrap();
    assert_eq!(before.generator_since_ms, None);
    let source = rows(ROWS);
    let a = fleet.start(source.clone());
    until("a paused generator", || !a.pauses().is_empty()).await;
    let opened = Asked::Open {
        next_seq: 1,
        cursor: None,
    };
    assert_eq!(source.asked(), slice::from_ref(&opened));

    let successor = rows(ROWS);
    let b = fleet.start(successor.clone());
    fleet.until("a standby", |at| at.nodes.len() == 2).await;
    assert_eq!(a.pauses(), slice::from_ref(&paused));
    a.kill().await;
    until("a paused successor", || !b.pauses().is_empty()).await;
    assert_eq!(successor.asked(), [opened]);
    let c = fleet.start(rows(ROWS));
    let at = fleet.until("a worker", |at| at.nodes.len() > 1).await;
    assert_eq!((at.published, at.generator.epoch), (0, 2), "{at:?}");
    let stored: bool = fleet
        .redis()
        .hexists("baton:{sources:0}:fence", "cursor")
        .unwrap();
    assert!(!stored, "a cursor");

    let since_ms = at.paused.generator_since_ms;
    assert_eq!(at.paused.workers_since_ms, None);
    let before = fleet.inspector.resume(&[part]).await.unwrap();
    assert_eq!(before.generator_since_ms, since_ms);
    fleet.all_done(ROWS).await;
    assert_eq!(fleet.texts(), all_rows(ROWS));
    assert_eq!(b.pauses(), [paused, resumed]);
    assert_eq!((b.warnings(), c.pauses()), (vec![], vec![]));
    b.stop().await;
    c.stop().await;
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
async fn a_source_that_waits_hears_what_is_accepted_while_it_hears_of_earlier_rows() {
    let fleet = Fleet::new().await;
    let source = rows(100).with(6, Trouble::Hang);
    let source = source
        .paused(Duration::ZERO)
        .hearing_for(Duration::from_millis(200));
    let a = fleet.start(source.clone());
    until("a generator", || a.generates()).await;
    let accepted = Asked::Accepted("6".to_owned());
    until("accepted", || source.asked().contains(&accepted)).await;
    a.kill().await;
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
        let snapshot = fleet
            .until("no generator", |at| at.generator.node.is_none())
            .await;
        assert_eq!(
            snapshot.source_troubles,
            [format!("the source of {} cannot go on: {reason}", a.name)]
        );
        a.stop().await;
    }
}

#[tokio::test]
async fn a_node_whose_source_cannot_go_on_says_so_once_although_its_lease_ends_first() {
    let gave_up = [Warning::SourceGaveUp {
        reason: "the table is gone".to_owned(),
    }];
    let fleet = Fleet::new().await;
    let source = rows(9).with(6, Trouble::Fatal).until_told(3);
    let a = fleet.start(source.clone());
    fleet.until("three rows", |at| at.published == 3).await;
    // The source gives up while the rows before are under way, and they stay there.
    fleet.pause_server();
    source.go_on();
    until("the source gave up", || a.warnings() == gave_up).await;
    tokio::time::sleep(LEASE_TTL).await;
    fleet.resume_server();
    fleet
        .until("no generator", |at| at.generator.node.is_none())
        .await;
    assert_eq!(a.warnings(), gave_up);
    let b = fleet.start(rows(9));
    fleet.all_done(9).await;
    assert_eq!(fleet.texts(), all_rows(9));
    a.stop().await;
    b.stop().await;
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
    let source = rows(ROWS).paused(Duration::from_millis(50));
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
    let regressed = second.regressed();
    assert!(
        matches!(regressed[..], [(4, last)] if last >= 9),
        "{regressed:?}"
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

#[tokio::test]
async fn a_fleet_with_a_rate_publishes_no_faster_whatever_its_source_has() {
    // Of rows that come in threes, and of messages that a source makes one by one.
    let rate = Rate::new(50, Duration::from_secs(1));
    for at_a_time in [1, 3] {
        let fleet = Fleet::new().await.set(|settings| settings.rate(rate));
        let mut source = rows(30);
        source.at_a_time = at_a_time;
        let generator = fleet.start(source.clone());
        until("a generator", || generator.generates()).await;
        let worker = fleet.start(source);
        fleet.until("a row", |at| at.published > 0).await;
        let began = Instant::now();
        let at_first = fleet.inspector.snapshot().await.unwrap().published;
        fleet.all_done(30).await;
        // The generator may be 10 ms late and make up for it.
        let more = u32::try_from(30 - at_first).unwrap();
        let least =
            more.saturating_sub(u32::try_from(at_a_time).unwrap()) * Duration::from_millis(20);
        let took = began.elapsed() + Duration::from_millis(10);
        assert!(took >= least, "{more} rows in {took:?}");
        assert_eq!(fleet.texts(), all_rows(30));
        generator.stop().await;
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_source_that_gives_up_leaves_nothing_unpublished_that_it_made_before() {
    let fleet = Fleet::new().await;
    let worker = fleet.with(Roles::OnlyWorks).start(rows(9));
    let source = rows(100).with(9, Trouble::Fatal).until_told(6);
    let generator = fleet.with(Roles::OnlyGenerates).start(source.clone());
    fleet.until("six rows", |at| at.published == 6).await;
    let _before = fleet.inspector.pause(&[Part::Generator]).await.unwrap();
    // Redis refuses the last three rows. As a rule the generator has asked for more by then.
    source.go_on();
    let paused = Event::Paused {
        part: Part::Generator,
    };
    until("a paused generator", || {
        generator.pauses().contains(&paused)
    })
    .await;
    let _before = fleet.inspector.resume(&[Part::Generator]).await.unwrap();
    fleet.all_done(9).await;
    assert_eq!(fleet.texts(), all_rows(9));
    generator.stop().await;
    worker.stop().await;
}

/// A source that cannot be opened.
struct Broken;

impl Source for Broken {
    async fn open(&mut self, _: Position<'_>) -> Result<(), SourceError> {
        Err(SourceError::retry("the database is away"))
    }

    async fn next(&mut self, _: &mut Batch) -> Result<Flow, SourceError> {
        Ok(Flow::More)
    }
}

#[tokio::test]
async fn a_fleet_shows_why_its_source_fails_again_and_again() {
    let fleet = Fleet::new().await;
    let generator = fleet.start(Broken);
    fleet
        .until("the reason", |at| {
            let mut troubles = at.source_troubles.iter();
            troubles.any(|trouble| trouble.contains("the database is away"))
        })
        .await;
    generator.stop().await;
}
