//! The state of the screen: the latest view of the fleet, and the user's choices. It neither draws
//! nor reads keys nor talks to Redis, so a test needs none of these.

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::Part;
use baton::inspect::{FailedPreview, NodeRole, NodeStatus, Snapshot, View};

use crate::Keys;
use crate::format::age;
use crate::palette::Palette;
use crate::selection::Selection;
use crate::window::{OpenWindow, Window};

/// How long the screen highlights a takeover.
const NEWS: Duration = Duration::from_secs(3);

/// The lists that have a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Nodes,
    Failed,
}

/// What the nodes are sorted by.
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

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Role => "role",
            Self::Rate => "rate",
            Self::InHand => "in hand",
            Self::LastSeen => "last seen",
        }
    }
}

/// What an operator should know although the fleet may be well: what is paused, sources that cannot
/// go on, messages that the server refuses, handlers that cannot work, writes that are not confirmed,
/// partitions that cannot be read, messages that are lost, and what can lose more.
pub(crate) fn warnings(snapshot: &Snapshot) -> Vec<Warning> {
    let later = |words| Warning {
        words,
        is_loss: false,
    };
    let lost = snapshot.loss().map(|words| Warning {
        words,
        is_loss: true,
    });
    let troubles = snapshot.source_troubles.iter();
    let troubles = troubles
        .chain(&snapshot.publish_troubles)
        .chain(&snapshot.handler_troubles)
        .chain(&snapshot.durability_troubles);
    let before = paused(snapshot).into_iter().chain(troubles.cloned());
    let before = before.chain(snapshot.partition_troubles());
    before
        .map(later)
        .chain(lost)
        .chain(snapshot.warnings.iter().cloned().map(later))
        .collect()
}

/// What an operator should know.
pub(crate) struct Warning {
    pub(crate) words: String,
    /// Whether messages are lost, not only in danger.
    pub(crate) is_loss: bool,
}

