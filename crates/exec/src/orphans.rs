//! The processes of a command whose supervisor was killed.
//!
//! The supervisor may have died before it could tell the node which process it started. But each
//! process of a command has the path of a file that is the command's alone in its environment.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, kill_process_group};

/// Pause between two searches: a process that is being started gets its environment within it.
const PAUSE: Duration = Duration::from_millis(20);
/// Max searches.
const MAX_SEARCHES: u32 = 50;

/// Kills the processes of a command, with their groups, until a search finds none. A folder stands for
/// all commands whose files it has. It blocks its thread. Only Linux tells the environment of a process;
/// elsewhere this does nothing.
pub(crate) fn kill(variable: &str, file: &Path) {
    let path = file.as_os_str().as_encoded_bytes();
    let needle = [variable.as_bytes(), b"=", path].concat();
    for search in 0..MAX_SEARCHES {
        let found = processes_with(&needle);
        for pid in &found {
            // It may have ended.
            if let Ok(group) = getpgid(Some(*pid)) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        if found.is_empty() && search > 0 {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// The processes that have this variable, or a path in it, in their environment. A zombie has none.
fn processes_with(variable: &[u8]) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pid = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        // The processes of other users cannot be read.
        let environment = fs::read(entry.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let is_it = |found: &[u8]| {
            let rest = found.strip_prefix(variable);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        variables.any(is_it).then_some(pid)
    };
    entries.flatten().filter_map(pid).collect()
}
