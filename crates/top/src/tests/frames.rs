//! Compares whole frames with the files in `tests/frames`. `BATON_FRAMES=write` rewrites the files.

use std::path::Path;
use std::sync::Arc;

use baton_protocol::text::is_unsafe;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::{Buffer, CellWidth};
use ratatui::crossterm::event::KeyCode;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::draw::draw;
use crate::full_text::FullText;

fn drawn(app: &mut App, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal.backend().buffer().clone()
}

fn lines(buffer: &Buffer) -> Vec<String> {
    let rows = buffer.content.chunks(usize::from(buffer.area.width));
    rows.map(|cells| {
        let (mut line, mut hidden) = (String::new(), 0);
        for cell in cells {
            // A wide character covers the next cell.
            if hidden == 0 {
                line.push_str(cell.symbol());
                hidden = cell.cell_width();
            }
            hidden = hidden.saturating_sub(1);
        }
        line.trim_end().to_owned()
    })
    .collect()
}

#[track_caller]
fn assert_frame(name: &str, app: &mut App, width: u16, height: u16) -> Buffer {
    let buffer = drawn(app, width, height);
    let text = lines(&buffer).join("\n") + "\n";
    assert!(!text.chars().any(|c| c != '\n' && is_unsafe(c)), "{text:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frames");
    let path = path.join(format!("{name}.txt"));
    if std::env::var_os("BATON_FRAMES").is_some_and(|words| words == "write") {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{name} looks different now:\n{text}\nexpected:\n{expected}"
    );
    buffer
}

/// The style of the row of a node.
fn style_of(buffer: &Buffer, node: &str) -> (Color, Modifier) {
    let is_row = |line: &String| line.trim_start_matches(['▸', ' ']).starts_with(node);
    let at = lines(buffer).iter().position(is_row).unwrap();
    let cell = &buffer[(4, at as u16)];
    (cell.fg, cell.modifier)
}

#[test]
fn a_fleet_fits_into_80_by_24() {
    let mut app = app_of(view(snapshot()));
    let buffer = assert_frame("normal", &mut app, 80, 24);
    assert_eq!(style_of(&buffer, "n0").0, Color::DarkGray);
    assert_eq!(style_of(&buffer, "n1").0, Color::Cyan);
    assert_eq!(style_of(&buffer, "n3").0, Color::Reset);
}

#[test]
fn a_large_terminal_shows_more() {
    let mut app = app_of(view(snapshot()));
    assert_frame("large", &mut app, 140, 40);
}

#[test]
fn a_fleet_of_several_partitions_lists_them_in_full() {
    let mut snapshot = snapshot();
    snapshot.newest[0].partition = Some(2);
    snapshot.partitions = (0..3)
        .map(|index| {
            let mut partition = PartitionSnapshot::default();
            partition.partition = index;
            partition.server = format!("10.0.0.{index}:6379");
            partition.published = 4_115;
            partition.pending = 8;
            partition.claimed = 5;
            partition.balanced = index != 1;
            partition
        })
        .collect();
    let unread = &mut snapshot.partitions[2];
    (unread.server, unread.trouble) = (String::new(), Some("no answer".to_owned()));
    let mut app = app_of(view(snapshot));
    assert_frame("partitions", &mut app, 80, 24);
    press(&mut app, KeyCode::Char('!'));
    assert_frame("partitions_in_full", &mut app, 80, 24);
}

#[test]
fn the_smallest_terminal_has_room_for_all_and_a_smaller_one_says_so() {
    let mut app = app_of(view(snapshot()));
    assert_frame("smallest", &mut app, 60, 20);
    assert_frame("too_small", &mut app, 59, 24);
    for (width, height) in [(1, 1), (60, 19), (200, 3), (3, 200)] {
        drawn(&mut app, width, height);
    }
}

#[test]
fn a_takeover_is_highlighted_for_three_seconds() {
    let mut app = app_of(view(snapshot()));
    let mut next = snapshot();
    next.generator.node = Some("n3".to_owned());
    next.generator.epoch = 8;
    next.generator.since_ms = Some(NOW_MS + 900);
    next.now_ms = NOW_MS + 1000;
    next.published += 10;
    next.nodes.remove(0);
    next.nodes[0].role = NodeRole::Dead;
    next.nodes[2].role = NodeRole::Generator;
    let silent = takeover(8, "n3", NOW_MS + 900, 1_520, TakeoverCause::Expired);
    next.takeovers.insert(0, from(silent, "n1"));
    let now = later(&app, 1000);
    let mut next = view(next);
    next.at = Some(now);
    app.update(Arc::new(next), now);
    let buffer = assert_frame("takeover", &mut app, 80, 24);
    let is_news = |buffer: &Buffer| style_of(buffer, "n3").1.contains(Modifier::REVERSED);
    assert!(is_news(&buffer));
    let now = later(&app, 2_999);
    app.tick(now);
    assert!(is_news(&drawn(&mut app, 80, 24)));
    let now = later(&app, 1);
    app.tick(now);
    let buffer = drawn(&mut app, 80, 24);
    assert!(!is_news(&buffer));
    assert_eq!(
        lines(&buffer)[2],
        "» n3 took over from n1 after 1,520 ms (silent), 3.1 s ago"
    );
}

