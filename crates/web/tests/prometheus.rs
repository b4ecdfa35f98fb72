//! The metrics as other programs read them: Prometheus's own parser for Python and, if it is
//! installed, promtool. `scripts/setup-prometheus` fetches them; `make setup` does not. Without them
//! the tests say that they are skipped; with `BATON_REQUIRE_TOOLS=1` they fail.

#![allow(clippy::unwrap_used)]

#[path = "../../baton/tests/copies/mod.rs"]
mod copies;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use baton::inspect::{
    Counters, Histogram, NodeRole, NodeStatus, PartitionSnapshot, Replica, Snapshot, Takeover,
    TakeoverCause, View,
};
use baton_protocol::text::Escaped;
use baton_server::PrivateServer;
use baton_web::prometheus::exposition;
use serde_json::Value;

use copies::{Fleet, Usual, at_work, until};

/// Prints as JSON what Prometheus's parser reads from its input.
const PARSE: &str = r#"
import json, sys
from prometheus_client.parser import text_string_to_metric_families
text = sys.stdin.buffer.read().decode()
print(json.dumps([
    {"name": f.name, "type": f.type, "help": f.documentation,
     "samples": [[s.name, s.labels, s.value] for s in f.samples]}
    for f in text_string_to_metric_families(text)]))
"#;

/// Runs a program with this input. Returns its output, or what it printed when it failed.
fn run(command: &mut Command, input: &str) -> Result<String, String> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // On a thread: a full pipe must not block both sides.
    let writing = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // A program that does not read its input reports its own error.
    let _ = writing.join().unwrap();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stdout) + &text(&output.stderr)),
    }
}

/// A `python3` that finds the parser in `target/tools`.
fn python(script: &str) -> Command {
    let exe = std::env::current_exe().unwrap();
    let fetched: Option<PathBuf> = exe
        .ancestors()
        .map(|folder| folder.join("tools/python"))
        .find(|folder| folder.is_dir());
    let mut command = Command::new("python3");
    command.args(["-c", script]);
    if let Some(folder) = fetched {
        command.env("PYTHONPATH", folder);
    }
    command
}

/// Whether a tool can be used. Says so if it cannot; fails if tools are required.
fn usable(tool: &str, try_out: &mut Command) -> bool {
    let Err(why) = run(try_out, "") else {
        return true;
    };
    let why = why.trim().lines().last().unwrap_or_default().to_owned();
    let required = std::env::var_os("BATON_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(!required, "{tool} must be there: {why}");
    // Not `eprintln!`, whose output the test runner hides when a test passes.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no {tool}, so it does not read the metrics (scripts/setup-prometheus): {why}"
    );
    false
}

