//! A Postgres that is away, a table that is not as it must be, rows that cannot be messages.

use baton::{Roles, Warning};
use redis::Commands;

use super::database::{Database, shared, start};
use super::fleet::{Fleet, Running, until};
use super::{nothing, rows, started};

/// Waits for a warning that the source failed for this reason.
async fn until_failed(node: &Running, reason: &str) {
    let failed = Warning::SourceFailed {
        reason: reason.to_owned(),
    };
    until(&format!("{reason}: {:?}", node.warnings()), || {
        node.warnings().contains(&failed)
    })
    .await;
}

#[tokio::test]
async fn a_postgres_that_is_away_is_waited_for() {
    let Some(mut postgres) = start() else {
        return;
    };
    let database = Database::connect(&postgres.address()).await;
    let outbox = database.outbox("outbox").await;
    database.insert("outbox", 1, 3).await;
    postgres.kill9();
    let fleet = Fleet::new().await;
    let generator = fleet.with(Roles::OnlyGenerates).start(outbox);
    let worker = fleet.with(Roles::OnlyWorks).start(nothing());
    let away = "cannot connect to Postgres: Connection refused (os error 111)";
    until_failed(&generator, away).await;

    let mut postgres = restarted(postgres).await;
    fleet.all_done(3).await;
    let database = Database::connect(&postgres.address()).await;
    database.until_empty("outbox").await;

    // It dies while the source waits for rows.
    database.until_read("outbox").await;
    postgres.kill9();
    let postgres = restarted(postgres).await;
    let database = Database::connect(&postgres.address()).await;
    database.insert("outbox", 4, 6).await;
    fleet.all_done(6).await;
    database.until_empty("outbox").await;
    assert_eq!(fleet.texts(), rows(6));
    generator.stop().await;
    worker.stop().await;
}