#[test]
fn the_heart_beats_while_messages_are_published() {
    let mut app = app_of(view(snapshot()));
    let beats = |app: &mut App| -> Vec<String> {
        let mut beats = Vec::new();
        for _ in 0..4 {
            let now = later(app, 250);
            app.tick(now);
            let line = lines(&drawn(app, 80, 24)).swap_remove(1);
            beats.push(line.replace(|c: char| c.is_ascii(), ""));
        }
        beats.dedup();
        beats
    };
    assert_eq!(beats(&mut app), ["♡────────────"]);
    let mut next = snapshot();
    next.published += 10;
    let now = app.now;
    app.update(Arc::new(view(next.clone())), now);
    assert_eq!(beats(&mut app).len(), 4);
    app.update(Arc::new(view(next)), now);
    assert_eq!(beats(&mut app), ["♡────────────"]);
}

#[test]
fn a_handler_that_cannot_work_is_a_warning() {
    let mut broken = snapshot();
    broken.nodes[2].handler_trouble = Some("exit code 127: \u{1b}[31mjq: not found".to_owned());
    broken.handler_troubles =
        vec!["the handler of n2 cannot work: exit code 127: \u{1b}[31mjq: not found".to_owned()];
    let mut app = app_of(view(broken));
    assert_frame("handler", &mut app, 80, 24);
    for code in [KeyCode::Down, KeyCode::Down, KeyCode::Enter] {
        press(&mut app, code);
    }
    assert_frame("handler_of_node", &mut app, 80, 24);
}

#[test]
fn a_server_that_refuses_messages_is_a_warning() {
    let mut full = snapshot();
    let reason = "OOM command not allowed when used memory > 'maxmemory'.";
    full.nodes[1].publish_trouble = Some(reason.to_owned());
    full.publish_troubles = vec![format!("the messages of n1 are not accepted: {reason}")];
    let mut app = app_of(view(full));
    let buffer = drawn(&mut app, 80, 24);
    assert_eq!(colour_of(&buffer, "! the messages of n1"), Color::Yellow);
    for code in [KeyCode::Down, KeyCode::Enter] {
        press(&mut app, code);
    }
    let window = lines(&drawn(&mut app, 80, 24)).join("\n");
    assert!(
        window.contains("publishes  nothing: OOM command"),
        "{window}"
    );
}

/// The colour of the first character of the line that begins with these words.
fn colour_of(buffer: &Buffer, words: &str) -> Color {
    let lines = lines(buffer);
    let at = lines.iter().position(|line| line.starts_with(words));
    buffer[(0, at.unwrap() as u16)].fg
}

#[test]
fn lost_messages_are_red_and_the_fleet_is_well() {
    let mut lost = snapshot();
    lost.void = 12;
    lost.published += 12;
    let mut app = app_of(view(lost.clone()));
    let buffer = assert_frame("lost", &mut app, 80, 24);
    assert_eq!(colour_of(&buffer, "! 12 messages"), Color::Red);
    assert_eq!(colour_of(&buffer, "! 12 of 12,357"), Color::Red);
    assert!(app.view.health.is_well());
    press(&mut app, KeyCode::Char('!'));
    assert_frame("lost_in_full", &mut app, 80, 24);
    // What goes on now is more urgent than what is lost.
    lost.durability_troubles = vec!["the writes of n1 are not confirmed: why".to_owned()];
    let buffer = drawn(&mut app_of(view(lost)), 80, 24);
    assert_eq!(colour_of(&buffer, "! the writes of n1"), Color::Yellow);
}

fn replica(address: &str, state: &str, behind_bytes: u64, lag_s: Option<u64>) -> Replica {
    let mut replica = Replica::default();
    replica.address = address.to_owned();
    replica.state = state.to_owned();
    (replica.behind_bytes, replica.lag_s) = (behind_bytes, lag_s);
    replica
}

