//! Processes of the operating system: their command lines, and signals to them.

use std::io;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};

/// The command line of a living process; `None` for one that has ended, a zombie included.
pub(crate) fn command_line(pid: u32) -> Option<String> {
    let bytes = if cfg!(target_os = "linux") {
        std::fs::read(format!("/proc/{pid}/cmdline")).ok()?
    } else {
        let pid = pid.to_string();
        Command::new("ps")
            .args(["-ww", "-o", "command=", "-p", &pid])
            .output()
            .ok()?
            .stdout
    };
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether this process may send signals to that one: both belong to the same user, or this user
/// is the administrator.
pub(crate) fn can_signal(pid: u32) -> bool {
    as_pid(pid).is_ok_and(|pid| test_kill_process(pid).is_ok())
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process(as_pid(pid)?, signal)?)
}

/// Sends a signal to every process of the group that `leader` leads.
pub(crate) fn signal_group(leader: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process_group(as_pid(leader)?, signal)?)
}

fn as_pid(pid: u32) -> io::Result<Pid> {
    i32::try_from(pid)
        .ok()
        .filter(|pid| *pid > 0)
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    fn wait_for_command_line(pid: u32, expected: Option<&str>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while command_line(pid).as_deref() != expected {
            assert!(Instant::now() < deadline, "{:?}", command_line(pid));
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_living_process_has_a_command_line_and_a_zombie_has_none() {
        // It ends with its input, so with this test, whatever happens.
        let mut child = Command::new("cat")
            .arg("-")
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_command_line(child.id(), Some("cat -"));

        child.kill().unwrap();
        wait_for_command_line(child.id(), None);
        child.wait().unwrap();
        assert_eq!(command_line(child.id()), None);
    }
}
