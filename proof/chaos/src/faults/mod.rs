//! Every fault: how it is injected, and how it is lifted.

mod clients;
mod clock;
mod command;
mod crash;
mod disk;
mod drain;
mod failover;
mod forget;
mod kill;
mod log;
mod lossy;
mod member;
mod memory;
mod namespace;
mod operator;
mod operator_pause;
mod pause;
mod proxy;
mod push;
mod server;
mod slot;
mod source;
mod staging;
mod stop;

use std::time::Instant;

use anyhow::{Context as _, Result};
use baton_log::LogEvent;
use baton_processes::Told;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::arena::{Arena, Settings};
use crate::handlers::{self, HandlerKind};
use crate::plan::{Kind, Needs, Planned};
use crate::proxy::Mode;
use crate::rng::Rng;
use crate::topology::Topology;
use member::Whom;

/// What the report says about a fault.
#[derive(Debug, Default)]
pub struct Note {
    /// The labels of the processes that it hit.
    pub targets: Vec<String>,
    /// Anything worth a word.
    pub text: String,
    /// When it was over, if that was later than its lifting.
    pub over: Option<Instant>,
}

/// A fault of a running fleet.
pub trait Fault {
    /// Begins the fault.
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()>;

    /// Ends the fault, unless it ends by itself. The run calls this once after every
    /// [`Fault::inject`], even if that failed.
    fn lift(&mut self, _arena: &mut Arena, _note: &mut Note) -> Result<()> {
        Ok(())
    }

    /// Waits until the processes that the fault started have ended. The run calls this after it has
    /// lifted all faults, so that no wait prolongs another fault.
    fn finish(&mut self, _arena: &mut Arena, _note: &mut Note) -> Result<()> {
        Ok(())
    }
}

