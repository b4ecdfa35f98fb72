//! Windows over the lists: help, a node, a failed message in full, the fleet's health.

use std::sync::Arc;

use baton::inspect::{FailedPreview, NodeRole, NodeStatus, PartitionSnapshot, Snapshot, View};
use baton_protocol::text::{Escaped, moment};

use crate::app::{App, warnings};
use crate::format::{age, latency, number, rate, sentence, thousands};
use crate::full_text::FullText;
use crate::input::HELP;
use crate::text::{escape, wrap};

/// The content of a window.
#[derive(Debug)]
pub(crate) enum Window {
    Help,
    /// The node of this name.
    Node(String),
    /// This failed message, and its whole text once it has been read.
    Failed(FailedPreview, Option<FullText>),
    /// The fleet's troubles, and the server's settings that can lose messages.
    Troubles,
    /// A text of the program that runs the fleet.
    Report {
        title: String,
        lines: Vec<String>,
    },
}

/// An open window.
#[derive(Debug)]
pub(crate) struct OpenWindow {
    window: Window,
    /// The first visible line.
    pub(crate) scroll: usize,
    /// How many lines were visible in the last frame.
    pub(crate) height: usize,
    /// The lines, wrapped for this width. Cached, because a message can be long.
    wrapped: Option<(usize, Arc<[String]>)>,
}

impl OpenWindow {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            scroll: 0,
            height: 1,
            wrapped: None,
        }
    }

    /// Discards the cached lines.
    pub(crate) fn refresh(&mut self) {
        self.wrapped = None;
    }

    /// Takes the text of a failed message, if the window still has that message.
    pub(crate) fn set_full_text(&mut self, preview: &FailedPreview, text: FullText) {
        if let Window::Failed(open, full) = &mut self.window
            && open == preview
        {
            *full = Some(text);
            self.refresh();
        }
    }

    pub(crate) fn title(&self) -> String {
        match &self.window {
            Window::Help => "Help".to_owned(),
            Window::Node(name) => format!("Node {}", escape(name)),
            Window::Failed(preview, _) => match preview.seq {
                0 => "Not a message of this fleet".to_owned(),
                seq => format!("Failed message {}", number(preview.partition, seq)),
            },
            Window::Troubles => "Health".to_owned(),
            Window::Report { title, .. } => escape(title),
        }
    }
}

impl App {
    /// The lines of the open window, wrapped for this width.
    pub(crate) fn window_lines(&mut self, width: usize) -> Arc<[String]> {
        let Some(open) = &self.open else {
            return Arc::default();
        };
        if let Some((_, lines)) = open.wrapped.as_ref().filter(|wrapped| wrapped.0 == width) {
            return Arc::clone(lines);
        }
        let lines = self.content(&open.window);
        let lines: Arc<[String]> = lines.iter().flat_map(|line| wrap(line, width)).collect();
        if let Some(open) = &mut self.open {
            open.wrapped = Some((width, Arc::clone(&lines)));
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
            Window::Failed(preview, full) => failed(preview, full.as_ref()),
            Window::Troubles => troubles(&self.view),
            Window::Report { lines, .. } => lines.iter().map(|line| escape(line)).collect(),
        }
    }

