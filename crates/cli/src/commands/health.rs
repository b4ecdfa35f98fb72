//! `baton health`: whether a fleet or a node is well, as an exit code for probes.

mod http;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use baton::Target;
use baton::inspect::{Limits, Watch};
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
        None => runtime::block_on(ask_redis(connection, question, deadline))?,
    };
    stdout::print(format!("{}: {line}\n", question.word()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// The server that the command line means. A file that it names may be a FIFO without a writer, so it is
/// read on a thread that this process leaves behind.
async fn resolve(connection: &ConnectionArgs, deadline: Deadline) -> anyhow::Result<Target> {
    let connection = connection.clone();
    let target = tokio::task::spawn_blocking(move || target::for_command(&connection));
    match timeout_at(deadline.at, target).await {
        Ok(target) => target?,
        Err(_) => bail!(
            "the password file or a certificate could not be read within {:?}: is one of them a FIFO?",
            deadline.within
        ),
    }
}

/// Reads the fleet until it shows a sign of life, or has shown none for too long.
async fn ask_redis(
    connection: &ConnectionArgs,
    question: Question,
    deadline: Deadline,
) -> anyhow::Result<String> {
    let target = resolve(connection, deadline).await?;
    let within = deadline.within;
    let fleet = &connection.fleet;
    let place = format!("fleet {fleet} on {target}");
    let not = format!("not {}: {place}", question.word());
    // A refusal is final; a server that does not answer may come back in time.
    if let Ok(access) = timeout_at(deadline.at, client::check_access(&target, fleet)).await {
        access?;
    }
    let watch = Watch::start(target, fleet.clone(), EVERY, Limits::default());
    let mut views = watch.views();
    let mut obstacles = Vec::new();
    while let Ok(Some(view)) = timeout_at(deadline.at, views.next()).await {
        if !view.health.is_well() {
            bail!("{not}: {}", view.health.troubles.join("; "));
        }
        let (None, Some(snapshot)) = (&view.trouble, &view.snapshot) else {
            continue;
        };
        // A successor may be about to take over, and an obstacle may pass.
        obstacles = match (question, &snapshot.generator.node) {
            (Question::Ready, _) => return Ok(place),
            (Question::Healthy, Some(_)) => snapshot.obstacles(),
            (Question::Healthy, None) => vec![format!("no generator within {within:?}")],
        };
        if let (Some(node), true) = (&snapshot.generator.node, obstacles.is_empty()) {
            return Ok(format!("{place}: {node} generates"));
        }
    }
    match &views.latest().trouble {
        Some(trouble) => bail!("{not}: it could not be read within {within:?}: {trouble}"),
        None if obstacles.is_empty() => bail!("{not}: no answer within {within:?}"),
        None => bail!("{not}: {}", obstacles.join("; ")),
    }
}
