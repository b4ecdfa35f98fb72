//! Windows over the view: help, a node, a failed message in full, what is wrong.

use std::sync::Arc;

use baton::inspect::{FailedGlance, NodeRole, NodeStatus, View};
use baton_protocol::text::{Escaped, moment};

use crate::app::App;
use crate::full::Full;
use crate::input::HELP;
use crate::words::{age, latency, rate, safe, sentence, thousands, wrap};

/// What is in a window.
#[derive(Debug)]
pub(crate) enum Window {
    Help,
    /// The node of this name.
    Node(String),
    /// This failed message; none as long as it is being read.
    Failed(FailedGlance, Option<Full>),
    /// What is wrong, and what of the server's settings can lose messages.
    Troubles,
    /// Whatever somebody else has to say.
    Told {
        title: String,
        lines: Vec<String>,
    },
}

/// A window that is open.
#[derive(Debug)]
pub(crate) struct Open {
    window: Window,
    /// The first line that is shown.
    pub(crate) scroll: usize,
    /// Lines that were shown at once the last time.
    pub(crate) height: usize,
    /// The lines, broken for this width. Kept, for a message can be long.
    page: Option<(usize, Arc<[String]>)>,
}

impl Open {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            scroll: 0,
            height: 1,
            page: None,
        }
    }

    /// There is something new to show.
    pub(crate) fn refresh(&mut self) {
        self.page = None;
    }

    /// A failed message was read.
    pub(crate) fn is_read(&mut self, glance: &FailedGlance, full: Full) {
        if let Window::Failed(shown, read) = &mut self.window
            && shown == glance
        {
            *read = Some(full);
            self.refresh();
        }
    }

    pub(crate) fn title(&self) -> String {
        match &self.window {
            Window::Help => "Help".to_owned(),
            Window::Node(name) => format!("Node {}", safe(name)),
            Window::Failed(glance, _) => match glance.seq {
                0 => "Not a message of this fleet".to_owned(),
                seq => format!("Failed message {}", thousands(seq)),
            },
            Window::Troubles => "Health".to_owned(),
            Window::Told { title, .. } => safe(title),
        }
    }
}

impl App {
    /// The lines of the open window, broken for this width.
    pub(crate) fn page(&mut self, width: usize) -> Arc<[String]> {
        let Some(open) = &self.open else {
            return Arc::default();
        };
        if let Some((_, lines)) = open.page.as_ref().filter(|page| page.0 == width) {
            return Arc::clone(lines);
        }
        let lines = self.content(&open.window);
        let lines: Arc<[String]> = lines.iter().flat_map(|line| wrap(line, width)).collect();
        if let Some(open) = &mut self.open {
            open.page = Some((width, Arc::clone(&lines)));
        }
        lines
    }

    fn content(&self, window: &Window) -> Vec<String> {
        match window {
            Window::Help => self.help(),
            Window::Node(name) => {
                let nodes = self.snapshot().map(|snapshot| &snapshot.nodes);
                match nodes.and_then(|nodes| nodes.iter().find(|node| &node.node == name)) {
                    Some(node) => self.about(node),
                    None => vec!["This node is gone: the fleet has forgotten it.".to_owned()],
                }
            }
            Window::Failed(glance, full) => failed(glance, full.as_ref()),
            Window::Troubles => troubles(&self.seen),
            Window::Told { lines, .. } => lines.iter().map(|line| safe(line)).collect(),
        }
    }

    fn help(&self) -> Vec<String> {
        let line = |(key, does): (&str, &str)| format!("{key:>10}  {does}");
        let mut lines = Vec::new();
        if let Some(keys) = &self.keys {
            let theirs = keys.help().into_iter();
            lines.extend(theirs.map(|(key, does)| line((&key.to_string(), does))));
            lines.push(String::new());
        }
        // A letter that is theirs is not ours.
        let is_theirs =
            |word: &str| word.chars().count() == 1 && word.chars().any(|c| self.is_theirs(c));
        let ours = HELP
            .into_iter()
            .filter(|(key, _)| !key.split(' ').any(is_theirs));
        lines.extend(ours.map(line));
        lines.push(String::new());
        for words in [
            "balanced: published + retried = done + failed + pending + claimed, counted from \
             the data.",
            "A takeover: killed = the generator's process died; silent = it stopped renewing \
             its lease; resigned = it gave it up in good order; raised = the same node went on \
             under a new epoch.",
            "Its gap is how long the lease may have been without a living holder.",
        ] {
            lines.push(words.to_owned());
        }
        lines
    }