/// A metric family as the parser reads it.
struct Family {
    kind: String,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// The families of a text, by name; none if there is no parser.
fn parsed(text: &str) -> Option<BTreeMap<String, Family>> {
    let promtool = |command: &str| {
        let mut promtool = Command::new("promtool");
        promtool.args(["check", command]);
        promtool
    };
    if run(Command::new("promtool").arg("--version"), "").is_ok() {
        // It prints its complaints.
        let complaints = run(&mut promtool("metrics"), text);
        assert_eq!(complaints.as_deref(), Ok(""));
    }
    let tool = "Python package prometheus-client";
    if !usable(tool, &mut python("import prometheus_client.parser")) {
        return None;
    }
    let output = run(&mut python(PARSE), text).unwrap();
    let families: Vec<Value> = serde_json::from_str(&output).unwrap();
    let mut by_name = BTreeMap::new();
    let mut series = BTreeSet::new();
    for family in families {
        let (name, kind) = (family["name"].as_str().unwrap(), &family["type"]);
        assert!(!family["help"].as_str().unwrap().is_empty(), "{name}");
        let samples: Vec<_> = family["samples"].as_array().unwrap().clone();
        let samples = samples
            .into_iter()
            .map(|sample| serde_json::from_value(sample).unwrap());
        let family = Family {
            kind: kind.as_str().unwrap().to_owned(),
            samples: samples.collect(),
        };
        for (name, labels, _) in &family.samples {
            assert!(
                series.insert((name.clone(), labels.clone())),
                "{name} twice"
            );
        }
        assert!(by_name.insert(name.to_owned(), family).is_none(), "{name}");
    }
    Some(by_name)
}

impl Family {
    /// The value of the one sample with this name and this label.
    fn value(&self, name: &str, label: (&str, &str)) -> f64 {
        let fits = |labels: &BTreeMap<String, String>| {
            labels.get(label.0).map(String::as_str) == Some(label.1)
        };
        let found: Vec<f64> = self
            .samples
            .iter()
            .filter(|(own, labels, _)| own == name && fits(labels))
            .map(|(_, _, value)| *value)
            .collect();
        assert_eq!(found.len(), 1, "{name} {label:?}: {found:?}");
        found[0]
    }
}

#[tokio::test]
async fn the_metrics_of_a_fleet_at_work_are_what_its_snapshot_says() {
    let server = PrivateServer::builder().start().unwrap();
    let fleet = Fleet::new(&server.url());
    let watch = fleet.watch();
    let [killed, own, _other] = [(); 3].map(|()| fleet.start(Usual));
    at_work(&watch, 3).await;
    let dead = killed.name.clone();
    killed.kill().await;
    let view = until(&watch, "a dead node, and work of another", |view| {
        let snapshot = view.snapshot.as_ref().unwrap();
        let fits = |node: &&NodeStatus| node.node == dead && node.role == NodeRole::Dead;
        snapshot.nodes.iter().any(|node| fits(&node))
            && snapshot.generator.node.is_some()
            && snapshot.nodes.iter().any(|node| node.processed > 0)
            && view.health.is_well()
    })
    .await;
    let Some(families) = parsed(&exposition(&view, None)) else {
        return;
    };
    let snapshot = view.snapshot.as_ref().unwrap();
    let fleet = ("fleet", "watched");
    for (name, kind, value) in [
        ("baton_up", "gauge", 1),
        ("baton_healthy", "gauge", 1),
        ("baton_messages_published", "counter", snapshot.published),
        ("baton_messages_retried", "counter", 0),
        ("baton_messages_done", "counter", snapshot.done),
        ("baton_messages_failed", "counter", snapshot.failed),
        ("baton_messages_dropped", "counter", 0),
        ("baton_messages_void", "counter", 0),
        ("baton_foreign_entries", "counter", 0),
        ("baton_messages_pending", "gauge", snapshot.pending),
        ("baton_messages_claimed", "gauge", snapshot.claimed),
        ("baton_messages_delayed", "gauge", 0),
        ("baton_failed_messages", "gauge", snapshot.errors),
        ("baton_books_balanced", "gauge", 1),
        ("baton_generator_present", "gauge", 1),
        ("baton_generator_epoch", "gauge", snapshot.generator.epoch),
        ("baton_nodes_omitted", "gauge", 0),
        ("baton_replicas", "gauge", 0),
    ] {
        let family = &families[name];
        assert_eq!(family.kind, kind, "{name}");
        let sample = match kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        };
        assert_eq!(family.value(&sample, fleet), value as f64, "{name}");
    }
    for (role, count) in [("generator", 1.0), ("worker", 1.0), ("dead", 1.0)] {
        let nodes = families["baton_nodes"].value("baton_nodes", ("role", role));
        assert_eq!(nodes, count, "{role}");
    }
    for node in &snapshot.nodes {
        let label = ("node", node.node.as_str());
        let processed = &families["baton_node_processed"];
        let processed = processed.value("baton_node_processed_total", label);
        assert_eq!(processed, node.processed as f64);
        let trouble = &families["baton_node_handler_trouble"];
        assert_eq!(trouble.kind, "gauge");
        assert_eq!(trouble.value("baton_node_handler_trouble", label), 0.0);
        let latency = &families["baton_message_latency_seconds"];
        assert_eq!(latency.kind, "histogram");
        let count = latency.value("baton_message_latency_seconds_count", label);
        assert_eq!(count, node.latency.count() as f64);
        let info = &families["baton_node_info"];
        assert_eq!(info.value("baton_node_info", label), 1.0);
    }

