//! A view of a fleet as Prometheus reads it.

mod exposition;
mod nodes;
mod partitions;
mod replicas;

use std::time::{Duration, Instant};

use baton::Part;
use baton::inspect::{Counters, NodeRole, Snapshot, View};

use exposition::{Exposition, labels};
use nodes::NodeSamples;

/// The exposition leaves out a snapshot that is older than this. Values that stand still look like
/// a fleet at rest, and no alert fires; an alert can notice values that are missing.
const STALE_AFTER: Duration = Duration::from_secs(60);

/// All metrics of a fleet and of each of its nodes.
///
/// With `own`, the name and the counters of the node of this process, only that node is listed. Its
/// values come from the counters, which are newer than its last beat and do not need Redis.
pub fn exposition(view: &View, own: Option<(&str, &Counters)>) -> String {
    exposition_at(Instant::now(), view, own)
}

fn exposition_at(now: Instant, view: &View, own: Option<(&str, &Counters)>) -> String {
    let mut out = Exposition::default();
    let fleet = labels(&[("fleet", &view.fleet)]);
    let age = view.at.map(|at| now.saturating_duration_since(at));
    let snapshot = match (&view.snapshot, age) {
        (Some(snapshot), Some(age)) if age <= STALE_AFTER => Some(snapshot.as_ref()),
        _ => None,
    };
    let up = snapshot.is_some() && view.trouble.is_none();
    out.gauge(
        "baton_up",
        "1 if the latest attempt to read the fleet from Redis succeeded.",
        [(&fleet, u8::from(up))],
    );
    if let Some(age) = age {
        out.gauge(
            "baton_snapshot_age_seconds",
            "Age of the latest successful reading.",
            [(&fleet, age.as_secs_f64())],
        );
    }
    out.gauge(
        "baton_healthy",
        "1 if /healthz says healthy.",
        [(&fleet, u8::from(view.health.is_well()))],
    );
    if let Some(snapshot) = snapshot {
        messages(&mut out, &fleet, snapshot);
        partitions::write(&mut out, snapshot);
        replicas::write(&mut out, snapshot);
        generator(&mut out, &fleet, snapshot);
    }
    match own {
        Some((name, counters)) => {
            let node = NodeSamples::own(&view.fleet, name, counters, snapshot);
            let labels = node.labels.clone();
            nodes::write(&mut out, &[node]);
            out.counter(
                "baton_node_lost_total",
                "Messages whose claim expired before their commit; only from the node itself (--http).",
                [(&labels, counters.lost)],
            );
            out.histogram(
                "baton_handler_duration_seconds",
                "Time that the handler took per message, a mean over each batch; only from the node itself.",
                [(labels.as_str(), &counters.handling)],
            );
        }
        None => {
            if let Some(snapshot) = snapshot {
                let listed = nodes::listed(snapshot);
                out.gauge(
                    "baton_nodes_omitted",
                    "Nodes left out here: those beyond 1,000, the dead first, and those with invalid names.",
                    [(&fleet, snapshot.nodes.len() - listed.len())],
                );
                nodes::write(&mut out, &listed);
            }
        }
    }
    out.text
}

