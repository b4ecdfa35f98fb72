//! A connection for raw commands.
//!
//! The test reads the whole state after every call. Through the client library that would take more
//! than half of the test's time, because its parser is slow in a debug build.

use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Max wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    Array(Vec<Value>),
}

/// Encoded commands.
pub(crate) struct Request {
    bytes: Vec<u8>,
    commands: usize,
}

impl From<&redis::Pipeline> for Request {
    fn from(pipe: &redis::Pipeline) -> Self {
        Self {
            bytes: pipe.get_packed_pipeline(),
            commands: pipe.len(),
        }
    }
}

/// The connection. It blocks its thread.
pub(crate) struct RawConnection {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl RawConnection {
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self {
            stream: BufReader::new(stream),
            line: Vec::new(),
        })
    }

    /// Sends commands and reads an answer to each.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Vec<Value>> {
        self.stream.get_mut().write_all(&request.bytes)?;
        (0..request.commands).map(|_| self.read()).collect()
    }

    fn read(&mut self) -> Result<Value> {
        self.line.clear();
        self.stream.read_until(b'\n', &mut self.line)?;
        let strange = |line: &[u8]| Error::other(line.escape_ascii().to_string());
        let (kind, rest) = match self.line.trim_ascii_end() {
            [kind, rest @ ..] => (*kind, rest),
            [] => return Err(Error::other("the server closed the connection")),
        };
        if kind == b'+' {
            return Ok(Value::Text(rest.to_vec()));
        }
        let number = str::from_utf8(rest).ok().and_then(|rest| rest.parse().ok());
        let number: i64 = number.ok_or_else(|| strange(&self.line))?;
        match (kind, usize::try_from(number)) {
            (b':', _) => Ok(Value::Int(number)),
            (b'$' | b'*', Err(_)) => Ok(Value::Nil),
            (b'$', Ok(length)) => {
                let mut text = vec![0; length + 2];
                self.stream.read_exact(&mut text)?;
                text.truncate(length);
                Ok(Value::Text(text))
            }
            (b'*', Ok(length)) => {
                let values = (0..length).map(|_| self.read());
                Ok(Value::Array(values.collect::<Result<_>>()?))
            }
            _ => Err(strange(&self.line)),
        }
    }
}