    fn help(&self) -> Vec<String> {
        let line = |(key, does): (&str, &str)| format!("{key:>10}  {does}");
        let mut lines = Vec::new();
        if let Some(keys) = &self.keys {
            let custom = keys.help().into_iter();
            lines.extend(custom.map(|(key, does)| line((&key.to_string(), does))));
            lines.push(String::new());
        }
        // The help leaves out our keys that the program has taken.
        let is_custom =
            |word: &str| word.chars().count() == 1 && word.chars().any(|c| self.is_custom(c));
        let own = HELP
            .into_iter()
            .filter(|(key, _)| !key.split(' ').any(is_custom));
        lines.extend(own.map(line));
        lines.push(String::new());
        for words in [
            "balanced: published + retried = done + failed + pending + claimed + delayed \
             (until the next attempt) + void (lost), counted from the data.",
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
                format!("{}, process {}", escape(&node.host), node.pid),
            ),
            field("version", escape(&node.version)),
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
            format!("{} messages/s", rate(self.view.trend.per_s(&node.node))),
        ));
        for (name, count) in [
            ("in hand", node.claimed),
            ("published", node.published),
            ("processed", node.processed),
            ("failed", node.failed),
            ("delayed", node.delayed),
        ] {
            lines.push(field(name, thousands(count)));
        }
        if let Some(reason) = &node.handler_trouble {
            lines.push(field("handler", format!("cannot work: {}", escape(reason))));
        }
        if let Some(reason) = &node.publish_trouble {
            lines.push(field("publishes", format!("nothing: {}", escape(reason))));
        }
        if let Some(level) = &node.durability {
            let trouble = node.durability_trouble.as_deref();
            let trouble = trouble.map(|reason| format!(", not confirmed: {}", escape(reason)));
            let level = escape(level) + &trouble.unwrap_or_default();
            lines.push(field("durability", level));
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
        let takeovers = snapshot.takeovers.iter().filter(|takeover| {
            takeover.node == node.node || takeover.from.as_ref() == Some(&node.node)
        });
        let takeovers: Vec<String> = takeovers
            .map(|takeover| format!("{}, {}", sentence(takeover), ago(takeover.at_ms)))
            .collect();
        if !takeovers.is_empty() {
            lines.extend([String::new(), "Takeovers it was part of:".to_owned()]);
            lines.extend(takeovers);
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

fn failed(preview: &FailedPreview, full: Option<&FullText>) -> Vec<String> {
    let field = |name: &str, text: String| format!("{name:<9}{text}");
    let mut lines = vec![
        field(
            "at",
            moment(preview.at_ms).unwrap_or("not known".to_owned()),
        ),
        field("node", escape(&preview.node)),
        field("attempt", preview.attempt.to_string()),
    ];
    let mut reason = escaped_lines(preview.reason.as_bytes()).into_iter();
    lines.push(field("reason", reason.next().unwrap_or_default()));
    lines.extend(reason);
    let state = match (full, preview.cut) {
        (Some(FullText::Text(text)), _) => format!("{} bytes", thousands(text.len() as u64)),
        (None, _) => "being read …".to_owned(),
        (Some(FullText::Gone), true) => {
            "no longer among the newest in the errors store; its beginning:".to_owned()
        }
        (Some(FullText::Gone), false) => {
            "no longer among the newest in the errors store; as it was:".to_owned()
        }
        (Some(FullText::Trouble(why)), _) => format!("cannot be read in full: {}", escape(why)),
    };
    lines.extend([field("text", state), String::new()]);
    lines.extend(match full {
        Some(FullText::Text(text)) => escaped_lines(text),
        _ => escaped_lines(preview.text.as_bytes()),
    });
    lines
}

/// Escapes each line of a text. The escape of a line break ends its line.
fn escaped_lines(text: &[u8]) -> Vec<String> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(|line| Escaped(line).to_string())
        .collect()
}

/// The server, its replicas, and what the nodes wait for.
fn server(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = vec![format!("server: {}", escape(&snapshot.server.version))];
    if let Some(level) = &snapshot.durability.level {
        let promise = escape(&snapshot.durability.promise);
        lines.push(format!("durability: {}: {promise}", escape(level)));
    }
    lines.extend(snapshot.server.replication.iter().map(|replica| {
        let state = match (replica.is_online(), replica.lag_s) {
            (true, Some(lag_s)) => format!(
                "{} bytes unacknowledged, last heard {lag_s} s ago",
                thousands(replica.behind_bytes)
            ),
            _ => format!("does not follow yet ({})", escape(&replica.state)),
        };
        format!("replica {}: {state}", escape(&replica.address))
    }));
    lines
}

fn troubles(view: &View) -> Vec<String> {
    let mut lines = Vec::new();
    let troubles = view.trouble.iter().chain(&view.health.troubles);
    lines.extend(troubles.map(|trouble| format!("✗ {}", escape(trouble))));
    if lines.is_empty() {
        lines.push("✓ the fleet is well".to_owned());
    }
    if let Some(snapshot) = &view.snapshot {
        let foreign = snapshot.foreign;
        if foreign > 0 {
            lines.push(format!(
                "! {} entries in the queue were no messages of this fleet; they are in the \
                 errors store",
                thousands(foreign)
            ));
        }
        let warnings = warnings(snapshot);
        lines.extend(
            warnings
                .iter()
                .map(|warning| format!("! {}", escape(&warning.words))),
        );
        lines.push(String::new());
        lines.extend(server(snapshot));
        lines.extend(snapshot.partitions.iter().map(partition));
    }
    lines
}

/// A partition in one line.
fn partition(partition: &PartitionSnapshot) -> String {
    let index = partition.partition;
    match partition.trouble {
        // The warnings say why.
        Some(_) => format!("partition {index}: not read"),
        None => format!(
            "partition {index} on {}: {} published, {} pending, {} claimed, {} errors{}",
            escape(&partition.server),
            thousands(partition.published),
            thousands(partition.pending),
            thousands(partition.claimed),
            thousands(partition.errors),
            if partition.balanced {
                ""
            } else {
                ", NOT BALANCED"
            },
        ),
    }
}