    // The same fleet as one of its nodes tells of it, while it goes on.
    let before = own.meter.processed();
    let families = parsed(&exposition(&view, Some((&own.name, &own.meter.counters())))).unwrap();
    let processed = &families["baton_node_processed"].samples;
    assert_eq!(processed.len(), 1);
    let value = processed[0].2;
    assert!(value >= before as f64 && value <= own.meter.processed() as f64);
    let handler = &families["baton_handler_duration_seconds"];
    assert_eq!(handler.kind, "histogram");
    let label = ("node", own.name.as_str());
    handler.value("baton_handler_duration_seconds_count", label);
    assert_eq!(families["baton_node_lost"].samples[0].2, 0.0);
    own.stop().await;
}

/// A fleet whose nodes send hostile texts and numbers.
fn hostile(names: &[&str]) -> View {
    let latency = r#"{"counts":[18446744073709551615,1,2,3],"sum_s":-1e300}"#;
    let latency: Histogram = serde_json::from_str(latency).unwrap();
    let mut nodes: Vec<NodeStatus> = names
        .iter()
        .map(|name| {
            let mut node = NodeStatus::default();
            node.node = (*name).to_owned();
            node.role = NodeRole::Worker;
            node.host = format!("host of {name}");
            node.version = "\"} 1\nbaton_up 0".to_owned();
            node.processed = u64::MAX;
            node.latency = latency.clone();
            node
        })
        .collect();
    nodes.sort_by(|a, b| a.node.cmp(&b.node));
    let mut takeover = Takeover::default();
    takeover.epoch = 1;
    takeover.node = "n".to_owned();
    takeover.at_ms = 1;
    takeover.gap_ms = 1500;
    takeover.how = TakeoverCause::Gone;
    let mut snapshot = Snapshot::default();
    snapshot.fleet = "f".to_owned();
    snapshot.nodes = nodes;
    snapshot.takeovers = vec![takeover];
    snapshot.next_due_ms = Some(1);
    let mut replica = Replica::default();
    replica.address = "\"} 1\nbaton_up 0".to_owned();
    replica.lag_s = Some(u64::MAX);
    snapshot.server.replication = vec![replica];
    snapshot.partitions = vec![PartitionSnapshot::default()];
    let mut view = View::default();
    view.fleet = "f".to_owned();
    view.snapshot = Some(Arc::new(snapshot));
    view.at = Some(Instant::now());
    view
}

#[test]
fn hostile_names_read_back_escaped_and_add_no_line() {
    let names = [
        "",
        " ",
        "\\",
        "\\n",
        "\n",
        "\"",
        "\\\"",
        "a\"} 1\nbaton_up{fleet=\"f\"} 0\n",
        "# HELP baton_up nonsense\n# TYPE baton_up counter",
        "{},=,le=\"1\"",
        "\r\n\u{2028}\u{85}",
        "\u{1b}[2J\u{202e}",
        "grün 🙂",
    ];
    let Some(families) = parsed(&exposition(&hostile(&names), None)) else {
        return;
    };
    let label = |family: &str, label: &str| -> BTreeSet<String> {
        let samples = &families[family].samples;
        let labels = samples.iter().map(|(_, labels, _)| labels[label].clone());
        labels.collect()
    };
    let escaped = |name: &str| Escaped(name.as_bytes()).to_string();
    let expected: BTreeSet<String> = names.iter().map(|name| escaped(name)).collect();
    assert_eq!(label("baton_node_processed", "node"), expected);
    assert_eq!(label("baton_message_latency_seconds", "node"), expected);
    assert_eq!(
        label("baton_node_info", "version"),
        BTreeSet::from([escaped("\"} 1\nbaton_up 0")])
    );
    let hosts = names.iter().map(|name| escaped(&format!("host of {name}")));
    assert_eq!(label("baton_node_info", "host"), hosts.collect());
    assert_eq!(families["baton_up"].samples.len(), 1);
    let replica = BTreeSet::from([escaped("\"} 1\nbaton_up 0")]);
    assert_eq!(label("baton_replica_lag_seconds", "replica"), replica);
}

