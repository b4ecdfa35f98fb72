//! Every fault: how it hurts, and how it is lifted.

mod clients;
mod clock;
mod crash;
mod disk;
mod drain;
mod kill;
mod log;
mod memory;
mod net;
mod operator;
mod pause;
mod server;
mod stop;
mod weather;

use std::time::Instant;

use anyhow::{Context as _, Result};
use baton_log::LogEvent;
use baton_processes::Told;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::dice::Dice;
use crate::plan::{Kind, Planned};
use crate::proxy::Weather;
use crate::stage::{Settings, Stage};

/// What a fault tells about itself.
#[derive(Debug, Default)]
pub struct Note {
    /// Whom it hit: nodes in the report's words.
    pub targets: Vec<String>,
    /// Anything worth a word.
    pub text: String,
    /// When it was over, if that was later than its lifting.
    pub over: Option<Instant>,
}

/// Something that goes wrong, and is put right again.
pub trait Fault {
    /// Hurts.
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()>;

    /// Puts right what does not pass by itself. Called once after every [`Fault::inject`],
    /// whatever became of that and of the fleet.
    fn lift(&mut self, _stage: &mut Stage, _note: &mut Note) -> Result<()> {
        Ok(())
    }

    /// Waits for the end of what was set in motion. Called when all faults are lifted: no
    /// wait for one shall prolong another.
    fn finish(&mut self, _stage: &mut Stage, _note: &mut Note) -> Result<()> {
        Ok(())
    }
}

/// The fault that was planned.
pub fn of(planned: &Planned) -> Box<dyn Fault> {
    let dice = Dice::new(planned.seed);
    let lasts = planned.lasts;
    let weather = |weather, dice| Box::new(weather::Bad::new(weather, dice));
    match planned.kind {
        Kind::KillGenerator => Box::new(kill::Kill::new(kill::Whom::Generator, dice)),
        Kind::KillWorker => Box::new(kill::Kill::new(kill::Whom::Worker, dice)),
        Kind::KillHolder => Box::new(kill::Kill::new(kill::Whom::Holder, dice)),
        Kind::KillAll => Box::new(kill::Kill::new(kill::Whom::All, dice)),
        Kind::CrashPoint => Box::new(crash::Crash::new(dice)),
        Kind::PauseGenerator => Box::new(pause::Pause::new(pause::Whom::Generator, dice)),
        Kind::PauseWorker => Box::new(pause::Pause::new(pause::Whom::Worker, dice)),
        Kind::PauseAll => Box::new(pause::Pause::new(pause::Whom::All, dice)),
        Kind::StopGenerator => Box::new(stop::Ask::new(true, dice)),
        Kind::StopWorker => Box::new(stop::Ask::new(false, dice)),
        Kind::Drain => Box::new(drain::Drain::default()),
        Kind::KillDrain => Box::new(drain::Killed(dice)),
        Kind::KillClients => Box::new(clients::Command(&["CLIENT", "KILL", "TYPE", "normal"])),
        Kind::KillSubscribers => Box::new(clients::Command(&["CLIENT", "KILL", "TYPE", "pubsub"])),
        Kind::FlushScripts => Box::new(clients::Command(&["SCRIPT", "FLUSH"])),
        Kind::PauseClients => Box::new(clients::Pause(lasts)),
        Kind::DebugSleep => Box::new(clients::Sleep::new(lasts)),
        Kind::KillServer => Box::new(server::Kill { rewriting: false }),
        Kind::KillRewrite => Box::new(server::Kill { rewriting: true }),
        Kind::PauseServer => Box::new(server::Pause),
        Kind::LoseReplies => weather(Weather::LoseReplies, dice),
        Kind::LoseCalls => weather(Weather::LoseCalls, dice),
        Kind::Partition => weather(Weather::Partition, dice),
        Kind::Delay => Box::new(weather::Bad::delay(dice)),
        Kind::CutReplies => weather(Weather::CutReplies, dice),
        Kind::CutCalls => weather(Weather::CutCalls, dice),
        Kind::Refuse => weather(Weather::Refuse, dice),
        // Fair weather, but everything that is open is cut.
        Kind::Cut => weather(Weather::Fair, dice),
        Kind::LinkDown => Box::new(net::Wire::new(net::How::Down, dice)),
        Kind::OneWay => Box::new(net::Wire::new(net::How::OneWay, dice)),
        Kind::MemoryFull => Box::new(memory::Full::default()),
        Kind::ServerClock => Box::new(clock::Jump::of_server(dice)),
        Kind::NodeClock => Box::new(clock::Jump::of_node(dice)),
        Kind::DiskFull => Box::new(disk::Full::default()),
        Kind::LogDiskFull => Box::new(log::DiskFull::new(dice)),
        Kind::LogStall => Box::new(log::Stall::new(dice)),
        Kind::OutputLimit => Box::new(operator::OutputLimit::default()),
        Kind::Password => Box::new(operator::Password::default()),
        Kind::Demote => Box::new(operator::Demote::default()),
        Kind::ClockCorrected => Box::new(clock::Corrected),
    }
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

/// Whether a generator complained with this word since a mark: a fault that nobody noticed
/// should say so.
fn warned(stage: &Stage, mark: usize, word: &str) -> String {
    let told = stage.fleet.told_since(mark);
    let complains =
        |told: &Told| matches!(told.event(), LogEvent::Warning { text } if text.contains(word));
    match told.iter().any(complains) {
        true => format!("writes were refused ({word})"),
        false => "no write was refused".to_owned(),
    }
}

/// Why a kind cannot happen here, if so.
pub fn why_not(kind: Kind, settings: &Settings) -> Option<&'static str> {
    match kind {
        Kind::ServerClock | Kind::NodeClock | Kind::ClockCorrected
            if settings.faketime.is_none() =>
        {
            Some("libfaketime is not there; scripts/setup-chaos fetches it")
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
