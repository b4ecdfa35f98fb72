//! The commands that clients send to a server, as `MONITOR` shows them. The statistics of a server do not
//! say which commands a client sent and which a script ran.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use baton_server::PrivateServer;

/// How often each command came.
#[derive(Debug, Default, PartialEq)]
pub(super) struct SentCommands {
    /// By clients: each command, with the kind of its first key if it runs a script.
    pub(super) by_clients: BTreeMap<String, u64>,
    /// By scripts.
    pub(super) by_scripts: u64,
}

impl SentCommands {
    /// Watches a server for a while.
    pub(super) fn watch(server: &PrivateServer, window: Duration) -> Result<Self> {
        let port = server.port().context("the server has no port")?;
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(stream);
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line)?;
        ensure!(line.starts_with(b"+OK"), "the server refuses MONITOR");
        let (mut commands, deadline) = (Self::default(), Instant::now() + window);
        line.clear();
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            // Zero would be no timeout.
            let timeout = left.max(Duration::from_millis(1));
            lines.get_ref().set_read_timeout(Some(timeout))?;
            match lines.read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(_) => {
                    commands.add(&String::from_utf8_lossy(&line));
                    line.clear();
                }
                Err(error)
                    if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) =>
                {
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(commands)
    }

    /// Adds a line: `+1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" "…" "2" "key" …`. A script has no
    /// address.
    fn add(&mut self, line: &str) {
        let Some((head, command)) = line.split_once("] ") else {
            return;
        };
        if !head.contains(':') {
            self.by_scripts += 1;
            return;
        }
        let words: Vec<&str> = command.trim().trim_matches('"').split("\" \"").collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let name = word(0).to_lowercase();
        let name = match name.as_str() {
            "evalsha" | "eval" => {
                let key = word(3).rsplit(':').next().unwrap_or_default();
                format!("{name} …:{key}")
            }
            "cluster" | "client" | "script" => format!("{name} {}", word(1).to_lowercase()),
            _ => name,
        };
        *self.by_clients.entry(name).or_default() += 1;
    }

    /// So many of the commands that clients sent most often.
    pub(super) fn most_frequent(&self, count: usize) -> Vec<(&str, u64)> {
        let commands = self.by_clients.iter();
        let mut commands: Vec<_> = commands
            .map(|(name, sent)| (name.as_str(), *sent))
            .collect();
        commands.sort_by_key(|(_, sent)| std::cmp::Reverse(*sent));
        commands.truncate(count);
        commands
    }

    /// What several servers saw.
    pub(super) fn sum(all: impl IntoIterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        for one in all {
            sum.by_scripts += one.by_scripts;
            for (name, count) in one.by_clients {
                *sum.by_clients.entry(name).or_default() += count;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_clients_are_told_from_those_of_scripts() {
        let mut commands = SentCommands::default();
        for line in [
            "+1.2 [0 127.0.0.1:50000] \"EVALSHA\" \"ab\" \"1\" \"baton:{f:0}:generator\" \"x\"\r\n",
            "+1.2 [0 lua] \"HGET\" \"baton:{f:0}:generator\" \"node\"\r\n",
            "+1.2 [0 127.0.0.1:50000] \"PING\"\r\n",
            "+1.2 [0 127.0.0.1:50001] \"CLUSTER\" \"SLOTS\"\r\n",
        ] {
            commands.add(line);
        }
        let by_clients = ["cluster slots", "evalsha …:generator", "ping"];
        let by_clients = by_clients.map(|name| (name.to_owned(), 1));
        let expected = SentCommands {
            by_clients: by_clients.into(),
            by_scripts: 1,
        };
        assert_eq!(commands, expected);
    }
}
