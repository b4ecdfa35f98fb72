//! `baton status`: one reading of the fleet, for people or for programs.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use baton::Inspector;
use baton::Target;
use baton::inspect::{How, Limits, NodeStatus, Snapshot, Watch};
use baton_protocol::text::{self, Escaped, Shortened};
use serde_json::Value;

use crate::args::{ConnectionArgs, StatusArgs};
use crate::output::Output;
use crate::stop::Stop;
use crate::{connect, json, runtime, terminal};

/// Most characters of a text in the table of nodes.
const CELL_CHARS: usize = 64;

/// How often a watched fleet is read.
const EVERY: Duration = Duration::from_secs(1);
/// To the upper left corner, and everything away from there on.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Reads and shows the fleet. Fails if the books are not balanced, or if the lease has a time
/// that no node can have given it.
pub(crate) fn run(connection: &ConnectionArgs, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let target = connect::for_command(connection)?;
    let place = target.to_string();
    if args.watch {
        return watch(connection, target, args.format.json);
    }
    let snapshot = runtime::block_on(async {
        let store = connect::view(connection, &target).await?;
        Ok(Inspector::over(store.clone()).snapshot().await?)
    })?;
    let shown = match args.format.json {
        true => line(&snapshot)?,
        false => table(&snapshot, &place).into_bytes(),
    };
    crate::print(&Output::stdout(), &shown)?;
    Ok(match snapshot.balanced && !snapshot.lease_is_ahead() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Shows the fleet every second until somebody asks to stop or nobody reads any more.
fn watch(connection: &ConnectionArgs, target: Target, json: bool) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals().context("cannot listen for signals")?;
    let output = Output::stdout();
    let place = target.to_string();
    let clear = terminal::has_screen() && !json;
    let fleet = connection.fleet.clone();
    runtime::block_on(async {
        connect::refuse_at_once(connection, &target).await?;
        let limits = Limits::default();
        let watch = Watch::start(target, fleet, EVERY, limits);
        let mut views = watch.views();
        loop {
            tokio::select! {
                _ = stop.asked() => return Ok(ExitCode::SUCCESS),
                // The watch lives as long as this loop.
                _ = views.next() => {}
            }
            let seen = watch.view();
            let shown = match (&seen.trouble, &seen.snapshot) {
                (Some(trouble), _) => trouble_shown(trouble, json)?,
                (None, Some(snapshot)) if json => line(snapshot)?,
                (None, Some(snapshot)) => {
                    let table = table(snapshot, &place);
                    let end = if clear { CLEAR } else { "" };
                    format!("{end}{table}\n").into_bytes()
                }
                (None, None) => continue,
            };
            match output.write(&shown) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(ExitCode::SUCCESS);
                }
                written => written.context("cannot write to stdout")?,
            }
        }
    })
}

/// Why there is nothing to show. The table of before stays where it is.
fn trouble_shown(trouble: &str, json: bool) -> anyhow::Result<Vec<u8>> {
    Ok(match json {
        true => {
            let mut shown = Vec::new();
            json::write_line(&mut shown, &serde_json::json!({ "trouble": trouble }))?;
            shown
        }
        false => format!("no newer reading: {}\n", shown(trouble)).into_bytes(),
    })
}

/// The snapshot as a line of JSON.
fn line(snapshot: &Snapshot) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    json::write_line(&mut line, &object(snapshot)?)?;
    Ok(line)
}

/// The status as JSON, with readable times beside those in ms.
fn object(status: &Snapshot) -> serde_json::Result<Value> {
    let mut object = serde_json::to_value(status)?;
    let since = status.generator.since_ms.and_then(text::moment);
    object["generator"]["since"] = since.into();
    if let Some(nodes) = object["nodes"].as_array_mut() {
        for (node, listed) in nodes.iter_mut().zip(&status.nodes) {
            node["seen"] = text::moment(listed.seen_ms).into();
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
            "{}, epoch {}, since {}{}",
            shown(node),
            generator.epoch,
            generator
                .since_ms
                .and_then(text::moment)
                .as_deref()
                .unwrap_or("-"),
            takeover(status),
        ),
        None => {
            let epoch = generator.epoch;
            match &generator.holder {
                Some(holder) => format!(
                    "none at this moment: {} has the lease (epoch {epoch}) and is not connected; \
                     {}",
                    shown(holder),
                    lease_end(status)
                ),
                None => format!("none at this moment (last epoch {epoch})"),
            }
        }
    }
}

/// When the lease of a holder that is gone ends, in words.
fn lease_end(status: &Snapshot) -> String {
    let until = text::moment(status.generator.until_ms).unwrap_or_else(|| "-".to_owned());
    match () {
        () if status.lease_is_ahead() => format!(
            "it ends at {until}, which a clock that was ahead wrote: it counts as over, and the \
             next node takes it"
        ),
        () if status.generator.until_ms > status.now_ms => {
            format!("it ends at {until}, or at once with `baton clean`")
        }
        () => format!("it ended at {until}"),
    }
}

/// How the generator came to be one, in words.
fn takeover(status: &Snapshot) -> String {
    let newest = status.takeovers.first();
    let Some(takeover) = newest.filter(|newest| newest.epoch == status.generator.epoch) else {
        return String::new();
    };
    let from = takeover.from.as_deref().map(shown).unwrap_or_default();
    let gap = takeover.gap_ms;
    match takeover.how {
        How::First | How::Raised => String::new(),
        How::Resigned => format!(", {gap} ms after the last one resigned"),
        How::Gone => format!(", at most {gap} ms after {from} was gone"),
        How::Expired => format!(", {gap} ms after {from} was last heard"),
        _ => format!(", {gap} ms after {from}"),
    }
}

/// The conservation check in words.
fn books(status: &Snapshot) -> String {
    let Snapshot {
        published,
        retried,
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
    let retried = match retried {
        0 => String::new(),
        _ => format!(" + retried {retried}"),
    };
    format!(
        "{verdict}: published {published}{retried} {sign} done {done} + failed {failed} + \
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
    const HEAD: [&str; 9] = [
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
    let rows: Vec<[String; 9]> = std::iter::once(HEAD.map(str::to_owned))
        .chain(nodes.iter().map(|node| {
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
        }))
        .collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths: [usize; 9] = std::array::from_fn(width);
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
        max_chars: CELL_CHARS,
    };
    cell.to_string()
}

/// Text from Redis, safe to print.
fn shown(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}