/// The fault that was planned.
pub fn of(planned: &Planned) -> Box<dyn Fault> {
    let rng = Rng::new(planned.seed);
    let lasts = planned.lasts;
    let network = |mode, rng| Box::new(proxy::ProxyFault::new(mode, rng));
    match planned.kind {
        Kind::KillGenerator => Box::new(kill::Kill::new(kill::Whom::Generator, rng)),
        Kind::KillWorker => Box::new(kill::Kill::new(kill::Whom::Worker, rng)),
        Kind::KillHolder => Box::new(kill::Kill::new(kill::Whom::Holder, rng)),
        Kind::KillAll => Box::new(kill::Kill::new(kill::Whom::All, rng)),
        Kind::CrashPoint => Box::new(crash::Crash::new(rng)),
        Kind::PauseGenerator => Box::new(pause::Pause::new(pause::Whom::Generator, rng)),
        Kind::PauseWorker => Box::new(pause::Pause::new(pause::Whom::Worker, rng)),
        Kind::PauseAll => Box::new(pause::Pause::new(pause::Whom::All, rng)),
        Kind::OperatorPause => Box::new(operator_pause::OperatorPause::new(rng)),
        Kind::StopGenerator => Box::new(stop::Ask::new(true, rng)),
        Kind::StopWorker => Box::new(stop::Ask::new(false, rng)),
        Kind::Drain => Box::new(drain::Drain::default()),
        Kind::KillDrain => Box::new(drain::Killed(rng)),
        Kind::KillClients => Box::new(clients::Command(&["CLIENT", "KILL", "TYPE", "normal"])),
        Kind::KillSubscribers => Box::new(clients::Command(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        Kind::FlushScripts => Box::new(clients::Command(&["SCRIPT", "FLUSH"])),
        Kind::PauseClients => Box::new(clients::Pause(lasts)),
        Kind::DebugSleep => Box::new(clients::Sleep::new(lasts)),
        Kind::KillServer => Box::new(server::Kill { rewriting: false }),
        Kind::KillRewrite => Box::new(server::Kill { rewriting: true }),
        Kind::PauseServer => Box::new(server::Pause),
        Kind::LoseReplies => network(Mode::LoseReplies, rng),
        Kind::LoseCalls => network(Mode::LoseCalls, rng),
        Kind::Partition => network(Mode::Partition, rng),
        Kind::Delay => Box::new(proxy::ProxyFault::delay(rng)),
        Kind::CutReplies => network(Mode::CutReplies, rng),
        Kind::CutCalls => network(Mode::CutCalls, rng),
        Kind::Refuse => network(Mode::Refuse, rng),
        // Open connections are cut; new ones pass.
        Kind::Cut => network(Mode::Pass, rng),
        Kind::LinkDown => Box::new(namespace::Wire::new(namespace::How::Down, rng)),
        Kind::OneWay => Box::new(namespace::Wire::new(namespace::How::OneWay, rng)),
        Kind::MemoryFull => Box::new(memory::Full::default()),
        Kind::LoseStaged => Box::new(staging::Vanish::new(rng)),
        Kind::ServerClock => Box::new(clock::Jump::of_server(rng)),
        Kind::NodeClock => Box::new(clock::Jump::of_node(rng)),
        Kind::DiskFull => Box::new(disk::Full::default()),
        Kind::LogDiskFull => Box::new(log::DiskFull::new(rng)),
        Kind::LogStall => Box::new(log::Stall::new(rng)),
        Kind::OutputLimit => Box::new(operator::OutputLimit::default()),
        Kind::Password => Box::new(operator::Password::default()),
        Kind::Demote => Box::new(operator::Demote::default()),
        Kind::ClockCorrected => Box::new(clock::Corrected),
        Kind::KillChild => Box::new(command::Kill::new(rng)),
        Kind::HangChild => Box::new(command::Hang::default()),
        Kind::KillSupervisor => Box::new(command::KillSupervisor(rng)),
        Kind::KillSource => Box::new(source::Kill),
        Kind::PauseSource => Box::new(source::Pause::default()),
        Kind::KillMaster => member_killed(Whom::Master, false, rng),
        Kind::KillMasterAndGenerator => member_killed(Whom::Master, true, rng),
        Kind::KillReplica => member_killed(Whom::Replica, false, rng),
        Kind::KillSentinel => member_killed(Whom::Sentinel, false, rng),
        Kind::HangMaster => Box::new(member::Pause::new(Whom::Master, rng)),
        Kind::HangMasterAndGenerator => Box::new(member::Pause::with_generator(rng)),
        Kind::HangReplica => Box::new(member::Pause::new(Whom::Replica, rng)),
        Kind::HangSentinel => Box::new(member::Pause::new(Whom::Sentinel, rng)),
        Kind::Failover => Box::new(failover::Forced(rng)),
        Kind::ThereAndBack => Box::new(failover::ThereAndBack::new(rng)),
        Kind::Lossy => Box::new(lossy::Lossy::new(false, rng)),
        Kind::LossyAndGenerator => Box::new(lossy::Lossy::new(true, rng)),
        Kind::KillControlMaster => member_killed(Whom::ControlMaster, false, rng),
        Kind::ForgetControl => Box::new(forget::ControlKeys),
        Kind::KillOtherMaster => member_killed(Whom::OtherMaster, false, rng),
        Kind::MoveSlot => Box::new(slot::Move::new(rng)),
        Kind::ScaleOut => Box::new(slot::ScaleOut::new(rng)),
        Kind::PushDies => Box::new(push::Die),
        Kind::PushError => Box::new(push::Answer::new(handlers::Mode::Error)),
        Kind::PushHangs => Box::new(push::Answer::new(handlers::Mode::Hang)),
        Kind::PushEndless => Box::new(push::Answer::new(handlers::Mode::Endless)),
    }
}

fn member_killed(whom: Whom, with_generator: bool, rng: Rng) -> Box<dyn Fault> {
    Box::new(member::Kill::new(whom, with_generator, rng))
}

/// Sets the largest size that a file of a process may have, or lifts that.
fn limit_files(pid: u32, bytes: Option<u64>) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = bytes.or(maximum);
    let limit = Rlimit { current, maximum };
    prlimit(
        Some(pid.context("no such process")?),
        Resource::Fsize,
        limit,
    )?;
    Ok(())
}

/// Whether a node has logged a warning with this word since a mark. The note of a fault without
/// effect says so.
fn warned(arena: &Arena, mark: usize, word: &str) -> String {
    let told = arena.fleet.told_since(mark);
    let complains =
        |told: &Told| matches!(told.event(), LogEvent::Warning { text } if text.contains(word));
    match told.iter().any(complains) {
        true => format!("writes were refused ({word})"),
        false => "no write was refused".to_owned(),
    }
}

/// Why this run cannot have a kind of fault; `None` if it can.
pub fn why_not(kind: Kind, settings: &Settings) -> Option<&'static str> {
    match kind.facts().misses(settings.setup()) {
        Some(Needs::Group) => return Some("it needs --topology sentinel or cluster"),
        Some(Needs::Topology(Topology::Sentinel)) => return Some("it needs --topology sentinel"),
        Some(Needs::Topology(Topology::Cluster)) => return Some("it needs --topology cluster"),
        Some(Needs::Topology(Topology::Single)) => return Some("it needs a single server"),
        Some(Needs::UnusedMaster) => {
            return Some("it needs --topology cluster --partitions 1");
        }
        Some(Needs::SharedFleet) => {
            return Some("it needs --topology cluster and several partitions");
        }
        Some(Needs::Handler(HandlerKind::Exec)) => return Some("it needs --handler exec"),
        Some(Needs::Handler(_)) => return Some("it needs --handler push"),
        Some(Needs::Source(_)) => return Some("it needs --source rows"),
        None => {}
    }
    match kind {
        Kind::ServerClock | Kind::NodeClock | Kind::ClockCorrected
            if settings.faketime.is_none() =>
        {
            Some("libfaketime is not there; scripts/setup-chaos fetches it")
        }
        Kind::NodeClock if settings.node_faketime().is_none() => {
            Some("libfaketime does not run with commands that are killed")
        }
        Kind::ServerClock | Kind::ClockCorrected if !settings.server_faketime => {
            Some("this server does not run with libfaketime")
        }
        Kind::LinkDown | Kind::OneWay if !settings.namespaces => {
            Some("network namespaces need root, Linux and iproute2")
        }
        _ => None,
    }
}