#[test]
fn the_durability_is_beside_the_server_and_in_full_in_its_window() {
    let mut durable = snapshot();
    durable.durability.level = Some("replicas:2".to_owned());
    durable.durability.promise = "1 of 2 replicas follow, so nothing is confirmed".to_owned();
    durable.server.replicas = 2;
    durable.server.replication = vec![
        replica("10.0.0.2:6379", "online", 41_200, Some(1)),
        replica("\u{1b}[31m:6379", "send_bulk\u{1b}[0m", 900_000, None),
    ];
    durable.nodes[1].durability = Some("replicas:2".to_owned());
    let reason = "1 of 2 replicas have the \u{1b}[31mwrites";
    durable.nodes[1].durability_trouble = Some(reason.to_owned());
    durable.durability_troubles = vec![format!("the writes of n1 are not confirmed: {reason}")];
    let mut app = app_of(view(durable));
    assert_frame("durability", &mut app, 80, 24);
    press(&mut app, KeyCode::Char('!'));
    assert_frame("durability_in_full", &mut app, 80, 24);
    for code in [KeyCode::Esc, KeyCode::Down, KeyCode::Enter] {
        press(&mut app, code);
    }
    assert_frame("durability_of_node", &mut app, 80, 24);
}

#[test]
fn a_pause_is_on_the_screen_and_the_fleet_is_well() {
    let mut paused = snapshot();
    paused.paused.generator_since_ms = Some(NOW_MS - 65_000);
    let mut app = app_of(view(paused.clone()));
    assert_frame("paused_generator", &mut app, 80, 24);
    paused.paused.workers_since_ms = Some(NOW_MS - 4_200);
    paused.warnings = vec!["appendonly is off".to_owned()];
    let mut app = app_of(view(paused));
    assert_frame("paused", &mut app, 80, 24);
    press(&mut app, KeyCode::Char('!'));
    assert_frame("paused_in_full", &mut app, 80, 24);
}

#[test]
fn the_screen_says_what_is_wrong() {
    let mut wrong = snapshot();
    wrong.balanced = false;
    wrong.pending = 22;
    wrong.retried = 2;
    wrong.generator.node = None;
    wrong.generator.since_ms = None;
    wrong.warnings = vec!["appendonly is off".to_owned()];
    let mut wrong = view(wrong);
    wrong.health.troubles = vec!["no generator has renewed the lease for 4.0 s".to_owned()];
    let mut app = app_of(wrong);
    assert_frame("wrong", &mut app, 80, 24);
    press(&mut app, KeyCode::Char('!'));
    assert_frame("wrong_in_full", &mut app, 80, 24);
}

#[test]
fn the_last_known_state_stays_while_redis_is_away() {
    let mut app = app_of(view(snapshot()));
    let now = later(&app, 12_000);
    let mut away = View::clone(&app.view);
    away.health.troubles = vec!["the fleet could not be read for 11.0 s".to_owned()];
    let away = with_trouble(&away, "Redis is not available: connection refused");
    app.update(away, now);
    let buffer = assert_frame("away", &mut app, 80, 24);
    assert_eq!(style_of(&buffer, "n1").0, Color::DarkGray);
    assert!(style_of(&buffer, "n3").1.contains(Modifier::DIM));
    assert_eq!(buffer[(4, 0)].fg, Color::Red);
    let refused = with_trouble(&app.view, "NOPERM \u{1b}[31mno");
    app.update(refused, now);
    assert_eq!(
        lines(&drawn(&mut app, 80, 24))[0],
        " Nothing new for 12 s: last known state — NOPERM \\x1b[31mno"
    );
}

#[test]
fn before_the_first_snapshot_the_screen_says_what_it_waits_for() {
    let mut app = app_of(empty_view(None));
    assert_frame("connecting", &mut app, 80, 24);
    let mut app = app_of(empty_view(Some(
        "Redis is not available: connection refused",
    )));
    assert_frame("connecting_in_vain", &mut app, 80, 24);
    for code in [KeyCode::Down, KeyCode::Enter, KeyCode::Char('s')] {
        assert_eq!(press(&mut app, code), None);
        drawn(&mut app, 80, 24);
    }
}

#[test]
fn without_colours_no_cell_has_one() {
    let mut app = app_of(view(snapshot()));
    app.palette = Palette { colour: false };
    let check = |app: &mut App| {
        for cell in &drawn(app, 140, 40).content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    };
    check(&mut app);
    let buffer = drawn(&mut app, 80, 24);
    assert!(style_of(&buffer, "n0").1.contains(Modifier::DIM));
    assert!(style_of(&buffer, "n1").1.contains(Modifier::BOLD));
    for key in ['?', '!'] {
        press(&mut app, KeyCode::Char(key));
        check(&mut app);
        press(&mut app, KeyCode::Esc);
    }
    let now = app.now;
    let away = with_trouble(&app.view, "gone");
    app.update(away, now);
    check(&mut app);
}

