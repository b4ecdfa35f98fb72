//! The table that `baton status` prints for people.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use baton::Part;
use baton::inspect::{NodeRole, NodeStatus, PartitionSnapshot, Snapshot, TakeoverCause};
use baton_protocol::text::{self, Escaped, Shortened};

use super::{durability, partitions};

/// Max characters of a text in the table of nodes.
const CELL_CHARS: usize = 64;

/// Max versions that the table lists.
const MAX_VERSIONS: usize = 4;

/// The columns of the table of nodes.
const COLUMNS: [&str; 9] = [
    "node",
    "role",
    "host",
    "pid",
    "version",
    "published",
    "processed",
    "in hand",
    "last seen",
];

/// The beginning and the end of a red text.
const RED: (&str, &str) = ("\x1b[1;31m", "\x1b[0m");

/// The whole table: the fleet, then its partitions if it has several, then its nodes, then warnings. With
/// colours, what was lost is red.
pub(crate) fn table(snapshot: &Snapshot, target: &str, colours: bool) -> String {
    let mut table = rows(snapshot, target, colours);
    if !snapshot.partitions.is_empty() {
        table.push('\n');
        table.push_str(&partitions::table(&snapshot.partitions));
    }
    if !snapshot.nodes.is_empty() {
        table.push('\n');
        table.push_str(&nodes(&snapshot.nodes, snapshot.now_ms));
    }
    let warnings = [
        &snapshot.source_troubles[..],
        &snapshot.publish_troubles,
        &snapshot.handler_troubles,
        &snapshot.durability_troubles,
        &snapshot.warnings,
    ];
    let mut warnings = warnings.concat();
    warnings.extend(snapshot.partition_troubles());
    // Writing to a string cannot fail.
    for warning in &warnings {
        let _ = write!(table, "\nwarning: {}", escaped(warning));
    }
    if !warnings.is_empty() {
        table.push('\n');
    }
    table
}

fn rows(snapshot: &Snapshot, target: &str, colours: bool) -> String {
    let place = format!(
        "{} on {}, {}",
        snapshot.fleet,
        escaped(target),
        escaped(&snapshot.server.version)
    );
    let mut rows = vec![
        ("fleet", place),
        ("generator", generator(snapshot)),
        ("messages", books(snapshot)),
    ];
    if let Some(loss) = snapshot.loss() {
        let (red, plain) = if colours { RED } else { ("", "") };
        rows.push(("void", format!("{red}{loss}{plain}")));
    }
    if let Some(paused) = paused(snapshot) {
        rows.push(("paused", paused));
    }
    if snapshot.delayed > 0 {
        rows.push(("delayed", delayed(snapshot)));
    }
    rows.push(("errors", errors(snapshot)));
    if snapshot.foreign > 0 {
        let foreign = format!(
            "{} entries of the queue were no messages; they went to errors",
            snapshot.foreign
        );
        rows.push(("foreign", foreign));
    }
    rows.push(("server", durability::server(snapshot)));
    let durable = durability::durability(snapshot);
    rows.extend(durable.map(|words| ("durability", words)));
    let replicas = durability::replicas(snapshot);
    rows.extend(replicas.map(|words| ("replicas", words)));
    rows.extend(versions(&snapshot.nodes).map(|words| ("versions", words)));
    if snapshot.nodes.is_empty() {
        rows.push(("nodes", "none".to_owned()));
    }
    rows.iter()
        .map(|(name, text)| format!("{name:<11}{text}\n"))
        .collect()
}

/// The versions of the living nodes, most frequent first; none unless they differ.
fn versions(nodes: &[NodeStatus]) -> Option<String> {
    let mut counts = BTreeMap::<&str, u64>::new();
    for node in nodes.iter().filter(|node| node.role != NodeRole::Dead) {
        *counts.entry(&node.version).or_default() += 1;
    }
    if counts.len() < 2 {
        return None;
    }
    let mut counts: Vec<(&str, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, nodes)| Reverse(*nodes));
    let listed = counts.iter().take(MAX_VERSIONS).map(|(version, nodes)| {
        let version = match *version {
            "" => "unknown".to_owned(),
            version => cell(version),
        };
        format!(
            "{version} ({nodes} {})",
            if *nodes == 1 { "node" } else { "nodes" }
        )
    });
    let mut words = listed.collect::<Vec<_>>().join(", ");
    let others = counts.len().saturating_sub(MAX_VERSIONS);
    if others > 0 {
        // Writing to a string cannot fail.
        let _ = write!(words, ", and {others} more");
    }
    Some(words)
}