async fn restarted(mut postgres: baton_server::PrivatePostgres) -> baton_server::PrivatePostgres {
    tokio::task::spawn_blocking(move || {
        postgres.restart().unwrap();
        postgres
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_table_or_a_column_that_is_missing_is_waited_for() {
    let Some(database) = shared().await else {
        return;
    };
    let (fleet, generator, worker) = started(database.absent("missing")).await;
    let reason = "cannot use the table missing: relation \"missing\" does not exist";
    until_failed(&generator, reason).await;
    database.outbox("missing").await;
    database.insert("missing", 1, 1).await;
    fleet.all_done(1).await;
    generator.stop().await;
    worker.stop().await;

    for (column, reason) in [
        (
            "payload",
            "cannot use the table missing: column \"payload\" does not exist",
        ),
        (
            "xid",
            "cannot use the table missing: column \"xid\" does not exist",
        ),
        (
            "id",
            "cannot use the table missing: column \"id\" does not exist",
        ),
    ] {
        database
            .run(&format!("ALTER TABLE missing RENAME {column} TO other"))
            .await;
        let node = fleet
            .with(Roles::OnlyGenerates)
            .start(database.absent("missing"));
        until_failed(&node, reason).await;
        database
            .run(&format!("ALTER TABLE missing RENAME other TO {column}"))
            .await;
        node.stop().await;
    }
}

#[tokio::test]
async fn a_right_that_is_missing_is_waited_for_before_the_first_row_is_relayed() {
    let Some(database) = shared().await else {
        return;
    };
    database.outbox("guarded").await;
    database.insert("guarded", 1, 2).await;
    database
        .run("CREATE ROLE relay LOGIN; GRANT SELECT ON guarded TO relay")
        .await;
    let as_relay = database.address.replace("user=baton", "user=relay");
    let outbox = baton::Outbox::new(&as_relay).unwrap().table("guarded");
    let (fleet, generator, worker) = started(outbox).await;
    let reason =
        "cannot delete or mark rows of the table guarded: permission denied for table guarded";
    until_failed(&generator, reason).await;
    assert_eq!(fleet.inspector.snapshot().await.unwrap().published, 0);
    database.run("GRANT DELETE ON guarded TO relay").await;
    fleet.all_done(2).await;
    database.until_empty("guarded").await;
    assert_eq!(fleet.texts(), rows(2));
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_a_message_holds_up_those_behind_it_until_it_is_mended() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = database.outbox("wrong").await;
    let (fleet, generator, worker) = started(outbox).await;
    let too_long = "INSERT INTO wrong (payload) VALUES ('row 1'), \
                    (convert_to(repeat('x', 1048577), 'UTF8')), ('row 2')";
    database.run(too_long).await;
    let reason = "table wrong, row 2: its payload has 1048577 bytes, and a message may have 1048576; mend or \
                  delete the row, and those behind it follow";
    until_failed(&generator, reason).await;
    fleet.all_done(1).await;
    database.until(2, "SELECT count(*) FROM wrong").await;
    let longest = "UPDATE wrong SET payload = substr(payload, 1, 1048576) WHERE id = 2";
    database.run(longest).await;
    fleet.all_done(3).await;
    let texts = fleet.texts();
    assert_eq!(texts[..2], rows(2));
    assert_eq!(texts[2].len(), 1 << 20);
    database.until_empty("wrong").await;
    generator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_row_without_a_message_or_with_a_wrong_key_is_named() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = || database.absent("hollow").key_column("key");
    database.run(&outbox().setup_sql()).await;
    let relax = "ALTER TABLE hollow ALTER payload DROP NOT NULL, ALTER key DROP NOT NULL";
    database.run(relax).await;
    for (values, why) in [
        ("NULL, 'k'", "its column payload is null"),
        ("'row', NULL", "its key is null"),
        ("'row', ''", "its key is wrong: it is empty"),
        (
            "'row', repeat('k', 257)",
            "its key is wrong: it has 257 bytes; it may have 256",
        ),
        (
            "'row', E'k\\n'",
            "its key is wrong: it has a control character",
        ),
    ] {
        database
            .run(&format!(
                "TRUNCATE hollow RESTART IDENTITY; INSERT INTO hollow (payload, key) VALUES \
                 ({values}), ('row 1', 'key 1')"
            ))
            .await;
        let (fleet, generator, worker) = started(outbox()).await;
        let reason = format!(
            "table hollow, row 1: {why}; mend or delete the row, and those behind it follow"
        );
        until_failed(&generator, &reason).await;
        database.run("DELETE FROM hollow WHERE id = 1").await;
        fleet.all_done(1).await;
        assert_eq!(fleet.texts(), rows(1));
        generator.stop().await;
        worker.stop().await;
    }
}

#[tokio::test]
async fn a_cursor_of_another_table_or_source_is_not_used() {
    let Some(database) = shared().await else {
        return;
    };
    let (fleet, generator, worker) = started(database.outbox("before").await).await;
    let after = database.outbox("after").await;
    database.insert("after", 2, 3).await;
    database.insert("before", 1, 1).await;
    fleet.all_done(1).await;
    generator.stop().await;
    let next = fleet.with(Roles::OnlyGenerates).start(after);
    fleet.all_done(3).await;
    assert_eq!(fleet.texts(), rows(3));
    let foreign = Warning::ForeignCursor {
        key: "baton:{sources:0}:fence".to_owned(),
    };
    assert_eq!(next.warnings(), [foreign]);
    next.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_postgres_that_went_back_in_time_loses_no_row_in_silence() {
    let Some(database) = shared().await else {
        return;
    };
    let outbox = || database.absent("restored");
    database.run(&outbox().setup_sql()).await;
    database.insert("restored", 1, 1).await;
    let (fleet, generator, worker) = started(outbox()).await;
    fleet.all_done(1).await;
    database.until_empty("restored").await;
    generator.stop().await;
    for (cursor, begin) in [
        (
            "900000000000 1",
            "the table restored was read up to transaction 900000000000, and the next one",
        ),
        ("nonsense", "'nonsense' is no cursor of an outbox"),
    ] {
        let stored = format!("outbox:restored {cursor}");
        let key = "baton:{sources:0}:fence";
        let () = fleet.redis().hset(key, "cursor", &stored).unwrap();
        database.insert("restored", 2, 2).await;
        let node = fleet.with(Roles::OnlyGenerates).start(outbox());
        until("a warning", || !node.warnings().is_empty()).await;
        let warnings = node.warnings();
        assert!(
            matches!(&warnings[..], [Warning::SourceGaveUp { reason }] if reason.starts_with(begin)),
            "{warnings:?}"
        );
        node.stop().await;
        assert_eq!(fleet.fence("cursor"), stored);
    }
    // Nothing was relayed, and nothing deleted.
    assert_eq!(database.rows("restored").await, 2);
    assert_eq!(fleet.inspector.snapshot().await.unwrap().published, 1);
    worker.stop().await;
}
