//! A fleet that does not exist, and how it looks.

mod frames;
mod keys;
mod live;

use std::sync::Arc;
use std::time::Duration;

use baton::inspect::{
    FailedGlance, GeneratorStatus, Health, Histogram, How, NodeRole, NodeStatus, ServerInfo,
    Snapshot, Takeover, Trend, View,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::time::Instant;

use crate::Keys;
use crate::app::App;
use crate::input::Action;
use crate::palette::Palette;

const NOW_MS: u64 = 1_700_000_000_000;
const PLACE: &str = "fleet default on redis://localhost:6379";

fn node(name: &str, role: NodeRole, claimed: u64, seen_ms_ago: u64) -> NodeStatus {
    let mut made = NodeStatus::default();
    made.node = name.to_owned();
    made.role = role;
    made.host = "riverbank".to_owned();
    made.pid = 4711;
    made.version = "0.1.0".to_owned();
    made.processed = 1000;
    made.failed = 3;
    made.claimed = claimed;
    made.latency = latency();
    made.joined_ms = NOW_MS - 133_000;
    made.seen_ms = NOW_MS - seen_ms_ago;
    made
}

fn latency() -> Histogram {
    serde_json::from_str(r#"{"counts":[10,500,400,80,10],"sum_s":3.5}"#).unwrap()
}

fn glance(seq: u64, reason: &str, text: &str) -> FailedGlance {
    let mut made = FailedGlance::default();
    made.seq = seq;
    made.at_ms = NOW_MS - 5_000;
    made.node = "n2".to_owned();
    made.reason = reason.to_owned();
    made.attempt = 1;
    made.text = text.to_owned();
    made.cut = false;
    made
}

/// Three nodes and a dead one, some seconds after a takeover.
fn snapshot() -> Snapshot {
    let mut generator = node("n1", NodeRole::Generator, 0, 200);
    generator.published = 4_000;
    let mut server = ServerInfo::default();
    server.version = "Valkey 9.1.2".to_owned();
    {
        let mut made = Snapshot::default();
        made.fleet = "default".to_owned();
        made.generator = {
            let mut made = GeneratorStatus::default();
            made.node = Some("n1".to_owned());
            made.holder = None;
            made.epoch = 7;
            made.since_ms = Some(NOW_MS - 133_000);
            made.until_ms = NOW_MS + 1_300;
            made
        };
        made.nodes = vec![
            node("n0", NodeRole::Dead, 0, 134_000),
            generator,
            node("n2", NodeRole::Worker, 12, 1_400),
            node("n3", NodeRole::Worker, 3, 50),
        ];
        made.published = 12_345;
        made.done = 12_300;
        made.failed = 7;
        made.pending = 23;
        made.claimed = 15;
        made.errors = 2;
        made.balanced = true;
        made.counted = true;
        made.now_ms = NOW_MS;
        made.takeovers = vec![
            {
                let mut made = Takeover::default();
                made.epoch = 7;
                made.node = "n1".to_owned();
                made.at_ms = NOW_MS - 133_000;
                made.gap_ms = 31;
                made.how = How::Gone;
                made.from = Some("n0".to_owned());
                made
            },
            {
                let mut made = Takeover::default();
                made.epoch = 6;
                made.node = "n0".to_owned();
                made.at_ms = NOW_MS - 1_000_000;
                made.gap_ms = 0;
                made.how = How::First;
                made.from = None;
                made
            },
        ];
        made.newest = vec![
            glance(12_001, "no such customer", "order 17 of customer 寿司"),
            glance(11_950, "too long", "order 16"),
        ];
        made.server = server;
        made
    }
}

/// What a watch tells after it has read a snapshot: ten readings, the last of them this one.
fn seen(snapshot: Snapshot) -> View {
    let mut trend = Trend::default();
    for ago in (0..10).rev() {
        let mut then = snapshot.clone();
        then.now_ms -= ago * 1000;
        then.published -= ago * 10;
        then.done -= ago * (8 + ago % 3);
        then.pending += ago;
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
    {
        let mut made = View::default();
        made.fleet = snapshot.fleet.clone();
        made.snapshot = Some(Arc::new(snapshot));
        made.at = Some(Instant::now());
        made.trouble = None;
        made.trend = Arc::new(trend);
        made.health = Health::default();
        made
    }
}

fn nothing_seen(trouble: Option<&str>) -> View {
    let mut made = View::default();
    made.fleet = "default".to_owned();
    made.snapshot = None;
    made.at = None;
    made.trouble = trouble.map(str::to_owned);
    made.trend = Arc::default();
    made.health = Health::default();
    made
}

/// The view of a reading, at its very moment.
fn view(seen: View) -> App {
    let now = seen.at.unwrap_or_else(Instant::now);
    App::new(PLACE, Palette { colour: true }, None, Arc::new(seen), now)
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

/// Keys of somebody else, who remembers what was pressed.
#[derive(Default)]
struct Theirs {
    pressed: Vec<String>,
    window: Option<(String, Vec<String>)>,
}

impl Keys for Theirs {
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