/// The words of a text that could be names of metrics.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    text.split(|c| !letter(c))
        .filter(|word| word.starts_with("baton_"))
        .collect()
}

/// The names of all samples that an exposition can have.
fn all_metrics() -> BTreeSet<String> {
    let view = hostile(&["n"]);
    let texts = [
        exposition(&view, None),
        exposition(&view, Some(("n", &Counters::default()))),
    ];
    texts
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('{').next().unwrap().to_owned())
        .collect()
}

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn the_dashboard_and_the_alerts_ask_for_metrics_that_exist() {
    let all = all_metrics();
    for path in [
        "contrib/grafana/baton.json",
        "contrib/prometheus/alerts.yml",
        "contrib/prometheus/scrape.yml",
    ] {
        let text = read(path);
        let unknown: Vec<_> = metrics_in(&text)
            .into_iter()
            .filter(|name| !all.contains(*name))
            .collect();
        assert_eq!(unknown, [""; 0], "{path}");
    }
    let dashboard: Value = serde_json::from_str(&read("contrib/grafana/baton.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(!panels.is_empty());
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            assert!(!metrics_in(target["expr"].as_str().unwrap()).is_empty());
        }
    }
}

#[test]
fn the_document_names_metrics_that_exist() {
    let text = read("docs/metrics.md");
    let named = metrics_in(&text);
    assert!(named.len() > 3, "{named:?}");
    let all = all_metrics();
    let exists = |name: &str| all.contains(name) || all.contains(&format!("{name}_bucket"));
    let unknown: Vec<_> = named.into_iter().filter(|name| !exists(name)).collect();
    assert_eq!(unknown, [""; 0]);
}

/// The reference of all metrics: what the expositions of a fleet and of a node say about them.
fn reference() -> String {
    let view = hostile(&["n"]);
    let texts = [
        exposition(&view, None),
        exposition(&view, Some(("n", &Counters::default()))),
    ];
    let mut rows: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for line in texts.iter().flat_map(|text| text.lines()) {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => {
                rows.entry(name.to_owned()).or_default()[2] = help.to_owned()
            }
            ["#", "TYPE", name, kind] => {
                rows.entry(name.to_owned()).or_default()[0] = kind.to_owned()
            }
            _ => {
                let (name, rest) = line.split_once('{').unwrap();
                let bare = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end));
                let row =
                    rows.get_mut(bare.filter(|bare| rows.contains_key(*bare)).unwrap_or(name));
                // A value may have anything in it, but no equals sign right behind a name of ours.
                let names = [
                    "node",
                    "part",
                    "partition",
                    "role",
                    "replica",
                    "host",
                    "pid",
                    "version",
                ];
                let names = names
                    .iter()
                    .filter(|name| rest.contains(&format!(",{name}=\"")));
                row.unwrap()[1] = names
                    .map(|name| format!("`{name}`"))
                    .collect::<Vec<_>>()
                    .join(", ");
            }
        }
    }
    let mut text = "# Metrics\n\n<!-- Generated: make reference -->\n\nEvery metric also has the label `fleet`; \
        a histogram has `le`. [Metrics and health](../metrics.md) says how to\nuse them.\n\n\
        | metric | type | labels | meaning |\n|---|---|---|---|\n".to_owned();
    for (name, [kind, labels, help]) in rows {
        text.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    text
}

#[test]
fn the_documented_reference_of_metrics_is_what_is_served() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    if std::env::var_os("BATON_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == reference(),
        "docs/reference/metrics.md is stale: make reference"
    );
}
