//! A fleet that does not exist, and how it looks.

mod frames;
mod keys;
mod live;

use std::sync::Arc;
use std::time::Duration;

use baton::{
    FailedGlance, GeneratorStatus, Health, Histogram, How, NodeStatus, Seen, ServerInfo, Snapshot,
    Takeover, Trend,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tokio::time::Instant;

use crate::Keys;
use crate::app::App;
use crate::input::Action;
use crate::palette::Palette;

const NOW_MS: u64 = 1_700_000_000_000;
const PLACE: &str = "fleet default on redis://localhost:6379";

fn node(name: &str, role: &'static str, claimed: u64, seen_ms_ago: u64) -> NodeStatus {
    NodeStatus {
        node: name.to_owned(),
        role,
        host: "riverbank".to_owned(),
        pid: 4711,
        version: "0.1.0".to_owned(),
        processed: 1000,
        failed: 3,
        claimed,
        latency: latency(),
        joined_ms: NOW_MS - 133_000,
        seen_ms: NOW_MS - seen_ms_ago,
        ..NodeStatus::default()
    }
}

fn latency() -> Histogram {
    serde_json::from_str(r#"{"counts":[10,500,400,80,10],"sum_s":3.5}"#).unwrap()
}

fn glance(seq: u64, reason: &str, text: &str) -> FailedGlance {
    FailedGlance {
        seq,
        at_ms: NOW_MS - 5_000,
        node: "n2".to_owned(),
        reason: reason.to_owned(),
        attempt: 1,
        text: text.to_owned(),
        cut: false,
    }
}

/// Three nodes and a dead one, some seconds after a takeover.
fn snapshot() -> Snapshot {
    let mut generator = node("n1", "generator", 0, 200);
    generator.published = 4_000;
    let mut server = ServerInfo::default();
    server.version = "Valkey 9.1.2".to_owned();
    Snapshot {
        fleet: "default".to_owned(),
        generator: GeneratorStatus {
            node: Some("n1".to_owned()),
            holder: None,
            epoch: 7,
            since_ms: Some(NOW_MS - 133_000),
            until_ms: NOW_MS + 1_300,
        },
        nodes: vec![
            node("n0", "dead", 0, 134_000),
            generator,
            node("n2", "worker", 12, 1_400),
            node("n3", "worker", 3, 50),
        ],
        published: 12_345,
        done: 12_300,
        failed: 7,
        pending: 23,
        claimed: 15,
        errors: 2,
        balanced: true,
        counted: true,
        now_ms: NOW_MS,
        takeovers: vec![
            Takeover {
                epoch: 7,
                node: "n1".to_owned(),
                at_ms: NOW_MS - 133_000,
                gap_ms: 31,
                how: How::Gone,
                from: Some("n0".to_owned()),
            },
            Takeover {
                epoch: 6,
                node: "n0".to_owned(),
                at_ms: NOW_MS - 1_000_000,
                gap_ms: 0,
                how: How::First,
                from: None,
            },
        ],
        newest: vec![
            glance(12_001, "no such customer", "order 17 of customer 寿司"),
            glance(11_950, "too long", "order 16"),
        ],
        server,
        ..Snapshot::default()
    }
}

/// What a watch tells after it has read a snapshot: ten readings, the last of them this one.
fn seen(snapshot: Snapshot) -> Seen {
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
                "worker" => {
                    let per_s = 1 + node.claimed;
                    node.processed = node.processed.saturating_sub(ago * per_s);
                }
                "generator" => node.published = node.published.saturating_sub(ago * 10),
                _ => {}
            }
        }
        trend.add(&Arc::new(then));
    }
    Seen {
        fleet: snapshot.fleet.clone(),
        snapshot: Some(Arc::new(snapshot)),
        at: Some(Instant::now()),
        trouble: None,
        trend: Arc::new(trend),
        health: Health::default(),
    }
}

fn nothing_seen(trouble: Option<&str>) -> Seen {
    Seen {
        fleet: "default".to_owned(),
        snapshot: None,
        at: None,
        trouble: trouble.map(str::to_owned),
        trend: Arc::default(),
        health: Health::default(),
    }
}

/// The view of a reading, at its very moment.
fn view(seen: Seen) -> App {
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
