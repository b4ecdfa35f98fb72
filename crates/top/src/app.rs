//! What is shown: the latest reading, and what the user made of it. Nothing here draws, reads
//! keys or talks to Redis, so that all of it can be tested as it is.

use std::sync::Arc;
use std::time::Duration;

use baton::inspect::{FailedGlance, NodeRole, NodeStatus, Snapshot, View};
use std::time::Instant;

use crate::Keys;
use crate::cursor::Cursor;
use crate::palette::Palette;
use crate::window::{Open, Window};

/// How long a takeover is news.
const NEWS: Duration = Duration::from_secs(3);

/// The lists that can be walked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panel {
    Nodes,
    Failed,
}

/// What the nodes are sorted by; the most interesting first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Name,
    Role,
    Rate,
    InHand,
    LastSeen,
}

impl Sort {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Name => Self::Role,
            Self::Role => Self::Rate,
            Self::Rate => Self::InHand,
            Self::InHand => Self::LastSeen,
            Self::LastSeen => Self::Name,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Role => "role",
            Self::Rate => "rate",
            Self::InHand => "in hand",
            Self::LastSeen => "last seen",
        }
    }
}

/// The state of the view.
pub(crate) struct App {
    /// Where the fleet is.
    pub(crate) place: String,
    pub(crate) palette: Palette,
    pub(crate) seen: Arc<View>,
    /// This moment, as the last tick or reading told.
    pub(crate) now: Instant,
    /// Keys of whoever runs the fleet.
    pub(crate) keys: Option<Box<dyn Keys>>,
    pub(crate) focus: Panel,
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// Whether the filter is being typed.
    pub(crate) typing: bool,
    /// The nodes that are listed: places in the snapshot.
    pub(crate) nodes: Vec<usize>,
    pub(crate) node: Cursor<String>,
    /// The failed messages that are listed: places in the snapshot.
    pub(crate) failed: Vec<usize>,
    pub(crate) message: Cursor<FailedGlance>,
    pub(crate) open: Option<Open>,
    /// Moves on while messages are published.
    pub(crate) beat: usize,
    /// Whether messages were published between the last two readings.
    pub(crate) beating: bool,
    /// When a takeover was first seen.
    took_over: Option<Instant>,
}

