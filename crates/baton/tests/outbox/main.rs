//! The source that relays the rows of a table in a real Postgres. Without one the tests are skipped and say
//! so; with `BATON_REQUIRE_TOOLS=1` they fail.

#![allow(clippy::unwrap_used)]

mod bad_input;
mod database;
#[path = "../sources/fleet.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod fleet;
mod naive;
mod node_process;
mod proof;
mod tls;
mod workload;

use std::time::{Duration, Instant};

use baton::{Roles, Source, Warning};
use redis::Commands;

use database::{Database, shared};
use fleet::{Fleet, Running, until};

fn rows(rows: u64) -> Vec<String> {
    (1..=rows).map(|row| format!("row {row}")).collect()
}

/// A fleet with one worker, and a generator with this source.
async fn started(source: impl Source) -> (Fleet, Running, Running) {
    let fleet = Fleet::new().await;
    let generator = fleet.with(Roles::OnlyGenerates).start(source);
    until("a generator", || generator.generates()).await;
    let worker = fleet.with(Roles::OnlyWorks).start(nothing());
    (fleet, generator, worker)
}

/// The keys of the messages that were handled, sorted.
fn keys_of(fleet: &Fleet) -> Vec<String> {
    let mut keys: Vec<String> = fleet.redis().lrange("keys", 0, -1).unwrap();
    keys.sort();
    keys
}

/// The source of a node that never generates.
fn nothing() -> impl Source {
    baton::interval(Duration::from_secs(3600), |_, _| {})
}

#[tokio::test]
async fn every_row_is_relayed_once_in_order_and_deleted() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("relayed").await;
    database.insert("relayed", 1, 2500).await;
    let (fleet, generator, worker) = started(outbox).await;
    fleet.all_done(2500).await;
    database.insert("relayed", 2501, 2510).await;
    fleet.all_done(2510).await;
    assert_eq!(fleet.texts(), rows(2510));
    database.until_empty("relayed").await;
    assert!(fleet.fence("cursor").starts_with("outbox:relayed "));
    assert!(fleet.fence("cursor").ends_with(" 2510"));
    assert_eq!(generator.warnings(), []);
    generator.stop().await;
    worker.stop().await;
}

#[test]
fn the_document_has_the_sql_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sources.md");
    let document = std::fs::read_to_string(path).unwrap();
    let sql = baton::Outbox::new("host=localhost").unwrap().setup_sql();
    assert!(document.contains(&format!("```sql\n{sql}```\n")), "{sql}");
}