#[test]
fn hostile_texts_stay_texts() {
    let evil = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}gnihton\u{2028}寿司\r\nsecond line\t\u{9b}31m";
    let mut hostile = snapshot();
    hostile.nodes[2].node = evil.to_owned();
    hostile.nodes[2].host = evil.to_owned();
    hostile.nodes[2].version = evil.to_owned();
    hostile.takeovers[0].from = Some(evil.to_owned());
    let mut failed = preview(12_001, evil, evil);
    failed.node = evil.to_owned();
    failed.cut = true;
    hostile.newest = vec![failed];
    hostile.warnings = vec![evil.to_owned()];
    hostile.server.version = evil.to_owned();
    let mut app = app_of(view(hostile));
    assert_frame("hostile", &mut app, 80, 24);
    press(&mut app, KeyCode::Tab);
    let Some(Action::Read(preview)) = press(&mut app, KeyCode::Enter) else {
        panic!("a failed message is to be read in full");
    };
    assert_frame("hostile_being_read", &mut app, 80, 24);
    let text = [evil.as_bytes(), b"\nand \xff\xfe the end"].concat();
    let open = app.open.as_mut().unwrap();
    open.set_full_text(&preview, FullText::Text(text));
    assert_frame("hostile_in_full", &mut app, 80, 24);
    app.open
        .as_mut()
        .unwrap()
        .set_full_text(&preview, FullText::Gone);
    assert_frame("hostile_gone", &mut app, 80, 24);
}

#[test]
fn a_long_message_scrolls_to_its_end() {
    let mut app = app_of(view(snapshot()));
    press(&mut app, KeyCode::Tab);
    let Some(Action::Read(preview)) = press(&mut app, KeyCode::Enter) else {
        panic!("a failed message is to be read in full");
    };
    let text: String = (0..2_000).map(|word| format!("word{word} ")).collect();
    let open = app.open.as_mut().unwrap();
    open.set_full_text(&preview, FullText::Text(text.into_bytes()));
    drawn(&mut app, 80, 24);
    press(&mut app, KeyCode::End);
    assert_frame("long_message", &mut app, 80, 24);
    press(&mut app, KeyCode::Up);
    assert!(
        lines(&drawn(&mut app, 80, 24))
            .concat()
            .contains("word1960")
    );
    press(&mut app, KeyCode::Home);
    assert!(
        lines(&drawn(&mut app, 80, 24))
            .concat()
            .contains("no such customer")
    );
}

#[test]
fn a_node_has_details() {
    let mut app = app_of(view(snapshot()));
    press(&mut app, KeyCode::Enter);
    assert_frame("node", &mut app, 80, 24);
    let mut next = snapshot();
    next.nodes.remove(0);
    let now = app.now;
    app.update(Arc::new(view(next)), now);
    assert_frame("node_gone", &mut app, 80, 24);
}

#[test]
fn help_names_every_key() {
    let mut app = app_of(view(snapshot()));
    press(&mut app, KeyCode::Char('?'));
    assert_frame("help", &mut app, 80, 24);
}

#[test]
fn custom_keys_are_in_the_footer_and_in_the_help() {
    let mut app = app_of(view(snapshot()));
    app.keys = Some(Box::new(CustomKeys::default()));
    let now = app.now;
    assert_frame("their_keys", &mut app, 80, 24);
    press(&mut app, KeyCode::Char('k'));
    assert_frame("their_notice", &mut app, 80, 24);
    press(&mut app, KeyCode::Char('?'));
    assert_frame("their_help", &mut app, 80, 24);
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Char('+'));
    app.tick(now);
    assert_frame("their_window", &mut app, 80, 24);
}

#[test]
fn a_filter_shows_what_matches() {
    let mut app = app_of(view(snapshot()));
    type_in(&mut app, "/N2");
    assert_frame("filter_typed", &mut app, 80, 24);
    press(&mut app, KeyCode::Enter);
    assert_frame("filter_kept", &mut app, 80, 24);
    type_in(&mut app, "/xyz");
    assert_frame("filter_nothing", &mut app, 80, 24);
}

#[test]
fn a_thousand_nodes_scroll() {
    let mut many = snapshot();
    many.nodes = (0..1000)
        .map(|at| node(&format!("node{at:04}"), NodeRole::Worker, at, at * 10))
        .collect();
    let mut app = app_of(view(many));
    for _ in 0..41 {
        press(&mut app, KeyCode::PageDown);
    }
    press(&mut app, KeyCode::Down);
    assert_frame("thousand", &mut app, 80, 24);
    press(&mut app, KeyCode::End);
    assert!(
        lines(&drawn(&mut app, 80, 24))
            .iter()
            .any(|line| line.starts_with("▸ node0999"))
    );
}
