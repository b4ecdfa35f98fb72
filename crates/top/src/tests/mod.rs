//! The screen of an invented fleet.

mod frames;
mod keys;
mod live;

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::inspect::{
    FailedPreview, Histogram, NodeRole, NodeStatus, PartitionSnapshot, Replica, Snapshot, Takeover,
    TakeoverCause, Trend, View,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::Keys;
use crate::app::App;
use crate::input::Action;
use crate::palette::Palette;

const NOW_MS: u64 = 1_700_000_000_000;
const PLACE: &str = "fleet default on redis://localhost:6379";

fn node(name: &str, role: NodeRole, claimed: u64, seen_ms_ago: u64) -> NodeStatus {
    let mut node = NodeStatus::default();
    node.node = name.to_owned();
    node.role = role;
    node.host = "riverbank".to_owned();
    node.pid = 4711;
    node.version = "0.1.0".to_owned();
    node.processed = 1000;
    node.failed = 3;
    node.claimed = claimed;
    node.latency = latency();
    node.joined_ms = NOW_MS - 133_000;
    node.seen_ms = NOW_MS - seen_ms_ago;
    node
}

fn latency() -> Histogram {
    serde_json::from_str(r#"{"counts":[10,500,400,80,10],"sum_s":3.5}"#).unwrap()
}

fn preview(seq: u64, reason: &str, text: &str) -> FailedPreview {
    let mut preview = FailedPreview::default();
    preview.seq = seq;
    preview.at_ms = NOW_MS - 5_000;
    preview.node = "n2".to_owned();
    preview.reason = reason.to_owned();
    preview.attempt = 1;
    preview.text = text.to_owned();
    preview
}

fn takeover(epoch: u64, node: &str, at_ms: u64, gap_ms: u64, how: TakeoverCause) -> Takeover {
    let mut takeover = Takeover::default();
    takeover.epoch = epoch;
    takeover.node = node.to_owned();
    takeover.at_ms = at_ms;
    takeover.gap_ms = gap_ms;
    takeover.how = how;
    takeover
}

/// Names the holder before a takeover.
fn from(mut takeover: Takeover, node: &str) -> Takeover {
    takeover.from = Some(node.to_owned());
    takeover
}

/// Three nodes and a dead one, two minutes after a takeover.
fn snapshot() -> Snapshot {
    let mut generator = node("n1", NodeRole::Generator, 0, 200);
    generator.published = 4_000;
    let mut snapshot = Snapshot::default();
    snapshot.fleet = "default".to_owned();
    snapshot.generator.node = Some("n1".to_owned());
    snapshot.generator.epoch = 7;
    snapshot.generator.since_ms = Some(NOW_MS - 133_000);
    snapshot.generator.until_ms = NOW_MS + 1_300;
    snapshot.nodes = vec![
        node("n0", NodeRole::Dead, 0, 134_000),
        generator,
        node("n2", NodeRole::Worker, 12, 1_400),
        node("n3", NodeRole::Worker, 3, 50),
    ];
    snapshot.published = 12_345;
    snapshot.done = 12_288;
    snapshot.failed = 7;
    snapshot.pending = 23;
    snapshot.claimed = 15;
    snapshot.delayed = 12;
    snapshot.next_due_ms = Some(NOW_MS + 2_600);
    snapshot.errors = 2;
    snapshot.balanced = true;
    snapshot.counted = true;
    snapshot.now_ms = NOW_MS;
    snapshot.takeovers = vec![
        from(
            takeover(7, "n1", NOW_MS - 133_000, 31, TakeoverCause::Gone),
            "n0",
        ),
        takeover(6, "n0", NOW_MS - 1_000_000, 0, TakeoverCause::First),
    ];
    snapshot.newest = vec![
        preview(12_001, "no such customer", "order 17 of customer 寿司"),
        preview(11_950, "too long", "order 16"),
    ];
    snapshot.server.version = "Valkey 9.1.2".to_owned();
    snapshot
}

/// The view of a watch after ten snapshots, the last of which is this one.
fn view(snapshot: Snapshot) -> View {
    let mut trend = Trend::default();
    for ago in (0..10).rev() {
        let mut then = snapshot.clone();
        then.now_ms -= ago * 1000;
        then.published -= ago * 10;
        then.done -= ago * (8 + ago % 3);
        then.pending += ago;
        then.delayed += ago;
        for node in &mut then.nodes {
            node.seen_ms -= ago * 1000;
            if ago > 5 {
                node.latency = Histogram::default();
            }
            match node.role {
                NodeRole::Worker => {
                    let per_s = 1 + node.claimed;
                    node.processed = node.processed.saturating_sub(ago * per_s);
                }
                NodeRole::Generator => node.published = node.published.saturating_sub(ago * 10),
                _ => {}
            }
        }
        trend.add(&Arc::new(then));
    }
    let mut view = View::default();
    view.fleet = snapshot.fleet.clone();
    view.snapshot = Some(Arc::new(snapshot));
    view.at = Some(Instant::now());
    view.trend = Arc::new(trend);
    view
}

/// The view of a watch that has read no snapshot yet.
fn empty_view(trouble: Option<&str>) -> View {
    let mut view = View::default();
    view.fleet = "default".to_owned();
    view.trouble = trouble.map(str::to_owned);
    view
}

/// The same view with a trouble.
fn with_trouble(view: &View, trouble: &str) -> Arc<View> {
    let mut view = view.clone();
    view.trouble = Some(trouble.to_owned());
    Arc::new(view)
}

/// The screen at the moment of a view.
fn app_of(view: View) -> App {
    let now = view.at.unwrap_or_else(Instant::now);
    App::new(PLACE, Palette { colour: true }, None, Arc::new(view), now)
}

fn later(app: &App, ms: u64) -> Instant {
    app.now + Duration::from_millis(ms)
}

fn press(app: &mut App, code: KeyCode) -> Option<Action> {
    app.press(KeyEvent::new(code, KeyModifiers::NONE))
}

fn type_in(app: &mut App, text: &str) {
    for c in text.chars() {
        assert_eq!(press(app, KeyCode::Char(c)), None);
    }
}

/// The keys of a program, which remembers what the user pressed.
#[derive(Default)]
struct CustomKeys {
    pressed: Vec<String>,
    window: Option<(String, Vec<String>)>,
}

impl Keys for CustomKeys {
    fn help(&self) -> Vec<(char, &'static str)> {
        vec![
            ('k', "kill the generator"),
            ('w', "kill the worker"),
            ('+', "one more"),
        ]
    }

    fn press(&mut self, key: char, selected: Option<&str>) {
        self.pressed
            .push(format!("{key} {}", selected.unwrap_or("-")));
        self.window = (key == '+').then(|| ("Report".to_owned(), vec!["one".to_owned()]));
    }

    fn notice(&self) -> Option<String> {
        self.pressed
            .last()
            .map(|pressed| format!("pressed {pressed}"))
    }

    fn window(&mut self) -> Option<(String, Vec<String>)> {
        self.window.take()
    }
}