impl App {
    pub(crate) fn new(
        place: &str,
        palette: Palette,
        keys: Option<Box<dyn Keys>>,
        seen: Arc<View>,
        now: Instant,
    ) -> Self {
        let mut app = Self {
            place: place.to_owned(),
            palette,
            seen,
            now,
            keys,
            focus: Panel::Nodes,
            sort: Sort::Name,
            reversed: false,
            filter: String::new(),
            typing: false,
            nodes: Vec::new(),
            node: Cursor::default(),
            failed: Vec::new(),
            message: Cursor::default(),
            open: None,
            beat: 0,
            beating: false,
            took_over: None,
        };
        app.list();
        app
    }

    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.seen.snapshot.as_ref()
    }

    /// Takes the next reading.
    pub(crate) fn read(&mut self, seen: Arc<View>, now: Instant) {
        if let (Some(last), Some(next)) = (&self.seen.snapshot, &seen.snapshot) {
            self.beating = next.published > last.published;
            if next.generator.epoch != last.generator.epoch {
                self.took_over = Some(now);
            }
        }
        self.seen = seen;
        self.now = now;
        if let Some(open) = &mut self.open {
            open.refresh();
        }
        self.list();
    }

    /// Time went on.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.now = now;
        if self.beating && self.seen.trouble.is_none() {
            self.beat = self.beat.wrapping_add(1);
        }
        let told = self.keys.as_mut().and_then(|keys| keys.window());
        if let Some((title, lines)) = told {
            self.show(Window::Told { title, lines });
        }
    }

    pub(crate) fn show(&mut self, window: Window) {
        self.open = Some(Open::new(window));
    }

    /// Redis's clock. It stands still while Redis is away: what is shown is how things were.
    pub(crate) fn clock_ms(&self) -> u64 {
        let read = self.snapshot().map_or(0, |snapshot| snapshot.now_ms);
        match (&self.seen.trouble, self.seen.at) {
            (None, Some(at)) => {
                let since = self.now.saturating_duration_since(at).as_millis();
                read.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
            }
            _ => read,
        }
    }

    /// Whether the baton changed hands just now.
    pub(crate) fn is_news(&self) -> bool {
        self.took_over
            .is_some_and(|at| self.now.saturating_duration_since(at) < NEWS)
    }

    /// The node of a row.
    pub(crate) fn node_at(&self, row: usize) -> Option<&NodeStatus> {
        self.snapshot()?.nodes.get(*self.nodes.get(row)?)
    }

    /// The failed message of a row.
    pub(crate) fn message_at(&self, row: usize) -> Option<&FailedGlance> {
        self.snapshot()?.newest.get(*self.failed.get(row)?)
    }

    /// Sorts and filters what is listed; the selection stays on what it was on.
    pub(crate) fn list(&mut self) {
        let Some(snapshot) = self.snapshot().map(Arc::clone) else {
            return;
        };
        let wanted = self.filter.to_lowercase();
        let matches = |texts: &[&str]| {
            wanted.is_empty()
                || texts
                    .iter()
                    .any(|text| text.to_lowercase().contains(&wanted))
        };
        let nodes = snapshot.nodes.iter().enumerate();
        let mut nodes: Vec<usize> = nodes
            .filter(|(_, node)| matches(&[&node.node, &node.host, node.role.as_str()]))
            .map(|(at, _)| at)
            .collect();
        // Snapshots list nodes by name, so equal ones stay in the order of their names.
        nodes.sort_by(|a, b| {
            let order = self.compare(&snapshot.nodes[*a], &snapshot.nodes[*b]);
            if self.reversed {
                order.reverse()
            } else {
                order
            }
        });
        self.nodes = nodes;
        let newest = snapshot.newest.iter().enumerate();
        self.failed = newest
            .filter(|(_, failed)| {
                let seq = failed.seq.to_string();
                matches(&[&seq, &failed.node, &failed.reason, &failed.text])
            })
            .map(|(at, _)| at)
            .collect();
        let nodes = &self.nodes;
        self.node
            .follow(nodes.len(), |row| snapshot.nodes[nodes[row]].node.clone());
        // Nobody walks through them: the newest is on top.
        if self.focus != Panel::Failed {
            self.message = Cursor::default();
        }
        let failed = &self.failed;
        self.message
            .follow(failed.len(), |row| snapshot.newest[failed[row]].clone());
    }

    fn compare(&self, a: &NodeStatus, b: &NodeStatus) -> std::cmp::Ordering {
        let role = |node: &NodeStatus| match node.role {
            NodeRole::Generator => 0,
            NodeRole::Worker => 1,
            _ => 2,
        };
        let trend = &self.seen.trend;
        match self.sort {
            Sort::Name => a.node.cmp(&b.node),
            Sort::Role => role(a).cmp(&role(b)),
            Sort::Rate => trend.per_s(&b.node).total_cmp(&trend.per_s(&a.node)),
            Sort::InHand => b.claimed.cmp(&a.claimed),
            Sort::LastSeen => b.seen_ms.cmp(&a.seen_ms),
        }
    }

    /// Moves the selection of the list that has the keys.
    pub(crate) fn step(&mut self, by: isize) {
        let Some(snapshot) = self.snapshot().map(Arc::clone) else {
            return;
        };
        let (nodes, failed) = (&self.nodes, &self.failed);
        match self.focus {
            Panel::Nodes => self.node.step(by, nodes.len(), |row| {
                snapshot.nodes[nodes[row]].node.clone()
            }),
            Panel::Failed => self
                .message
                .step(by, failed.len(), |row| snapshot.newest[failed[row]].clone()),
        }
    }
}
