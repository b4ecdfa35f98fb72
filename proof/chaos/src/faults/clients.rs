//! Commands with which an operator of Redis hurts its clients.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::arena::Arena;

/// One command.
pub(super) struct Command(pub(super) &'static [&'static str]);

impl Fault for Command {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let mut command = redis::Cmd::new();
        self.0.iter().for_each(|word| {
            command.arg(*word);
        });
        let answer: redis::Value = command.query(&mut arena.observer.redis()?)?;
        if let redis::Value::Int(clients) = answer {
            note.text = format!("{clients} connections");
        }
        Ok(())
    }
}

/// Redis answers no client for a while.
pub(super) struct Pause(pub(super) Duration);

impl Fault for Pause {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let mut command = redis::cmd("CLIENT");
        command.arg("PAUSE").arg(self.0.as_millis() as u64);
        Ok(command.exec(&mut arena.observer.redis()?)?)
    }
}

/// Redis executes nothing for a while.
pub(super) struct Sleep {
    time: Duration,
    // A closed connection would take the command with it, so it stays open.
    asked: Option<TcpStream>,
}

impl Sleep {
    pub(super) fn new(time: Duration) -> Self {
        Self { time, asked: None }
    }
}

impl Fault for Sleep {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let port = arena.server()?.port().context("the server has no port")?;
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        // The answer comes at the end of the sleep; the run does not wait for it.
        write!(server, "DEBUG SLEEP {}\r\n", self.time.as_secs_f64())?;
        self.asked = Some(server);
        Ok(())
    }
}
