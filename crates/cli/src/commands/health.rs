//! `baton health`: whether a fleet or a node is well, as an exit code for probes.

mod http;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use baton::inspect::{Limits, Watch};
use baton::{FleetName, Target};
use tokio::time::{Instant, timeout_at};

use crate::args::{ConnectionArgs, HealthArgs};
use crate::{client, runtime, stdout, target};

/// How often a fleet is read until it is known to be well or not.
const EVERY: Duration = Duration::from_millis(200);

/// What a probe asks.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// Does the fleet consume messages?
    Healthy,
    /// Can this node work; without a node, can the fleet be read?
    Ready,
}

impl Question {
    fn word(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Ready => "ready",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Healthy => "/healthz",
            Self::Ready => "/readyz",
        }
    }
}

/// The time limit, and when it is over.
#[derive(Debug, Clone, Copy)]
struct Deadline {
    within: Duration,
    at: Instant,
}

/// Prints one line and succeeds if the answer is yes. Any other answer is an error.
pub(crate) fn run(connection: &ConnectionArgs, args: &HealthArgs) -> anyhow::Result<ExitCode> {
    let deadline = Deadline {
        within: args.within,
        at: Instant::now() + args.within,
    };
    let question = match args.ready {
        true => Question::Ready,
        false => Question::Healthy,
    };
    let line = match args.http {
        Some(addr) => runtime::block_on(http::ask(addr, question, deadline))?,
        None => {
            let target = target::for_command(connection)?;
            runtime::block_on(ask_redis(target, &connection.fleet, question, deadline))?
        }
    };
    stdout::print(format!("{}: {line}\n", question.word()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Reads the fleet until it shows a sign of life, or has shown none for too long.
async fn ask_redis(
    target: Target,
    fleet: &FleetName,
    question: Question,
    deadline: Deadline,
) -> anyhow::Result<String> {
    let place = format!("fleet {fleet} on {target}");
    let not = format!("not {}: {place}", question.word());
    // A refusal is final; a server that does not answer may come back in time.
    if let Ok(access) = timeout_at(deadline.at, client::check_access(&target, fleet)).await {
        access?;
    }
    let watch = Watch::start(target, fleet.clone(), EVERY, Limits::default());
    let mut views = watch.views();
    while let Ok(Some(view)) = timeout_at(deadline.at, views.next()).await {
        if !view.health.is_well() {
            bail!("{not}: {}", view.health.troubles.join("; "));
        }
        let (None, Some(snapshot)) = (&view.trouble, &view.snapshot) else {
            continue;
        };
        match (question, &snapshot.generator.node) {
            (Question::Ready, _) => return Ok(place),
            (Question::Healthy, Some(node)) => return Ok(format!("{place}: {node} generates")),
            // A successor may be about to take over.
            (Question::Healthy, None) => {}
        }
    }
    let within = deadline.within;
    let view = views.latest();
    match (&view.trouble, &view.snapshot) {
        (Some(trouble), _) => bail!("{not}: it could not be read within {within:?}: {trouble}"),
        (None, None) => bail!("{not}: no answer within {within:?}"),
        (None, Some(_)) => bail!("{not}: no generator within {within:?}"),
    }
}
