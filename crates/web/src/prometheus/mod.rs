//! What is known of a fleet as Prometheus reads it.

mod page;

use std::time::{Duration, Instant};

use baton::inspect::{Counters, Histogram, NodeRole, NodeStatus, Snapshot, View};
use page::{LONGEST, Page, labels};

/// Beyond this age the last reading of a fleet is left out. Values that stand still look like a
/// fleet at rest, and every rule about them stays quiet; values that are missing look like what
/// they are.
const STALE: Duration = Duration::from_secs(60);
/// Most nodes that are told of: each one is some twenty series in somebody's database.
const MOST_NODES: usize = 1000;

/// All metrics: of the fleet, and of each of its nodes. With `own`, a node's name and what it
/// counts, of that node alone, and straight from its counters: they are newer than its last
/// beat, and there even if Redis is not.
pub fn exposition(seen: &View, own: Option<(&str, &Counters)>) -> String {
    exposition_at(Instant::now(), seen, own)
}

fn exposition_at(now: Instant, seen: &View, own: Option<(&str, &Counters)>) -> String {
    let mut page = Page::default();
    let fleet = labels(&[("fleet", &seen.fleet)]);
    let age = seen.at.map(|at| now.saturating_duration_since(at));
    let snapshot = match (&seen.snapshot, age) {
        (Some(snapshot), Some(age)) if age <= STALE => Some(snapshot.as_ref()),
        _ => None,
    };
    let up = snapshot.is_some() && seen.trouble.is_none();
    page.gauge(
        "baton_up",
        "Whether the latest attempt to read the fleet from Redis went well.",
        [(&fleet, u8::from(up))],
    );
    if let Some(age) = age {
        page.gauge(
            "baton_snapshot_age_seconds",
            "Age of the latest reading that went well.",
            [(&fleet, age.as_secs_f64())],
        );
    }
    page.gauge(
        "baton_healthy",
        "Whether all is well: the fleet can be read, somebody generates, the backlog moves.",
        [(&fleet, u8::from(seen.health.is_well()))],
    );
    if let Some(snapshot) = snapshot {
        messages(&mut page, &fleet, snapshot);
        generator(&mut page, &fleet, snapshot);
    }
    match own {
        Some((name, counters)) => {
            let row = Row::own(&seen.fleet, name, counters, snapshot);
            let labels = row.labels.clone();
            nodes(&mut page, &[row]);
            page.counter(
                "baton_node_lost_total",
                "Messages whose claim ran out before their commit: another worker has them.",
                [(&labels, counters.lost)],
            );
            page.histogram(
                "baton_handler_duration_seconds",
                "How long the handler took per message.",
                [(labels.as_str(), &counters.handling)],
            );
        }
        None => {
            if let Some(snapshot) = snapshot {
                let rows = rows(snapshot);
                page.gauge(
                    "baton_nodes_omitted",
                    "Nodes that this page says nothing more about: there are too many.",
                    [(&fleet, snapshot.nodes.len() - rows.len())],
                );
                nodes(&mut page, &rows);
            }
        }
    }
    page.text
}

/// Where the messages are.
fn messages(page: &mut Page, fleet: &str, snapshot: &Snapshot) {
    for (name, help, value) in [
        (
            "baton_messages_published_total",
            "Messages published.",
            snapshot.published,
        ),
        (
            "baton_messages_retried_total",
            "Failed messages that somebody gave to the workers again.",
            snapshot.retried,
        ),
        (
            "baton_messages_done_total",
            "Messages that ended well.",
            snapshot.done,
        ),
        (
            "baton_messages_failed_total",
            "Messages that ended as failed.",
            snapshot.failed,
        ),
        (
            "baton_foreign_entries_total",
            "Entries found in the queue that were no messages of this fleet.",
            snapshot.foreign,
        ),
    ] {
        page.counter(name, help, [(fleet, value)]);
    }
    for (name, help, value) in [
        (
            "baton_messages_pending",
            "Messages that wait.",
            snapshot.pending,
        ),
        (
            "baton_messages_claimed",
            "Messages in workers' hands.",
            snapshot.claimed,
        ),
        (
            "baton_failed_messages",
            "Failed messages in the errors store, waiting to be taken.",
            snapshot.errors,
        ),
        (
            "baton_books_balanced",
            "Whether published + retried = done + failed + pending + claimed.",
            u64::from(snapshot.balanced),
        ),
        (
            "baton_durability_warnings",
            "Settings of the server with which messages can be lost.",
            snapshot.warnings.len() as u64,
        ),
    ] {
        page.gauge(name, help, [(fleet, value)]);
    }
}

