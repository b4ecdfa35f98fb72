//! The screen of a fleet on a real server: it draws views and reads failed messages in full.

use std::io;

use baton::inspect::{Limits, Watch};
use baton::{FailedMessage, FleetName, Inspector, Target};
use baton_server::PrivateServer;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::Event;
use tokio::sync::{mpsc, watch};

use super::*;
use crate::full_text::{self, FullText};

fn record(seq: u64, text: &[u8]) -> Vec<u8> {
    let mut failed = FailedMessage::default();
    failed.seq = seq;
    failed.at_ms = NOW_MS;
    failed.node = "n2".to_owned();
    failed.reason = "too long".to_owned();
    failed.attempt = 1;
    failed.text = text.to_vec();
    baton_protocol::record::encode(&failed)
}

/// Puts records into the errors store.
fn push(server: &PrivateServer, records: &[Vec<u8>]) {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    let ids = redis::cmd("HINCRBY")
        .arg("baton:{default:0}:errors_ids")
        .arg("last")
        .arg(records.len())
        .query(&mut connection);
    let last: u64 = ids.unwrap();
    let mut command = redis::cmd("HSET");
    command.arg("baton:{default:0}:errors");
    for (id, record) in (last - records.len() as u64 + 1..).zip(records) {
        command.arg(id).arg(record);
    }
    command.exec(&mut connection).unwrap();
}

fn draw_on(terminal: &mut Terminal<TestBackend>, app: &mut App) -> io::Result<()> {
    terminal
        .draw(|frame| crate::draw::draw(frame, app))
        .unwrap();
    Ok(())
}

#[tokio::test]
async fn a_failed_message_is_read_in_full_as_long_as_it_is_there() {
    let server = PrivateServer::builder().start().unwrap();
    let target = Target::parse(&server.url()).unwrap();
    let fleet = FleetName::new("default").unwrap();
    let inspector = Inspector::connect(&target, &fleet).await.unwrap();
    let long = vec![b'x'; 10_000];
    let foreign = [b"\xc1 was never a record", &long[..]].concat();
    let another = [b"\xc1 was neither", &long[..]].concat();
    let short = record(8, b"short");
    push(
        &server,
        &[record(7, &long), foreign.clone(), another.clone(), short],
    );
    let snapshot = inspector.snapshot().await.unwrap();
    let cut: Vec<bool> = snapshot.newest.iter().map(|preview| preview.cut).collect();
    assert_eq!(cut, [false, true, true, true]);
    // Others fail meanwhile.
    let others: Vec<Vec<u8>> = (9..200).map(|seq| record(seq, b"later")).collect();
    push(&server, &others);
    for (preview, whole) in snapshot
        .newest
        .iter()
        .zip([&b"short"[..], &another, &foreign, &long])
    {
        match full_text::read(Some(inspector.clone()), preview).await {
            FullText::Text(text) => assert!(text == whole, "another text of {preview:?}"),
            other => panic!("{other:?} of {preview:?}"),
        }
    }
    let other = preview(7, "", "");
    assert!(matches!(
        full_text::read(Some(inspector), &other).await,
        FullText::Gone
    ));
    assert!(matches!(
        full_text::read(None, &other).await,
        FullText::Trouble(_)
    ));
}

#[tokio::test]
async fn the_screen_draws_every_view_until_q() {
    let server = PrivateServer::builder().start().unwrap();
    let target = Target::parse(&server.url()).unwrap();
    let fleet = FleetName::new("default").unwrap();
    let text = "order 17, and so on ".repeat(200) + "until the end";
    push(&server, &[record(7, text.as_bytes())]);
    let limits = Limits::default();
    let watch = Watch::start(target, fleet, Duration::from_millis(20), limits);
    let (keys, events) = mpsc::unbounded_channel();
    let (drawn, mut screen) = watch::channel(String::new());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let draw = |app: &mut App| {
        draw_on(&mut terminal, app)?;
        drawn.send_replace(terminal.backend().to_string());
        Ok(())
    };
    let app = app_of(View::clone(&watch.view()));
    let screen_ends = crate::event_loop(draw, events, &watch, app);
    let user = async {
        for (awaited, pressed) in [
            ("connecting to", KeyCode::Null),
            ("Failed messages 1", KeyCode::Tab),
            ("order 17", KeyCode::Enter),
            ("4,013 bytes", KeyCode::End),
            ("until the end", KeyCode::Esc),
            ("✓ balanced", KeyCode::Char('q')),
        ] {
            screen
                .wait_for(|screen| screen.contains(awaited))
                .await
                .unwrap();
            let key = KeyEvent::new(pressed, KeyModifiers::NONE);
            keys.send(Ok(Event::Key(key))).unwrap();
        }
    };
    let both = async { tokio::join!(screen_ends, user) };
    let (ended, ()) = tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("the screen never had the awaited text");
    ended.unwrap();
}

#[tokio::test]
async fn the_screen_ends_when_the_keyboard_is_gone() {
    let target = Target::parse("redis://127.0.0.1:1").unwrap();
    let fleet = FleetName::new("default").unwrap();
    let limits = Limits::default();
    let watch = Watch::start(target, fleet, Duration::from_secs(1), limits);
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let (keys, events) = mpsc::unbounded_channel();
    keys.send(Err(io::Error::other("hung up"))).unwrap();
    let app = app_of(View::clone(&watch.view()));
    let ended = crate::event_loop(|app| draw_on(&mut terminal, app), events, &watch, app).await;
    assert_eq!(ended.unwrap_err().to_string(), "hung up");
    drop(keys);
    let (_, events) = mpsc::unbounded_channel();
    let app = app_of(View::clone(&watch.view()));
    assert!(
        crate::event_loop(|app| draw_on(&mut terminal, app), events, &watch, app)
            .await
            .is_err()
    );
}