#[tokio::test]
async fn a_row_of_a_transaction_that_commits_late_is_relayed_too() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("late").await;
    let (fleet, generator, worker) = started(outbox).await;
    let late = Database::connect(&database.address).await;
    late.run("BEGIN; INSERT INTO late (payload) VALUES ('row 1')")
        .await;
    database.insert("late", 2, 3).await;
    // A source that continued behind the highest id would now be behind row 3.
    database.until_read("late").await;
    late.run("COMMIT").await;
    fleet.all_done(3).await;
    assert_eq!(fleet.texts(), rows(3));
    database.until_empty("late").await;
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_row_waits_for_an_older_transaction_that_never_touches_the_table() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("waiting").await;
    let (fleet, generator, worker) = started(outbox).await;
    let older = Database::connect(&database.address).await;
    older.run("BEGIN; SELECT pg_current_xact_id()").await;
    database.insert("waiting", 1, 2).await;
    database.until_read("waiting").await;
    assert_eq!(fleet.inspector.snapshot().await.unwrap().published, 0);
    // No notification tells of its end.
    older.run("COMMIT").await;
    fleet.all_done(2).await;
    assert_eq!(fleet.texts(), rows(2));
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_row_that_is_rolled_back_is_not_relayed() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("undone").await;
    let (fleet, generator, worker) = started(outbox).await;
    database
        .run("BEGIN; INSERT INTO undone (payload) VALUES ('no row'); ROLLBACK")
        .await;
    database
        .run(
            "BEGIN; INSERT INTO undone (payload) VALUES ('row 1'); SAVEPOINT a; \
             INSERT INTO undone (payload) VALUES ('no row'); ROLLBACK TO a; \
             INSERT INTO undone (payload) VALUES ('row 2'); COMMIT",
        )
        .await;
    fleet.all_done(2).await;
    assert_eq!(fleet.texts(), rows(2));
    database.until_empty("undone").await;
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn rows_can_be_marked_instead_of_deleted() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = || database.absent("marked").mark("relayed_at");
    database.run(&outbox().setup_sql()).await;
    database.insert("marked", 1, 1200).await;
    let (fleet, first, worker) = started(outbox()).await;
    let marked = "SELECT count(*) FROM marked WHERE relayed_at IS NOT NULL";
    database.until(1200, marked).await;
    first.kill().await;
    let second = fleet.with(Roles::OnlyGenerates).start(outbox());
    database.insert("marked", 1201, 1203).await;
    database.until(1203, marked).await;
    fleet.all_done(1203).await;
    assert_eq!(fleet.texts(), rows(1203));
    assert_eq!(database.rows("marked").await, 1203);
    second.stop().await;
    worker.stop().await;
    // Another fleet does not begin with what is marked.
    database.insert("marked", 1, 2).await;
    let (fleet, generator, worker) = started(outbox()).await;
    fleet.all_done(2).await;
    database.until(1205, marked).await;
    assert_eq!(fleet.texts(), rows(2));
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_notification_wakes_a_source_that_looks_once_an_hour() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("woken").await;
    let outbox = outbox.poll_every(Duration::from_secs(3600));
    let (fleet, generator, worker) = started(outbox).await;
    // Its pauses double: the one at hand lasts for more than two seconds from now.
    database
        .until_idle("woken", Duration::from_millis(2700))
        .await;
    let inserted = Instant::now();
    database.insert("woken", 1, 1).await;
    fleet.all_done(1).await;
    assert!(
        inserted.elapsed() < Duration::from_millis(1500),
        "{:?}",
        inserted.elapsed()
    );
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn without_a_trigger_rows_are_found_by_looking() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("silent").await;
    database.run("DROP TRIGGER silent_notify ON silent").await;
    let outbox = outbox.poll_every(Duration::from_millis(50));
    let (fleet, generator, worker) = started(outbox).await;
    for row in 1..=3 {
        database.until_read("silent").await;
        database.insert("silent", row, row).await;
        fleet.all_done(row).await;
    }
    assert_eq!(fleet.texts(), rows(3));
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn what_redis_has_is_deleted_later_and_not_relayed_again() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = || database.absent("kept");
    database.run(&outbox().setup_sql()).await;
    database
        .run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \
             $$BEGIN RAISE 'the table is frozen'; END$$; \
             CREATE TRIGGER refuse BEFORE DELETE ON kept FOR EACH ROW EXECUTE FUNCTION refuse()",
        )
        .await;
    database.insert("kept", 1, 5).await;
    let (fleet, first, worker) = started(outbox()).await;
    fleet.all_done(5).await;
    let frozen = Warning::SourceFailed {
        reason: "cannot delete or mark rows of the table kept: the table is frozen".to_owned(),
    };
    until("a warning", || first.warnings().contains(&frozen)).await;
    database.insert("kept", 6, 7).await;
    // It is opened again, and again it cannot delete.
    database
        .until(
            1,
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'DELETE%\"kept\"%'",
        )
        .await;
    first.kill().await;
    let second = fleet.with(Roles::OnlyGenerates).start(outbox());
    until("a warning", || second.warnings().contains(&frozen)).await;
    database.run("DROP TRIGGER refuse ON kept").await;
    fleet.all_done(7).await;
    database.until_empty("kept").await;
    assert_eq!(fleet.texts(), rows(7));
    second.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn an_outbox_has_any_names_and_its_messages_any_type() {
    let Some(database) = shared().await else {
        return;
    };
    for (kind, value) in [
        ("text", "row \u{e9}"),
        ("json", "{\"a\" :1}"),
        ("jsonb", "{\"a\": 1}"),
        ("bytea", "row 1"),
        ("text", ""),
    ] {
        let schema = &format!("my \"{kind}{}\"", value.len());
        let source = database
            .absent("it's \"new\"")
            .schema(schema)
            .id_column("the id")
            .xid_column("the xid")
            .payload_column("select");
        let quoted = schema.replace('"', "\"\"");
        database.run(&format!("CREATE SCHEMA \"{quoted}\"")).await;
        database.run(&source.setup_sql()).await;
        database.run(&source.setup_sql()).await;
        let table = format!("\"{quoted}\".\"it's \"\"new\"\"\"");
        database
            .run(&format!(
                "ALTER TABLE {table} ALTER \"select\" TYPE {kind} USING NULL"
            ))
            .await;
        let (fleet, generator, worker) = started(source).await;
        database
            .run(&format!(
                "INSERT INTO {table} (\"select\") VALUES ('{value}')"
            ))
            .await;
        fleet.all_done(1).await;
        assert_eq!(fleet.texts(), [value]);
        database.until_empty(&table).await;
        assert_eq!(generator.warnings(), []);
        generator.stop().await;
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_message_has_the_key_of_its_row() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.absent("it's keyed").key_column("order_key");
    database.run(&outbox.setup_sql()).await;
    database
        .run(
            "INSERT INTO \"it's keyed\" (payload, order_key) VALUES ('row 1', 'order 7 é'), \
             ('row 2', '8')",
        )
        .await;
    let (fleet, generator, worker) = started(outbox).await;
    fleet.all_done(2).await;
    assert_eq!(keys_of(&fleet), ["8", "order 7 é"]);
    // The next fleet has data of its own, and would relay rows that are left.
    database
        .until(0, "SELECT count(*) FROM \"it's keyed\"")
        .await;
    generator.stop().await;
    worker.stop().await;

    let outbox = database.absent("it's keyed");
    let relax = "ALTER TABLE \"it's keyed\" ALTER order_key DROP NOT NULL";
    database.run(relax).await;
    database.insert("\"it's keyed\"", 3, 4).await;
    let (fleet, generator, worker) = started(outbox).await;
    fleet.all_done(2).await;
    let keys = ["outbox:it's%20keyed:3", "outbox:it's%20keyed:4"];
    assert_eq!(keys_of(&fleet), keys);
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn lost_messages_are_relayed_again_if_their_rows_are_kept() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = || database.absent("replayed").mark("relayed_at");
    database.run(&outbox().setup_sql()).await;
    database.insert("replayed", 1, 3).await;
    let (fleet, first, worker) = started(outbox()).await;
    fleet.all_done(3).await;
    worker.stop().await;
    let accepted = fleet.fence("cursor");
    database.insert("replayed", 4, 9).await;
    database
        .until(9, "SELECT count(relayed_at) FROM replayed")
        .await;
    first.kill().await;
    // As a failover does that forgets the last pack.
    let lose = "redis.call('HSET', 'baton:{sources:0}:fence', 'last', 3, 'cursor', ARGV[1]) \
                redis.call('DEL', 'baton:{sources:0}:queue', 'baton:{sources:0}:pack:4')";
    let mut command = redis::cmd("EVAL");
    let command = command.arg(lose).arg(0).arg(&accepted);
    let () = command.query(&mut fleet.redis()).unwrap();
    let texts: u64 = fleet.redis().llen("texts").unwrap();
    assert_eq!(texts, 3);
    let second = fleet.with(Roles::OnlyGenerates).start(outbox());
    let worker = fleet.with(Roles::OnlyWorks).start(nothing());
    fleet.all_done(9).await;
    assert_eq!(fleet.texts(), rows(9));
    // A handler that saw a lost message knows it again by its key.
    let keys: Vec<String> = (1..=9).map(|id| format!("outbox:replayed:{id}")).collect();
    assert_eq!(keys_of(&fleet), keys);
    second.stop().await;
    worker.stop().await;
}