/// What is paused, and since when; none if nothing is.
fn paused(snapshot: &Snapshot) -> Option<String> {
    let parts = Part::ALL.into_iter().filter_map(|part| {
        let since_ms = snapshot.paused.since_ms(part)?;
        let lasted = duration(snapshot.now_ms.saturating_sub(since_ms));
        Some(format!("{} for {lasted}", part.as_str()))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    (!parts.is_empty()).then(|| format!("{parts}; `baton resume` ends it"))
}

/// The messages that wait for their next attempt, and when the first one is due.
fn delayed(snapshot: &Snapshot) -> String {
    let (subject, one) = match snapshot.delayed {
        1 => ("1 message waits for its next attempt".to_owned(), "due"),
        some => (
            format!("{some} messages wait for their next attempts"),
            "the first",
        ),
    };
    let due_ms = snapshot.next_due_ms.unwrap_or_default();
    match due_ms.saturating_sub(snapshot.now_ms) {
        0 => format!("{subject}, {one} now"),
        left_ms => format!("{subject}, {one} in {}", duration(left_ms)),
    }
}

/// A time as people write it, such as `3.2 s` or `9m 59s`.
pub(crate) fn duration(ms: u64) -> String {
    let whole = Duration::from_secs(ms / 1000);
    match ms {
        ..60_000 => format!("{:.1} s", ms as f64 / 1000.0),
        _ => humantime::format_duration(whole).to_string(),
    }
}

fn errors(snapshot: &Snapshot) -> String {
    let waiting = match snapshot.errors {
        0 => "no failed message waits".to_owned(),
        1 => "1 failed message waits for `baton getErrors`".to_owned(),
        waiting => format!("{waiting} failed messages wait for `baton getErrors`"),
    };
    match snapshot.dropped {
        0 => waiting,
        dropped => format!("{waiting}; {dropped} dropped"),
    }
}

fn generator(snapshot: &Snapshot) -> String {
    let generator = &snapshot.generator;
    match &generator.node {
        Some(node) => format!(
            "{}, epoch {}, since {}{}",
            escaped(node),
            generator.epoch,
            generator
                .since_ms
                .and_then(text::moment)
                .as_deref()
                .unwrap_or("-"),
            takeover(snapshot),
        ),
        None => {
            let epoch = generator.epoch;
            match &generator.holder {
                Some(holder) => format!(
                    "none at this moment: {} has the lease (epoch {epoch}) and is not connected; \
                     {}",
                    escaped(holder),
                    lease_end(snapshot)
                ),
                None => format!("none at this moment (last epoch {epoch})"),
            }
        }
    }
}

/// When the lease of a disconnected holder ends, in words.
fn lease_end(snapshot: &Snapshot) -> String {
    let until = text::moment(snapshot.generator.until_ms).unwrap_or_else(|| "-".to_owned());
    match () {
        () if snapshot.lease_is_ahead() => format!(
            "it ends at {until}, which a clock that was ahead wrote: it counts as over, and the \
             next node takes it"
        ),
        () if snapshot.generator.until_ms > snapshot.now_ms => {
            format!("it ends at {until}, or at once with `baton clean`")
        }
        () => format!("it ended at {until}"),
    }
}

/// How the generator took over, in words.
fn takeover(snapshot: &Snapshot) -> String {
    let newest = snapshot.takeovers.first();
    let Some(takeover) = newest.filter(|newest| newest.epoch == snapshot.generator.epoch) else {
        return String::new();
    };
    let from = takeover.from.as_deref().map(escaped).unwrap_or_default();
    let gap = takeover.gap_ms;
    match takeover.how {
        TakeoverCause::First | TakeoverCause::Raised => String::new(),
        TakeoverCause::Resigned => format!(", {gap} ms after the last one resigned"),
        TakeoverCause::Gone => format!(", at most {gap} ms after {from} was gone"),
        TakeoverCause::Expired => format!(", {gap} ms after {from} was last heard"),
        _ => format!(", {gap} ms after {from}"),
    }
}

/// Whether the counters balance, in words.
fn books(snapshot: &Snapshot) -> String {
    let Snapshot {
        published,
        retried,
        done,
        failed,
        pending,
        claimed,
        delayed,
        void,
        ..
    } = snapshot;
    let (verdict, sign) = match snapshot.balanced {
        true => ("balanced", "="),
        false => ("NOT BALANCED", "≠"),
    };
    let counted = match snapshot.counted {
        true => "",
        false => " (pending from the counters: the queue is too long to count)",
    };
    let retried = match retried {
        0 => String::new(),
        _ => format!(" + retried {retried}"),
    };
    let void = match void {
        0 => String::new(),
        _ => format!(" + void {void}"),
    };
    let all = snapshot.partitions.len();
    let is_read = |one: &&PartitionSnapshot| one.trouble.is_none();
    let unread = match snapshot.partitions.iter().filter(is_read).count() {
        read if read == all => String::new(),
        read => format!("; {read} of {all} partitions could be read"),
    };
    format!(
        "{verdict}: published {published}{retried} {sign} done {done} + failed {failed} + \
         pending {pending} + claimed {claimed} + delayed {delayed}{void}{counted}{unread}"
    )
}

fn nodes(nodes: &[NodeStatus], now_ms: u64) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(nodes.iter().map(|node| row(node, now_ms)));
    aligned(&rows)
}

/// The rows with columns of the same width.
pub(super) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut table = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        table.push_str(cells.join("  ").trim_end());
        table.push('\n');
    }
    table
}

fn row(node: &NodeStatus, now_ms: u64) -> [String; COLUMNS.len()] {
    let ago = Duration::from_millis(now_ms.saturating_sub(node.seen_ms));
    [
        cell(&node.node),
        node.role.to_string(),
        cell(&node.host),
        node.pid.to_string(),
        cell(&node.version),
        node.published.to_string(),
        node.processed.to_string(),
        node.claimed.to_string(),
        format!("{:.1} s ago", ago.as_secs_f64()),
    ]
}

/// A text from Redis as a cell. It is cut, because one long name would make every row long.
pub(super) fn cell(text: &str) -> String {
    let cell = Shortened {
        bytes: text.as_bytes(),
        max_chars: CELL_CHARS,
    };
    cell.to_string()
}

/// A text from Redis, safe to print.
pub(super) fn escaped(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}
