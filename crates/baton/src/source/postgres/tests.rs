//! What needs no server: names, cursors, addresses.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::source::SourceError;

#[test]
fn names_are_quoted_whatever_characters_they_have() {
    let outbox = Outbox::new("host=localhost")
        .unwrap()
        .schema("my \"app\"")
        .table("it's new")
        .mark("done");
    let sql = outbox.setup_sql();
    let table = r#""my ""app""" . "it's new""#.replace(" . ", ".");
    assert!(
        sql.contains(&format!("CREATE TABLE IF NOT EXISTS {table} (")),
        "{sql}"
    );
    assert!(
        sql.contains(r#"'BEGIN NOTIFY "my ""app"".it''s new"; RETURN NULL; END'"#),
        "{sql}"
    );
    assert_eq!(outbox.kind(), "outbox:my%20\"app\".it's%20new");
}

#[test]
fn another_table_is_another_kind_of_source() {
    let outbox = || Outbox::new("host=localhost").unwrap();
    assert_eq!(outbox().kind(), "outbox:outbox");
    assert_eq!(outbox().table("events").kind(), "outbox:events");
    assert_eq!(outbox().schema("shop").kind(), "outbox:shop.outbox");
}

#[test]
fn a_cursor_is_read_as_it_was_written_and_anything_else_is_refused() {
    let cursor = RowCursor { xid: 742, id: -3 };
    assert_eq!(RowCursor::parse(cursor.to_string().as_bytes()), Ok(cursor));
    for wrong in [
        "", "742", "742 ", " 15", "-1 15", "742 15 3", "742 x", "\u{7f}",
    ] {
        let error = RowCursor::parse(wrong.as_bytes()).unwrap_err();
        assert!(matches!(error, SourceError::Fatal(_)), "{wrong}: {error}");
    }
    let error = RowCursor::parse(b"7\xff").unwrap_err().to_string();
    assert_eq!(
        error,
        r"'7\xff' is no cursor of an outbox, such as '742 15'"
    );
}

#[test]
fn an_address_that_is_none_is_refused_and_tells_no_password() {
    for wrong in [
        "postgres://app:secret@host:port/shop",
        "host=localhost port=secret1 password=secret",
        "nonsense",
    ] {
        let error = Outbox::new(wrong).unwrap_err().to_string();
        assert!(
            !error.is_empty() && !error.contains("secret@") && error.len() < 100,
            "{error}"
        );
    }
}