/// Who generates, how the lease changed hands, how many nodes there are.
fn generator(page: &mut Page, fleet: &str, snapshot: &Snapshot) {
    let generator = &snapshot.generator;
    page.gauge(
        "baton_generator_present",
        "Whether a living node holds the lease.",
        [(fleet, u8::from(generator.node.is_some()))],
    );
    page.gauge(
        "baton_generator_epoch",
        "Fencing number of the lease; grows by one with every takeover.",
        [(fleet, generator.epoch)],
    );
    let held_ms = generator.since_ms.map(|since| ago(snapshot, since));
    page.gauge(
        "baton_generator_held_seconds",
        "How long the generator has been the same; 0 if there is none.",
        [(fleet, held_ms.unwrap_or_default())],
    );
    if let Some(takeover) = snapshot.takeovers.first() {
        page.gauge(
            "baton_takeover_gap_seconds",
            "How long the lease may have been without a living holder before the last takeover.",
            [(fleet, takeover.gap_ms as f64 / 1000.0)],
        );
    }
    let roles = [NodeRole::Generator, NodeRole::Worker, NodeRole::Dead].map(|role| {
        let labels = labels(&[("fleet", &snapshot.fleet), ("role", role.as_str())]);
        let nodes = snapshot.nodes.iter().filter(|node| node.role == role);
        (labels, nodes.count())
    });
    page.gauge("baton_nodes", "Nodes by role.", roles);
}

/// Seconds since a moment on Redis's clock.
fn ago(snapshot: &Snapshot, ms: u64) -> f64 {
    snapshot.now_ms.saturating_sub(ms) as f64 / 1000.0
}

/// What is told of one node.
struct Row {
    labels: String,
    published: u64,
    processed: u64,
    failed: u64,
    latency: Histogram,
    beat: Option<Beat>,
}

/// What only the snapshot knows of a node.
struct Beat {
    info: String,
    claimed: u64,
    seen_s: f64,
}

impl Row {
    fn listed(snapshot: &Snapshot, node: &NodeStatus) -> Self {
        Self {
            labels: labels(&[("fleet", &snapshot.fleet), ("node", &node.node)]),
            published: node.published,
            processed: node.processed,
            failed: node.failed,
            latency: node.latency.clone(),
            beat: Some(Beat::of(snapshot, node)),
        }
    }

    fn own(fleet: &str, name: &str, counters: &Counters, snapshot: Option<&Snapshot>) -> Self {
        let listed = snapshot.and_then(|snapshot| {
            let node = snapshot.nodes.iter().find(|node| node.node == name)?;
            Some(Beat::of(snapshot, node))
        });
        Self {
            labels: labels(&[("fleet", fleet), ("node", name)]),
            published: counters.published,
            processed: counters.processed,
            failed: counters.failed,
            latency: counters.latency.clone(),
            beat: listed,
        }
    }
}

impl Beat {
    fn of(snapshot: &Snapshot, node: &NodeStatus) -> Self {
        Self {
            info: labels(&[
                ("fleet", &snapshot.fleet),
                ("node", &node.node),
                ("host", &node.host),
                ("pid", &node.pid.to_string()),
                ("version", &node.version),
            ]),
            claimed: node.claimed,
            seen_s: ago(snapshot, node.seen_ms),
        }
    }
}