/// Writes where the messages are.
fn messages(out: &mut Exposition, fleet: &str, snapshot: &Snapshot) {
    // A sum without some partitions is lower than the one before. It would look like counters that began
    // at 0 again.
    let is_whole = snapshot.partitions.iter().all(|one| one.trouble.is_none());
    for (name, help, value) in [
        (
            "baton_messages_published_total",
            "Messages published.",
            snapshot.published,
        ),
        (
            "baton_messages_retried_total",
            "Failed messages that were given to the workers again.",
            snapshot.retried,
        ),
        (
            "baton_messages_done_total",
            "Messages that ended as done.",
            snapshot.done,
        ),
        (
            "baton_messages_failed_total",
            "Messages that ended as failed.",
            snapshot.failed,
        ),
        (
            "baton_messages_dropped_total",
            "Failed messages that were dropped: because of their age, or by hand.",
            snapshot.dropped,
        ),
        (
            "baton_messages_void_total",
            "Messages that Redis acknowledged, then forgot, and that no node could send again.",
            snapshot.void,
        ),
        (
            "baton_foreign_entries_total",
            "Entries of the queue that are not messages of this fleet.",
            snapshot.foreign,
        ),
    ] {
        if is_whole {
            out.counter(name, help, [(fleet, value)]);
        }
    }
    for (name, help, value) in [
        (
            "baton_messages_pending",
            "Messages that wait.",
            snapshot.pending,
        ),
        (
            "baton_messages_claimed",
            "Messages claimed by workers.",
            snapshot.claimed,
        ),
        (
            "baton_messages_delayed",
            "Messages that wait for their next attempt.",
            snapshot.delayed,
        ),
        (
            "baton_failed_messages",
            "Failed messages in the errors store, waiting to be taken.",
            snapshot.errors,
        ),
        (
            "baton_books_balanced",
            "1 if published + retried = done + failed + pending + claimed + delayed + void.",
            u64::from(snapshot.balanced),
        ),
        (
            "baton_durability_warnings",
            "What can lose messages: settings of the server, and the durability of the nodes on it.",
            snapshot.warnings.len() as u64,
        ),
        (
            "baton_replicas",
            "Replicas that are connected to the server.",
            snapshot.server.replicas,
        ),
    ] {
        out.gauge(name, help, [(fleet, value)]);
    }
    let paused = Part::ALL.map(|part| {
        let labels = labels(&[("fleet", &snapshot.fleet), ("part", part.as_str())]);
        (labels, u8::from(snapshot.paused.since_ms(part).is_some()))
    });
    out.gauge(
        "baton_paused",
        "1 if an operator has paused this part of the fleet.",
        paused,
    );
    if let Some(due_ms) = snapshot.next_due_ms {
        let until_due_s = (due_ms as f64 - snapshot.now_ms as f64) / 1000.0;
        out.gauge(
            "baton_next_due_seconds",
            "Time until the first delayed message is due; negative if it is late, absent if there is none.",
            [(fleet, until_due_s)],
        );
    }
}

