//! The start of the embedded server's process.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::{EmbeddedServer, LOADING_TIMEOUT, POLL, Started, folder};
use crate::error::{Error, is_port_taken, log_tail};
use crate::probe::{Answer, Identity};

/// How long a start that lost its port waits for an answer of the program that holds it.
const RIVAL_TIMEOUT: Duration = Duration::from_secs(2);

impl EmbeddedServer {
    /// Runs the program, which leaves this process's session by itself, and waits until it or
    /// another server answers.
    pub(super) fn launch(&self, program: &Path, folder: &Path) -> Result<Started, Error> {
        // A pid file that is there belongs to a server that is gone.
        let _ = fs::remove_file(folder.join(folder::PID_FILE));
        folder::prepare_password(folder)?;
        let launched = self.run(program, folder);
        if !matches!(launched, Ok(Started::Here)) && self.pid_from_file(folder).is_none() {
            folder::forget_password(folder);
        }
        launched
    }

    fn run(&self, program: &Path, folder: &Path) -> Result<Started, Error> {
        let log = folder.join("server.log");
        let log_start = fs::metadata(&log)
            .map(|metadata| metadata.len())
            .unwrap_or(0);
        let run = Command::new(program)
            .args(self.arguments(folder, &log))
            .stdin(Stdio::null())
            .output()
            .map_err(Error::io(format!("run {}", program.display())))?;
        if !run.status.success() {
            let mut output = String::from_utf8_lossy(&run.stdout).into_owned();
            output.push_str(&String::from_utf8_lossy(&run.stderr));
            return Err(Error::EndedEarly {
                log: output.trim().to_owned(),
            });
        }
        self.wait_for_answer(folder, || log_tail(&log, log_start))
    }

    /// Waits until the server that was just started answers, or until another one does.
    fn wait_for_answer(
        &self,
        folder: &Path,
        log_tail: impl Fn() -> String,
    ) -> Result<Started, Error> {
        let deadline = Instant::now() + self.timeout;
        let rival_deadline = Instant::now() + RIVAL_TIMEOUT;
        loop {
            let answer = self.probe();
            let is_gone = folder::read_pid(folder).is_some_and(|pid| !self.is_ours(pid));
            let is_late = Instant::now() > rival_deadline;
            match answer {
                Answer::Ready(Identity { pid: Some(pid), .. }) if self.is_ours(pid) => {
                    return Ok(Started::Here);
                }
                Answer::Ready(Identity { pid: Some(_), .. }) => return Ok(Started::Joined),
                // It wants another password, or our server has yet to write its pid.
                Answer::Ready(_) if is_gone || is_late => return Ok(Started::Joined),
                Answer::Ready(_) => {}
                Answer::Loading if Instant::now() < deadline + LOADING_TIMEOUT => {}
                // Our server is gone and no other listens, so none will answer.
                Answer::Refused if is_gone => return Err(Error::ended(self.port, log_tail())),
                // Another program holds the port: a server that starts would answer by now. Redis
                // 7.0 ends before it has written its pid.
                Answer::NotRedis if is_late && (is_gone || is_port_taken(&log_tail())) => {
                    return Err(Error::ended(self.port, log_tail()));
                }
                _ if Instant::now() > deadline && self.pid_from_file(folder).is_none() => {
                    return Err(Error::ended(self.port, log_tail()));
                }
                _ if Instant::now() > deadline => {
                    return Err(Error::NoAnswer {
                        seconds: self.timeout.as_secs(),
                        log: log_tail(),
                    });
                }
                _ => {}
            }
            thread::sleep(POLL);
        }
    }

    /// The server's settings. They are arguments, so that the command line names the folder and
    /// [`EmbeddedServer::is_ours`] can tell it from any other server. Only the password is in a
    /// file, because every user can read a command line.
    fn arguments(&self, folder: &Path, log: &Path) -> Vec<OsString> {
        let port = self.port.to_string();
        let pid_file = folder.join(folder::PID_FILE);
        let config = folder.join(folder::CONFIG_FILE);
        let settings: [(&str, &OsStr); 13] = [
            ("--port", port.as_ref()),
            ("--bind", "127.0.0.1".as_ref()),
            ("--protected-mode", "yes".as_ref()),
            ("--daemonize", "yes".as_ref()),
            ("--set-proc-title", "no".as_ref()),
            ("--dir", folder.as_ref()),
            ("--pidfile", pid_file.as_ref()),
            ("--logfile", log.as_ref()),
            // The append-only file keeps everything; snapshots beside it would only cost.
            ("--save", "".as_ref()),
            ("--appendonly", "yes".as_ref()),
            ("--appendfsync", "everysec".as_ref()),
            // Plain commands instead of a snapshot at the file's head: another version, or the
            // other of Valkey and Redis, can read it when the installed program changes.
            ("--aof-use-rdb-preamble", "no".as_ref()),
            // A server whose memory is full must refuse new messages, not drop old ones.
            ("--maxmemory-policy", "noeviction".as_ref()),
        ];
        let settings = settings
            .iter()
            .flat_map(|(name, value)| [OsString::from(name), value.into()]);
        std::iter::once(config.into()).chain(settings).collect()
    }
}