    fn about(&self, node: &NodeStatus) -> Vec<String> {
        let now = self.clock_ms();
        let ago = |ms: u64| format!("{} ago", age(now.saturating_sub(ms)));
        let field = |name: &str, text: String| format!("{name:<11}{text}");
        let mut lines = vec![
            field("role", role(node.role).to_owned()),
            field(
                "host",
                format!("{}, process {}", safe(&node.host), node.pid),
            ),
            field("version", safe(&node.version)),
            field("last seen", ago(node.seen_ms)),
        ];
        if node.joined_ms > 0 {
            lines.push(field(
                "in line",
                format!("for {}", age(now.saturating_sub(node.joined_ms))),
            ));
        }
        lines.push(field(
            "rate",
            format!("{} messages/s", rate(self.seen.trend.per_s(&node.node))),
        ));
        for (name, count) in [
            ("in hand", node.claimed),
            ("published", node.published),
            ("processed", node.processed),
            ("failed", node.failed),
        ] {
            lines.push(field(name, thousands(count)));
        }
        let quantile = |share| latency(node.latency.quantile(share));
        lines.push(field(
            "latency",
            format!(
                "publish → commit: half below {}, 99 % below {}",
                quantile(0.5),
                quantile(0.99)
            ),
        ));
        let Some(snapshot) = self.snapshot() else {
            return lines;
        };
        let held = snapshot.takeovers.iter().filter(|takeover| {
            takeover.node == node.node || takeover.from.as_ref() == Some(&node.node)
        });
        let held: Vec<String> = held
            .map(|takeover| format!("{}, {}", sentence(takeover), ago(takeover.at_ms)))
            .collect();
        if !held.is_empty() {
            lines.extend([String::new(), "Takeovers it was part of:".to_owned()]);
            lines.extend(held);
        }
        lines
    }
}

fn role(role: NodeRole) -> &'static str {
    match role {
        NodeRole::Dead => "dead: its process is gone",
        role => role.as_str(),
    }
}

fn failed(glance: &FailedGlance, full: Option<&Full>) -> Vec<String> {
    let field = |name: &str, text: String| format!("{name:<9}{text}");
    let mut lines = vec![
        field("at", moment(glance.at_ms).unwrap_or("not known".to_owned())),
        field("node", safe(&glance.node)),
        field("attempt", glance.attempt.to_string()),
    ];
    let mut reason = broken(glance.reason.as_bytes()).into_iter();
    lines.push(field("reason", reason.next().unwrap_or_default()));
    lines.extend(reason);
    let state = match (full, glance.cut) {
        (Some(Full::Text(text)), _) => format!("{} bytes", thousands(text.len() as u64)),
        (None, _) => "being read …".to_owned(),
        (Some(Full::Gone), true) => {
            "no longer among the newest in the errors store; its beginning:".to_owned()
        }
        (Some(Full::Gone), false) => {
            "no longer among the newest in the errors store; as it was:".to_owned()
        }
        (Some(Full::Trouble(why)), _) => format!("cannot be read in full: {}", safe(why)),
    };
    lines.extend([field("text", state), String::new()]);
    lines.extend(match full {
        Some(Full::Text(text)) => broken(text),
        _ => broken(glance.text.as_bytes()),
    });
    lines
}

/// A text in its own lines. A line break is shown, and made.
fn broken(text: &[u8]) -> Vec<String> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| Escaped(line).to_string())
        .collect()
}

fn troubles(seen: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let troubles = seen.trouble.iter().chain(&seen.health.troubles);
    lines.extend(troubles.map(|trouble| format!("✗ {}", safe(trouble))));
    if lines.is_empty() {
        lines.push("✓ the fleet is well".to_owned());
    }
    if let Some(snapshot) = &seen.snapshot {
        let foreign = snapshot.foreign;
        if foreign > 0 {
            lines.push(format!(
                "! {} entries in the queue were no messages of this fleet; they are in the \
                 errors store",
                thousands(foreign)
            ));
        }
        lines.extend(
            snapshot
                .warnings
                .iter()
                .map(|warning| format!("! {}", safe(warning))),
        );
        lines.extend([
            String::new(),
            format!("server: {}", safe(&snapshot.server.version)),
        ]);
    }
    lines
}
