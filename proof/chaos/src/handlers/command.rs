//! The command of a run with `--handler exec`: handles one message, well or badly.

use std::env::var;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::SIGTERM;

use super::{Beside, Choices, EFFECT, Entry, Fate, NODE, Shared, WORK_MS};
use crate::process_scan::Process;

const REJECTED: u8 = 65;
const LATER: u8 = 75;
/// The work of some commands: long enough to meet the next attempt, unless the death of their node
/// ends them.
const LONG: Duration = Duration::from_millis(800);
const POLL: Duration = Duration::from_millis(2);

/// Handles the message of this process. Returns the exit code.
pub fn handle(folder: &Path) -> Result<u8> {
    let shared = Shared::open(folder);
    let (key, attempt) = (var("BATON_KEY")?, var("BATON_ATTEMPT")?);
    let mut choices = Choices::of(&key, &attempt);
    let mark = folder.join("running").join(&key);
    begin(&shared, &mark)?;
    if choices.rng.chance(50) {
        io::stdin().read_to_end(&mut Vec::new())?;
    }
    if choices.rng.chance(10) {
        // It stays in the group of this process, whose end must be its end.
        let mut sleeper = Command::new("sleep");
        sleeper.arg("60").stdin(Stdio::null());
        sleeper
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
    }
    // In every fate: only that of a message which is done may count.
    let mut effects = fs::File::create(var("BATON_EFFECTS")?)?;
    effects.write_all(EFFECT.as_bytes())?;
    if shared.hangs() && choices.rng.chance(50) {
        hang(&shared, choices.rng.chance(50))?;
    }
    let work = Duration::from_millis(var(WORK_MS)?.parse()?);
    thread::sleep(match choices.rng.chance(10) {
        true => work.max(LONG),
        false => work,
    });
    // Another attempt may have put its own there.
    let _ = fs::remove_file(mark);
    Ok(match choices.fate {
        Fate::Done => 0,
        Fate::Later => LATER,
        Fate::Rejected => REJECTED,
    })
}

/// Looks for another command with the same message, then notes that this one runs.
fn begin(shared: &Shared, mark: &Path) -> Result<()> {
    if let Some((other, node)) = fs::read_to_string(mark).ok().as_deref().and_then(running)
        && other.is_alive()
    {
        let seq = var("BATON_SEQ")?.parse()?;
        let orphaned = shared.is_gone(node);
        let began = Instant::now();
        let max = Duration::from_millis(Beside::MAX_MS);
        while orphaned && other.is_alive() && began.elapsed() < max {
            thread::sleep(POLL);
        }
        shared.tell(&Entry::Beside(Beside {
            seq,
            node,
            orphaned,
            ms: began.elapsed().as_millis() as u64,
        }))?;
    }
    let own = Process::own().context("this process is not in /proc")?;
    let (pid, started, node) = (own.pid, own.started, var(NODE)?);
    Ok(fs::write(mark, format!("{pid} {started} {node}"))?)
}

/// The process and the node that a mark names.
fn running(mark: &str) -> Option<(Process, usize)> {
    let mut numbers = mark.split(' ');
    let process = Process {
        pid: numbers.next()?.parse().ok()?,
        started: numbers.next()?.parse().ok()?,
    };
    Some((process, numbers.next()?.parse().ok()?))
}

/// Hangs until a signal ends this process; perhaps SIGTERM does not.
fn hang(shared: &Shared, ignores_sigterm: bool) -> Result<()> {
    if ignores_sigterm {
        signal_hook::flag::register(SIGTERM, Arc::new(AtomicBool::new(false)))?;
    }
    shared.tell(&Entry::Hit)?;
    loop {
        thread::park();
    }
}
