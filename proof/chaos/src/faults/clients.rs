//! What an operator of Redis may do to its clients.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::stage::Stage;

/// A command that hurts by itself.
pub(super) struct Command(pub(super) &'static [&'static str]);

impl Fault for Command {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let mut command = redis::Cmd::new();
        self.0.iter().for_each(|word| {
            command.arg(*word);
        });
        let answer: redis::Value = command.query(&mut stage.eye.redis()?)?;
        if let redis::Value::Int(clients) = answer {
            note.text = format!("{clients} connections");
        }
        Ok(())
    }
}

/// Redis answers nobody for a while, but lives.
pub(super) struct Pause(pub(super) Duration);

impl Fault for Pause {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        let mut command = redis::cmd("CLIENT");
        command.arg("PAUSE").arg(self.0.as_millis() as u64);
        Ok(command.exec(&mut stage.eye.redis()?)?)
    }
}

/// Redis does nothing at all for a while.
pub(super) struct Sleep {
    time: Duration,
    // Open until the fault is lifted, so that the command is not dropped with it.
    asked: Option<TcpStream>,
}

impl Sleep {
    pub(super) fn new(time: Duration) -> Self {
        Self { time, asked: None }
    }
}

impl Fault for Sleep {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        let port = stage.server.port().context("the server has no port")?;
        let mut server = TcpStream::connect(("127.0.0.1", port))?;
        // Nobody waits for the answer, which comes when it is over.
        write!(server, "DEBUG SLEEP {}\r\n", self.time.as_secs_f64())?;
        self.asked = Some(server);
        Ok(())
    }
}
