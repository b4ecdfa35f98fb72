//! `baton status`: one reading of the fleet, for people or for programs.

mod durability;
mod partitions;
mod table;

use std::process::ExitCode;

use baton::inspect::{Snapshot, View};
use baton::{Part, Target};
use baton_protocol::text;
use serde_json::Value;

use crate::args::{ConnectionArgs, StatusArgs};
use crate::shutdown::Shutdown;
use crate::stdout::{Reader, Stdout};
use crate::{client, json, runtime, stdout, target, terminal, watch};

pub(crate) use table::{duration, table};

/// Moves the cursor to the upper left corner and clears the screen from there.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Prints the fleet. The exit code is 1 if the books do not balance, if a partition cannot be read, or if
/// the lease ends later than any node can have said.
pub(crate) fn run(connection: &ConnectionArgs, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    if args.watch {
        return watch(connection, target, args.format.json);
    }
    let snapshot = runtime::block_on(async {
        let reader = client::reader(&target, &connection.fleet).await?;
        Ok(reader.snapshot().await?)
    })?;
    let text = match args.format.json {
        true => json_line(&object(&snapshot)?)?,
        false => table(&snapshot, &target.to_string(), terminal::has_colours()).into_bytes(),
    };
    stdout::print(&text)?;
    let is_whole = snapshot.partition_troubles().is_empty();
    Ok(
        match snapshot.balanced && is_whole && !snapshot.lease_is_ahead() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    )
}

/// Prints the fleet every second until a shutdown is requested or the reader is gone.
fn watch(connection: &ConnectionArgs, target: Target, json: bool) -> anyhow::Result<ExitCode> {
    let shutdown = Shutdown::on_signals()?;
    let stdout = Stdout::new();
    let place = target.to_string();
    runtime::block_on(async {
        let watch = watch::start(target, &connection.fleet).await?;
        let mut views = watch.views();
        loop {
            tokio::select! {
                _ = shutdown.requested() => return Ok(ExitCode::SUCCESS),
                // It cannot fail: the watch lives as long as this loop.
                _ = views.next() => {}
            }
            let frame = match json {
                true => json_frame(&watch.view())?,
                false => text_frame(&watch.view(), &place),
            };
            if let Some(frame) = frame
                && stdout.write(&frame)? == Reader::Gone
            {
                return Ok(ExitCode::SUCCESS);
            }
        }
    })
}

/// One frame of a watched fleet as a line of JSON; none before the first reading.
fn json_frame(view: &View) -> anyhow::Result<Option<Vec<u8>>> {
    Ok(match (&view.trouble, &view.snapshot) {
        (Some(trouble), _) => Some(json_line(&serde_json::json!({ "trouble": trouble }))?),
        (None, Some(snapshot)) => Some(json_line(&object(snapshot)?)?),
        (None, None) => None,
    })
}

/// One frame of a watched fleet for people. A frame about trouble leaves the last table on the
/// screen.
fn text_frame(view: &View, place: &str) -> Option<Vec<u8>> {
    let clear = if terminal::has_screen() { CLEAR } else { "" };
    let frame = match (&view.trouble, &view.snapshot) {
        (Some(trouble), _) => format!("no newer reading: {}\n", table::escaped(trouble)),
        (None, Some(snapshot)) => {
            let table = table(snapshot, place, terminal::has_colours());
            format!("{clear}{table}\n")
        }
        (None, None) => return None,
    };
    Some(frame.into_bytes())
}

fn json_line(value: &Value) -> anyhow::Result<Vec<u8>> {
    let mut line = Vec::new();
    json::write_line(&mut line, value)?;
    Ok(line)
}

/// The snapshot as JSON, with readable times beside those in ms.
fn object(snapshot: &Snapshot) -> serde_json::Result<Value> {
    let mut object = serde_json::to_value(snapshot)?;
    let since = snapshot.generator.since_ms.and_then(text::moment);
    object["generator"]["since"] = since.into();
    for part in Part::ALL {
        let since = snapshot.paused.since_ms(part).and_then(text::moment);
        object["paused"][format!("{}_since", part.as_str())] = since.into();
    }
    object["next_due"] = snapshot.next_due_ms.and_then(text::moment).into();
    if let Some(nodes) = object["nodes"].as_array_mut() {
        for (node, status) in nodes.iter_mut().zip(&snapshot.nodes) {
            node["seen"] = text::moment(status.seen_ms).into();
        }
    }
    Ok(object)
}