/// What is paused and for how long, in words; none if nothing is.
fn paused(snapshot: &Snapshot) -> Option<String> {
    let parts = Part::ALL.into_iter().filter_map(|part| {
        let since_ms = snapshot.paused.since_ms(part)?;
        let lasted = age(snapshot.now_ms.saturating_sub(since_ms));
        Some(format!("{} for {lasted}", part.as_str()))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    (!parts.is_empty()).then(|| format!("paused: {parts}; `baton resume` ends it"))
}

/// The state of the screen.
pub(crate) struct App {
    /// The fleet and its Redis, as the title names them.
    pub(crate) place: String,
    pub(crate) palette: Palette,
    pub(crate) view: Arc<View>,
    /// The time of the last tick or view.
    pub(crate) now: Instant,
    /// The keys of the program that runs the fleet.
    pub(crate) keys: Option<Box<dyn Keys>>,
    pub(crate) focus: List,
    pub(crate) sort: Sort,
    pub(crate) reversed: bool,
    pub(crate) filter: String,
    /// Whether the user is typing the filter.
    pub(crate) typing: bool,
    /// The listed nodes, as indices into the snapshot.
    pub(crate) nodes: Vec<usize>,
    pub(crate) node: Selection<String>,
    /// The listed failed messages, as indices into the snapshot.
    pub(crate) failed: Vec<usize>,
    pub(crate) message: Selection<FailedPreview>,
    pub(crate) open: Option<OpenWindow>,
    /// A counter that advances while the generator publishes.
    pub(crate) beat: usize,
    /// Whether the generator published between the last two snapshots.
    pub(crate) beating: bool,
    /// When the screen first had the latest takeover.
    took_over: Option<Instant>,
}

impl App {
    pub(crate) fn new(
        place: &str,
        palette: Palette,
        keys: Option<Box<dyn Keys>>,
        view: Arc<View>,
        now: Instant,
    ) -> Self {
        let mut app = Self {
            place: place.to_owned(),
            palette,
            view,
            now,
            keys,
            focus: List::Nodes,
            sort: Sort::Name,
            reversed: false,
            filter: String::new(),
            typing: false,
            nodes: Vec::new(),
            node: Selection::default(),
            failed: Vec::new(),
            message: Selection::default(),
            open: None,
            beat: 0,
            beating: false,
            took_over: None,
        };
        app.list();
        app
    }

    pub(crate) fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.view.snapshot.as_ref()
    }

    /// Takes the next view.
    pub(crate) fn update(&mut self, view: Arc<View>, now: Instant) {
        if let (Some(last), Some(next)) = (&self.view.snapshot, &view.snapshot) {
            self.beating = next.published > last.published;
            if next.generator.epoch != last.generator.epoch {
                self.took_over = Some(now);
            }
        }
        self.view = view;
        self.now = now;
        if let Some(open) = &mut self.open {
            open.refresh();
        }
        self.list();
    }

    /// Advances the clock.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.now = now;
        if self.beating && self.view.trouble.is_none() {
            self.beat = self.beat.wrapping_add(1);
        }
        let report = self.keys.as_mut().and_then(|keys| keys.window());
        if let Some((title, lines)) = report {
            self.open_window(Window::Report { title, lines });
        }
    }

    pub(crate) fn open_window(&mut self, window: Window) {
        self.open = Some(OpenWindow::new(window));
    }

    /// Redis's clock. It stands still while Redis is away, because the screen then has the last
    /// known state.
    pub(crate) fn clock_ms(&self) -> u64 {
        let at_snapshot = self.snapshot().map_or(0, |snapshot| snapshot.now_ms);
        match (&self.view.trouble, self.view.at) {
            (None, Some(at)) => {
                let since = self.now.saturating_duration_since(at).as_millis();
                at_snapshot.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
            }
            _ => at_snapshot,
        }
    }

    /// Whether the lease has just changed hands.
    pub(crate) fn is_news(&self) -> bool {
        self.took_over
            .is_some_and(|at| self.now.saturating_duration_since(at) < NEWS)
    }

    /// The node of a row.
    pub(crate) fn node_at(&self, row: usize) -> Option<&NodeStatus> {
        self.snapshot()?.nodes.get(*self.nodes.get(row)?)
    }

    /// The failed message of a row.
    pub(crate) fn message_at(&self, row: usize) -> Option<&FailedPreview> {
        self.snapshot()?.newest.get(*self.failed.get(row)?)
    }

    /// Sorts and filters both lists. The selections stay on their items.
    pub(crate) fn list(&mut self) {
        let Some(snapshot) = self.snapshot().map(Arc::clone) else {
            return;
        };
        let filter = self.filter.to_lowercase();
        let matches = |texts: &[&str]| {
            filter.is_empty()
                || texts
                    .iter()
                    .any(|text| text.to_lowercase().contains(&filter))
        };
        let nodes = snapshot.nodes.iter().enumerate();
        let mut nodes: Vec<usize> = nodes
            .filter(|(_, node)| matches(&[&node.node, &node.host, node.role.as_str()]))
            .map(|(at, _)| at)
            .collect();
        // Snapshots list nodes by name, so nodes that compare equal stay in that order.
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
        // While the user does not select among them, the newest is selected.
        if self.focus != List::Failed {
            self.message = Selection::default();
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
        let trend = &self.view.trend;
        match self.sort {
            Sort::Name => a.node.cmp(&b.node),
            Sort::Role => role(a).cmp(&role(b)),
            Sort::Rate => trend.per_s(&b.node).total_cmp(&trend.per_s(&a.node)),
            Sort::InHand => b.claimed.cmp(&a.claimed),
            Sort::LastSeen => b.seen_ms.cmp(&a.seen_ms),
        }
    }

    /// Moves the selection of the focused list.
    pub(crate) fn step(&mut self, by: isize) {
        let Some(snapshot) = self.snapshot().map(Arc::clone) else {
            return;
        };
        let (nodes, failed) = (&self.nodes, &self.failed);
        match self.focus {
            List::Nodes => self.node.step(by, nodes.len(), |row| {
                snapshot.nodes[nodes[row]].node.clone()
            }),
            List::Failed => self
                .message
                .step(by, failed.len(), |row| snapshot.newest[failed[row]].clone()),
        }
    }
}
