//! `baton pause` and `baton resume`: stop parts of a fleet without ending a node.

use std::fmt::Write as _;
use std::process::ExitCode;

use baton::Part;
use baton::inspect::{NodeRole, Paused, Snapshot};
use baton_print::errln;

use super::status::duration;
use crate::args::{ConnectionArgs, PauseArgs};
use crate::client::Away;
use crate::{client, runtime, stdout, target};

/// What to do with the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Stop them.
    Pause,
    /// Let them go on.
    Resume,
}

/// Pauses or resumes parts of the fleet, and prints what changed.
pub(crate) fn run(
    connection: &ConnectionArgs,
    args: &PauseArgs,
    action: Action,
) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let parts = args.parts();
    let (before, snapshot, away) = runtime::block_on(async {
        let inspector = client::inspector(&target, &connection.fleet).await?;
        let (reached, away) = Away::split(&inspector).await;
        let before = match action {
            Action::Pause => reached.pause(&parts).await?,
            Action::Resume => reached.resume(&parts).await?,
        };
        Ok((before, inspector.snapshot().await?, away))
    })?;
    stdout::print(report(&parts, action, &before, snapshot.now_ms).as_bytes())?;
    note_missing_nodes(&snapshot);
    Ok(away.end(ExitCode::SUCCESS))
}

/// One line for each part.
pub(super) fn report(parts: &[Part], action: Action, before: &Paused, now_ms: u64) -> String {
    let mut report = String::new();
    for part in parts {
        let name = part.as_str();
        let lasted = before.since_ms(*part);
        let lasted = lasted.map(|since_ms| duration(now_ms.saturating_sub(since_ms)));
        // Writing to a string cannot fail.
        let _ = match (action, lasted) {
            (Action::Pause, None) => {
                writeln!(report, "paused the {name}; `baton resume {name}` ends it")
            }
            (Action::Pause, Some(lasted)) => {
                writeln!(report, "the {name} had been paused for {lasted}")
            }
            (Action::Resume, Some(lasted)) => {
                writeln!(report, "resumed the {name}, after {lasted}")
            }
            (Action::Resume, None) => writeln!(report, "the {name} had not been paused"),
        };
    }
    report
}

/// Says that no node is there: perhaps the user meant another fleet.
pub(super) fn note_missing_nodes(snapshot: &Snapshot) {
    let mut nodes = snapshot.nodes.iter();
    if nodes.all(|node| node.role == NodeRole::Dead) {
        errln!(
            "baton: no node of the fleet {:?} is alive; this is for nodes that start later",
            snapshot.fleet
        );
    }
}