/// Writes the generator, the last takeover, and the number of nodes.
fn generator(out: &mut Exposition, fleet: &str, snapshot: &Snapshot) {
    let generator = &snapshot.generator;
    out.gauge(
        "baton_generator_present",
        "1 if a living node holds the lease.",
        [(fleet, u8::from(generator.node.is_some()))],
    );
    out.gauge(
        "baton_generator_epoch",
        "The lease's fencing number: each takeover makes it larger.",
        [(fleet, generator.epoch)],
    );
    let generating_s = generator
        .since_ms
        .map(|since| seconds_since(snapshot, since));
    out.gauge(
        "baton_generator_held_seconds",
        "How long the generator has been the same; 0 if there is none.",
        [(fleet, generating_s.unwrap_or_default())],
    );
    if let Some(takeover) = snapshot.takeovers.first() {
        out.gauge(
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
    out.gauge("baton_nodes", "Nodes by role.", roles);
}

/// Seconds since a moment on Redis's clock.
fn seconds_since(snapshot: &Snapshot, ms: u64) -> f64 {
    snapshot.now_ms.saturating_sub(ms) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use baton::inspect::{NodeStatus, PartitionSnapshot};

    fn node(name: &str, role: NodeRole) -> NodeStatus {
        let mut node = NodeStatus::default();
        node.node = name.to_owned();
        node.role = role;
        node
    }

    fn snapshot(nodes: Vec<NodeStatus>) -> Snapshot {
        let mut snapshot = Snapshot::default();
        snapshot.fleet = "f".to_owned();
        snapshot.published = 7;
        snapshot.now_ms = 10_000;
        snapshot.nodes = nodes;
        snapshot
    }

    /// A fleet that a watch has read just now.
    fn view(snapshot: Snapshot) -> View {
        let mut view = View::default();
        view.fleet = snapshot.fleet.clone();
        view.snapshot = Some(Arc::new(snapshot));
        view.at = Some(Instant::now());
        view
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
    fn sums_that_lack_a_partition_are_left_out() {
        let mut snapshot = snapshot(Vec::new());
        snapshot.partitions = vec![PartitionSnapshot::default(); 2];
        snapshot.partitions[1].partition = 1;
        let sums = [
            "baton_messages_published_total",
            "baton_messages_done_total",
        ];
        let lines_of =
            |snapshot: &Snapshot| lines(&exposition(&view(snapshot.clone()), None), &sums);
        assert_eq!(lines_of(&snapshot).len(), 2);
        snapshot.partitions[1].trouble = Some("no answer".to_owned());
        assert_eq!(lines_of(&snapshot), [""; 0]);
        let text = exposition(&view(snapshot), None);
        assert_eq!(
            lines(&text, &["baton_partition_up", "baton_partition_done_total"]),
            [
                "baton_partition_up{fleet=\"f\",partition=\"0\"} 1",
                "baton_partition_up{fleet=\"f\",partition=\"1\"} 0",
                "baton_partition_done_total{fleet=\"f\",partition=\"0\"} 0",
            ]
        );
    }

    #[test]
    fn an_old_snapshot_is_left_out_and_own_counters_are_not() {
        let mut view = view(snapshot(vec![
            node("other", NodeRole::Worker),
            node("own", NodeRole::Worker),
        ]));
        let mut counters = Counters::default();
        (counters.processed, counters.failed, counters.delayed) = (5, 1, 3);
        counters.handler_trouble = Some("no such program".to_owned());
        counters.publish_trouble = Some("OOM".to_owned());
        let names = [
            "baton_up",
            "baton_snapshot_age_seconds",
            "baton_messages_published_total",
            "baton_node_processed_total",
            "baton_node_delayed_total",
            "baton_node_handler_trouble",
            "baton_node_publish_trouble",
            "baton_node_claimed",
        ];
        let start = view.at.unwrap();
        let lines_at = |view: &View, second| {
            let now = start + Duration::from_secs(second);
            lines(&exposition_at(now, view, Some(("own", &counters))), &names)
        };
        let own = [
            "baton_node_processed_total{fleet=\"f\",node=\"own\"} 5",
            "baton_node_delayed_total{fleet=\"f\",node=\"own\"} 3",
            "baton_node_handler_trouble{fleet=\"f\",node=\"own\"} 1",
            "baton_node_publish_trouble{fleet=\"f\",node=\"own\"} 1",
        ];
        assert_eq!(
            lines_at(&view, 0),
            [
                "baton_up{fleet=\"f\"} 1",
                "baton_snapshot_age_seconds{fleet=\"f\"} 0",
                "baton_messages_published_total{fleet=\"f\"} 7",
                own[0],
                own[1],
                own[2],
                own[3],
                "baton_node_claimed{fleet=\"f\",node=\"own\"} 0",
            ]
        );
        // Redis is away: the last values stay for a minute.
        view.trouble = Some("gone".to_owned());
        assert_eq!(
            lines_at(&view, 60)[..3],
            [
                "baton_up{fleet=\"f\"} 0",
                "baton_snapshot_age_seconds{fleet=\"f\"} 60",
                "baton_messages_published_total{fleet=\"f\"} 7",
            ]
        );
        let late = [
            "baton_up{fleet=\"f\"} 0",
            "baton_snapshot_age_seconds{fleet=\"f\"} 61",
            own[0],
            own[1],
            own[2],
            own[3],
        ];
        assert_eq!(lines_at(&view, 61), late);
        // The same if the watch does not even try to read.
        view.trouble = None;
        assert_eq!(lines_at(&view, 61), late);
        // And before the first snapshot.
        (view.snapshot, view.at) = (None, None);
        let first = ["baton_up{fleet=\"f\"} 0", own[0], own[1], own[2], own[3]];
        assert_eq!(lines_at(&view, 0), first);
        let text = exposition(&view, None);
        assert_eq!(lines(&text, &names), ["baton_up{fleet=\"f\"} 0"]);
    }

    #[test]
    fn each_part_of_a_fleet_is_paused_or_not() {
        let mut paused = snapshot(Vec::new());
        paused.paused.workers_since_ms = Some(0);
        assert_eq!(
            lines(&exposition(&view(paused), None), &["baton_paused"]),
            [
                "baton_paused{fleet=\"f\",part=\"generator\"} 0",
                "baton_paused{fleet=\"f\",part=\"workers\"} 1",
            ]
        );
    }

    #[test]
    fn the_time_until_the_first_delayed_message_is_due_may_be_over() {
        let names = ["baton_messages_delayed", "baton_next_due_seconds"];
        let at = |delayed, next_due_ms| {
            let mut snapshot = snapshot(Vec::new());
            (snapshot.delayed, snapshot.next_due_ms) = (delayed, next_due_ms);
            lines(&exposition(&view(snapshot), None), &names)
        };
        assert_eq!(at(0, None), ["baton_messages_delayed{fleet=\"f\"} 0"]);
        for (due_ms, left) in [(12_500, "2.5"), (10_000, "0"), (9_250, "-0.75")] {
            assert_eq!(
                at(3, Some(due_ms)),
                [
                    "baton_messages_delayed{fleet=\"f\"} 3".to_owned(),
                    format!("baton_next_due_seconds{{fleet=\"f\"}} {left}"),
                ]
            );
        }
    }

    #[test]
    fn of_too_many_nodes_the_dead_are_left_out_first() {
        let mut nodes: Vec<_> = (0..600)
            .map(|n| node(&format!("a{n:03}"), NodeRole::Dead))
            .collect();
        nodes.extend((0..700).map(|n| node(&format!("b{n:03}"), NodeRole::Worker)));
        nodes.push(node("c", NodeRole::Generator));
        // Two names whose different bytes are not UTF-8.
        nodes.extend([
            node("\u{fffd}", NodeRole::Worker),
            node("\u{fffd}", NodeRole::Worker),
        ]);
        nodes.push(node(&"z".repeat(101), NodeRole::Worker));
        let text = exposition(&view(snapshot(nodes)), None);
        let listed = lines(&text, &["baton_node_claimed"]);
        let living = listed.iter().filter(|line| !line.contains("node=\"a"));
        assert_eq!((listed.len(), living.count()), (1000, 702));
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
    fn a_node_says_whether_it_can_handle_and_publish_as_long_as_it_lives() {
        let mut nodes = ["a", "b", "c"].map(|name| node(name, NodeRole::Worker));
        nodes[1].delayed = 4;
        nodes[1].handler_trouble = Some("no such program".to_owned());
        nodes[2].handler_trouble = Some("no such program".to_owned());
        for node in &mut nodes[1..] {
            node.publish_trouble = Some("OOM".to_owned());
        }
        nodes[2].role = NodeRole::Dead;
        let text = exposition(&view(snapshot(nodes.to_vec())), None);
        let values = |family| {
            let lines = lines(&text, &[family]);
            let values = lines.iter().map(|line| line.rsplit(' ').next().unwrap());
            values.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(values("baton_node_handler_trouble"), ["0", "1", "0"]);
        assert_eq!(values("baton_node_publish_trouble"), ["0", "1", "0"]);
        assert_eq!(values("baton_node_delayed_total"), ["0", "4", "0"]);
        assert!(
            !text.contains("no such program") && !text.contains("OOM"),
            "{text}"
        );
    }

    #[test]
    fn a_living_node_whose_writes_are_not_confirmed_says_so() {
        let mut nodes = ["a", "b", "c"].map(|name| node(name, NodeRole::Worker));
        for node in &mut nodes[1..] {
            node.durability_trouble = Some("1 of 2 replicas".to_owned());
        }
        nodes[2].role = NodeRole::Dead;
        let view = view(snapshot(nodes.to_vec()));
        let text = exposition(&view, None);
        let name = "baton_node_durability_trouble";
        assert_eq!(
            lines(&text, &[name]),
            [("a", 0), ("b", 1), ("c", 0)]
                .map(|(node, value)| format!("{name}{{fleet=\"f\",node=\"{node}\"}} {value}"))
        );
        assert!(!text.contains("1 of 2"), "{text}");
        let own = exposition(&view, Some(("b", &Counters::default())));
        assert_eq!(lines(&own, &[name]), lines(&text, &[name])[1..2]);
    }

    #[test]
    fn times_are_seconds_on_redis_s_clock() {
        let mut generator = node("g", NodeRole::Generator);
        generator.seen_ms = 9_500;
        let mut snapshot = snapshot(vec![generator]);
        let names = [
            "baton_generator_held_seconds",
            "baton_node_last_seen_seconds",
        ];
        assert_eq!(
            lines(&exposition(&view(snapshot.clone()), None), &names),
            [
                "baton_generator_held_seconds{fleet=\"f\"} 0",
                "baton_node_last_seen_seconds{fleet=\"f\",node=\"g\"} 0.5",
            ]
        );
        snapshot.generator.node = Some("g".to_owned());
        snapshot.generator.since_ms = Some(4_000);
        assert_eq!(
            lines(&exposition(&view(snapshot), None), &names)[0],
            "baton_generator_held_seconds{fleet=\"f\"} 6"
        );
    }
}
