//! `baton status`: one reading of the fleet, for people or for programs.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use baton::{NodeStatus, Snapshot, show};
use serde_json::Value;

use crate::args::{ConnectionArgs, FormatArgs};
use crate::output::Output;
use crate::{connect, json, runtime};
use baton::show::{Escaped, Shortened};

/// Most characters of a text in the table of nodes.
const CELL_CHARS: usize = 64;

/// Reads and shows the fleet. Fails if the books are not balanced.
pub(crate) fn run(connection: &ConnectionArgs, format: &FormatArgs) -> anyhow::Result<ExitCode> {
    let target = connect::for_command(connection)?;
    let status = runtime::block_on(async {
        let store = connect::open(connection, &target).await?;
        Ok(Snapshot::read(&store).await?)
    })?;
    let mut shown = Vec::new();
    match format.json {
        true => json::write_line(&mut shown, &object(&status)?)?,
        false => shown.extend_from_slice(table(&status, &target.to_string()).as_bytes()),
    }
    crate::print(&Output::stdout(), &shown)?;
    Ok(match status.balanced {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The status as JSON, with readable times beside those in ms.
fn object(status: &Snapshot) -> serde_json::Result<Value> {
    let mut object = serde_json::to_value(status)?;
    let since = status.generator.since_ms.and_then(show::moment);
    object["generator"]["since"] = since.into();
    if let Some(nodes) = object["nodes"].as_array_mut() {
        for (node, listed) in nodes.iter_mut().zip(&status.nodes) {
            node["seen"] = show::moment(listed.seen_ms).into();
        }
    }
    Ok(object)
}

pub(crate) fn table(status: &Snapshot, target: &str) -> String {
    let mut table = String::new();
    // Writing to a string cannot fail.
    let mut row = |name: &str, text: String| {
        let _ = writeln!(table, "{name:<11}{text}");
    };
    row(
        "fleet",
        format!(
            "{} on {}, {}",
            status.fleet,
            shown(target),
            shown(&status.server.version)
        ),
    );
    row("generator", generator(status));
    row("messages", books(status));
    row(
        "errors",
        match status.errors {
            0 => "no failed message waits".to_owned(),
            1 => "1 failed message waits for `baton getErrors`".to_owned(),
            errors => format!("{errors} failed messages wait for `baton getErrors`"),
        },
    );
    if status.foreign > 0 {
        row(
            "foreign",
            format!(
                "{} entries of the queue were no messages; they went to errors",
                status.foreign
            ),
        );
    }
    row("server", durability(status));
    if status.nodes.is_empty() {
        row("nodes", "none".to_owned());
    } else {
        table.push('\n');
        nodes(&mut table, &status.nodes, status.now_ms);
    }
    for warning in &status.warnings {
        let _ = write!(table, "\nwarning: {}", shown(warning));
    }
    if !status.warnings.is_empty() {
        table.push('\n');
    }
    table
}

fn generator(status: &Snapshot) -> String {
    let generator = &status.generator;
    match &generator.node {
        Some(node) => format!(
            "{}, epoch {}, since {}",
            shown(node),
            generator.epoch,
            generator
                .since_ms
                .and_then(show::moment)
                .as_deref()
                .unwrap_or("-"),
        ),
        None => format!("none at this moment (last epoch {})", generator.epoch),
    }
}

/// The conservation check in words.
fn books(status: &Snapshot) -> String {
    let Snapshot {
        published,
        done,
        failed,
        pending,
        claimed,
        ..
    } = status;
    let (verdict, sign) = match status.balanced {
        true => ("balanced", "="),
        false => ("NOT BALANCED", "≠"),
    };
    let counted = match status.counted {
        true => "",
        false => " (pending from the counters: the queue is too long to count)",
    };
    format!(
        "{verdict}: published {published} {sign} done {done} + failed {failed} + \
         pending {pending} + claimed {claimed}{counted}"
    )
}

fn durability(status: &Snapshot) -> String {
    let server = &status.server;
    let aof = match (server.aof, &server.appendfsync) {
        (false, _) => "appendonly no".to_owned(),
        (true, Some(policy)) => format!("appendonly yes, appendfsync {}", shown(policy)),
        (true, None) => "appendonly yes, appendfsync unknown".to_owned(),
    };
    let memory = match server.maxmemory {
        0 => "no maxmemory".to_owned(),
        bytes => format!("maxmemory {bytes}"),
    };
    format!(
        "{aof}; {memory}, {}; {} replicas",
        shown(&server.maxmemory_policy),
        server.replicas
    )
}

fn nodes(table: &mut String, nodes: &[NodeStatus], now_ms: u64) {
    const HEAD: [&str; 8] = [
        "node",
        "role",
        "host",
        "pid",
        "version",
        "published",
        "processed",
        "last seen",
    ];
    let rows: Vec<[String; 8]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(nodes.iter().map(|node| {
            let ago = Duration::from_millis(now_ms.saturating_sub(node.seen_ms));
            [
                cell(&node.node),
                node.role.to_owned(),
                cell(&node.host),
                node.pid.to_string(),
                cell(&node.version),
                node.published.to_string(),
                node.processed.to_string(),
                format!("{:.1} s ago", ago.as_secs_f64()),
            ]
        }))
        .collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        let _ = writeln!(table, "{}", cells.join("  ").trim_end());
    }
}

/// Text from Redis as a cell: one endless name must not make all rows endless.
fn cell(text: &str) -> String {
    let cell = Shortened {
        bytes: text.as_bytes(),
        most_chars: CELL_CHARS,
    };
    cell.to_string()
}

/// Text from Redis, safe to print.
fn shown(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}