/// The nodes that are told of: the living first.
fn rows(snapshot: &Snapshot) -> Vec<Row> {
    let mut nodes: Vec<&NodeStatus> = snapshot
        .nodes
        .iter()
        .filter(|node| node.node.len() <= LONGEST)
        .collect();
    // Names are unique, but bytes that are no text may be read as one and the same.
    nodes.dedup_by(|a, b| a.node == b.node);
    nodes.sort_by_key(|node| node.role == NodeRole::Dead);
    let nodes = nodes.into_iter().take(MOST_NODES);
    nodes.map(|node| Row::listed(snapshot, node)).collect()
}

type Count = fn(&Row) -> u64;

fn nodes(page: &mut Page, rows: &[Row]) {
    let counters: [(&str, &str, Count); 3] = [
        (
            "baton_node_published_total",
            "Messages that a node has published.",
            |row| row.published,
        ),
        (
            "baton_node_processed_total",
            "Messages that a node has processed.",
            |row| row.processed,
        ),
        (
            "baton_node_failed_total",
            "Messages that a node has processed and that failed.",
            |row| row.failed,
        ),
    ];
    for (name, help, value) in counters {
        page.counter(name, help, rows.iter().map(|row| (&row.labels, value(row))));
    }
    page.histogram(
        "baton_message_latency_seconds",
        "From publish to commit, of the messages that a node has processed.",
        rows.iter().map(|row| (row.labels.as_str(), &row.latency)),
    );
    let beats = || {
        rows.iter()
            .filter_map(|row| Some((row, row.beat.as_ref()?)))
    };
    if beats().next().is_none() {
        return;
    }
    page.gauge(
        "baton_node_claimed",
        "Messages in a node's hands.",
        beats().map(|(row, beat)| (&row.labels, beat.claimed)),
    );
    page.gauge(
        "baton_node_last_seen_seconds",
        "Time since a node's last beat.",
        beats().map(|(row, beat)| (&row.labels, beat.seen_s)),
    );
    page.gauge(
        "baton_node_info",
        "Always 1; the labels tell what a node says about itself.",
        beats().map(|(_, beat)| (&beat.info, 1)),
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use baton::inspect::{GeneratorStatus, Health};

    fn node(name: &str, role: NodeRole) -> NodeStatus {
        let mut made = NodeStatus::default();
        made.node = name.to_owned();
        made.role = role;
        made
    }

    /// A fleet that was read just now.
    fn seen(nodes: Vec<NodeStatus>) -> View {
        {
            let mut made = View::default();
            made.fleet = "f".to_owned();
            made.snapshot = Some(Arc::new({
                let mut made = Snapshot::default();
                made.fleet = "f".to_owned();
                made.published = 7;
                made.now_ms = 10_000;
                made.nodes = nodes;
                made
            }));
            made.at = Some(Instant::now());
            made.trouble = None;
            made.trend = Arc::default();
            made.health = Health::default();
            made
        }
    }

    /// The lines of these families.
    fn lines(text: &str, names: &[&str]) -> Vec<String> {
        text.lines()
            .filter(|line| {
                names
                    .iter()
                    .any(|name| line.starts_with(&format!("{name}{{")))
            })
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn an_old_reading_is_left_out_and_own_counters_are_not() {
        let mut seen = seen(vec![
            node("other", NodeRole::Worker),
            node("own", NodeRole::Worker),
        ]);
        let mut counters = Counters::default();
        (counters.processed, counters.failed) = (5, 1);
        let names = [
            "baton_up",
            "baton_snapshot_age_seconds",
            "baton_messages_published_total",
            "baton_node_processed_total",
            "baton_node_claimed",
        ];
        let start = seen.at.unwrap();
        let told = |seen: &View, second| {
            let now = start + Duration::from_secs(second);
            lines(&exposition_at(now, seen, Some(("own", &counters))), &names)
        };
        let own = "baton_node_processed_total{fleet=\"f\",node=\"own\"} 5";
        assert_eq!(
            told(&seen, 0),
            [
                "baton_up{fleet=\"f\"} 1",
                "baton_snapshot_age_seconds{fleet=\"f\"} 0",
                "baton_messages_published_total{fleet=\"f\"} 7",
                own,
                "baton_node_claimed{fleet=\"f\",node=\"own\"} 0",
            ]
        );
        // Redis is away: the last values stay for a minute.
        seen.trouble = Some("gone".to_owned());
        assert_eq!(
            told(&seen, 60)[..3],
            [
                "baton_up{fleet=\"f\"} 0",
                "baton_snapshot_age_seconds{fleet=\"f\"} 60",
                "baton_messages_published_total{fleet=\"f\"} 7",
            ]
        );
        let late = [
            "baton_up{fleet=\"f\"} 0",
            "baton_snapshot_age_seconds{fleet=\"f\"} 61",
            own,
        ];
        assert_eq!(told(&seen, 61), late);
        // So it is if nobody even tries to read.
        seen.trouble = None;
        assert_eq!(told(&seen, 61), late);
        // And before the first reading.
        (seen.snapshot, seen.at) = (None, None);
        assert_eq!(told(&seen, 0), ["baton_up{fleet=\"f\"} 0", own]);
        let text = exposition(&seen, None);
        assert_eq!(lines(&text, &names), ["baton_up{fleet=\"f\"} 0"]);
    }

    #[test]
    fn of_too_many_nodes_the_dead_are_left_out_first() {
        let mut nodes: Vec<_> = (0..600)
            .map(|n| node(&format!("a{n:03}"), NodeRole::Dead))
            .collect();
        nodes.extend((0..700).map(|n| node(&format!("b{n:03}"), NodeRole::Worker)));
        nodes.push(node("c", NodeRole::Generator));
        // Read from different bytes.
        nodes.extend([
            node("\u{fffd}", NodeRole::Worker),
            node("\u{fffd}", NodeRole::Worker),
        ]);
        nodes.push(node(&"z".repeat(101), NodeRole::Worker));
        let text = exposition(&seen(nodes), None);
        let told = lines(&text, &["baton_node_claimed"]);
        let living = told.iter().filter(|line| !line.contains("node=\"a"));
        assert_eq!((told.len(), living.count()), (1000, 702));
        assert_eq!(
            lines(&text, &["baton_nodes_omitted", "baton_nodes"]),
            [
                "baton_nodes{fleet=\"f\",role=\"generator\"} 1",
                "baton_nodes{fleet=\"f\",role=\"worker\"} 703",
                "baton_nodes{fleet=\"f\",role=\"dead\"} 600",
                "baton_nodes_omitted{fleet=\"f\"} 304",
            ]
        );
    }

    #[test]
    fn times_are_seconds_on_the_clock_of_redis() {
        let mut seen = seen(vec![{
            let mut made = node("g", NodeRole::Generator);
            made.seen_ms = 9_500;
            made
        }]);
        let names = [
            "baton_generator_held_seconds",
            "baton_node_last_seen_seconds",
        ];
        assert_eq!(
            lines(&exposition(&seen, None), &names),
            [
                "baton_generator_held_seconds{fleet=\"f\"} 0",
                "baton_node_last_seen_seconds{fleet=\"f\",node=\"g\"} 0.5",
            ]
        );
        let snapshot = seen.snapshot.as_ref().unwrap();
        let mut snapshot = Snapshot::clone(snapshot);
        snapshot.generator = {
            let mut made = GeneratorStatus::default();
            made.node = Some("g".to_owned());
            made.since_ms = Some(4_000);
            made
        };
        seen.snapshot = Some(Arc::new(snapshot));
        assert_eq!(
            lines(&exposition(&seen, None), &names)[0],
            "baton_generator_held_seconds{fleet=\"f\"} 6"
        );
    }
}
