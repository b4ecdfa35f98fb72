//! A probe of an address: whether a server answers, and which one it is.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::reply::Reply;

/// A healthy server on the same machine answers within a millisecond; a busy machine takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// Max bytes of a reply that are read.
const MAX_REPLY_BYTES: u64 = 64 * 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A port on 127.0.0.1.
    Tcp(u16),
    /// The path of a socket.
    Unix(PathBuf),
}

/// With what this process logs in.
#[derive(Debug)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl Login {
    /// The login of a server that knows only a password.
    pub(crate) fn of_default_user(password: String) -> Self {
        let user = "default".to_owned();
        Self { user, password }
    }
}

/// The answer of an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No program listens.
    Refused,
    /// A program listens, but it gives no answer that a Redis-compatible server would give.
    NotRedis,
    /// The server reads its data from disk.
    Loading,
    /// The server answers.
    Ready(Identity),
}

/// What a server says about itself; nothing if it wants a password first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: Option<u32>,
    pub(crate) program: Option<PathBuf>,
}

/// What listens on a port of 127.0.0.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum PortUse {
    /// A Redis-compatible server: it answers, wants a password first, or still reads its data.
    Server,
    /// A program that gives no answer within a second, or none that a server would give.
    OtherProgram,
    /// No program.
    Free,
}

/// Finds out what listens on this port of 127.0.0.1.
pub fn probe_port(port: u16) -> PortUse {
    match Address::Tcp(port).probe(None) {
        Answer::Loading | Answer::Ready(_) => PortUse::Server,
        Answer::NotRedis => PortUse::OtherProgram,
        Answer::Refused => PortUse::Free,
    }
}

impl Address {
    /// Asks for a sign of life and for the server's identity.
    pub(crate) fn probe(&self, login: Option<&Login>) -> Answer {
        self.connect(TIMEOUT)
            .and_then(|stream| ask(stream, login))
            .unwrap_or_else(|error| match error.kind() {
                ErrorKind::ConnectionRefused | ErrorKind::NotFound => Answer::Refused,
                _ => Answer::NotRedis,
            })
    }

    /// Sends one command to a server of ours, and returns its answer.
    pub(crate) fn command(
        &self,
        login: Option<&Login>,
        words: &[&str],
        timeout: Duration,
    ) -> io::Result<Reply> {
        let mut stream = BufReader::new(self.connect(timeout)?);
        log_in(&mut stream, login)?;
        send(stream.get_mut(), words)?;
        Reply::read(&mut stream)
    }

    fn connect(&self, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        match self {
            Address::Tcp(port) => {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
                let stream = TcpStream::connect_timeout(&address, timeout)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Box::new(stream))
            }
            Address::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// A connection over a port or a socket.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

fn ask(stream: impl Read + Write, login: Option<&Login>) -> io::Result<Answer> {
    let mut stream = BufReader::new(stream);
    log_in(&mut stream, login)?;
    send(stream.get_mut(), &["PING"])?;
    let pong = read_line(&mut stream)?;
    if pong.starts_with("-LOADING") {
        return Ok(Answer::Loading);
    }
    if pong.starts_with('-') {
        return Ok(Answer::Ready(Identity::default()));
    }
    if pong != "+PONG" {
        return Ok(Answer::NotRedis);
    }
    send(stream.get_mut(), &["INFO", "server"])?;
    Ok(Answer::Ready(read_identity(&mut stream)?))
}

fn log_in(stream: &mut BufReader<impl Read + Write>, login: Option<&Login>) -> io::Result<()> {
    let Some(Login { user, password }) = login else {
        return Ok(());
    };
    send(stream.get_mut(), &["AUTH", user, password])?;
    // Its answer does not matter: the next command fails if the password is wrong.
    read_line(stream).map(drop)
}

fn read_identity(stream: &mut impl BufRead) -> io::Result<Identity> {
    let mut identity = Identity::default();
    let Some(info) = read_info(stream)? else {
        return Ok(identity);
    };
    for line in info.lines() {
        match line.split_once(':') {
            Some(("process_id", pid)) => identity.pid = pid.parse().ok(),
            Some(("executable", path)) => identity.program = Some(PathBuf::from(path)),
            _ => {}
        }
    }
    Ok(identity)
}

/// The answer of INFO; none if the server restricts it.
fn read_info(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    // The reply's first line is `$length`, or an error.
    let length = read_line(stream)?
        .strip_prefix('$')
        .and_then(|length| length.parse().ok());
    let Some(length) = length else {
        return Ok(None);
    };
    let mut info = String::new();
    stream
        .take(u64::min(length, MAX_REPLY_BYTES))
        .read_to_string(&mut info)?;
    Ok(Some(info))
}

fn send(stream: &mut impl Write, words: &[&str]) -> io::Result<()> {
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(command.as_bytes())
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.take(MAX_REPLY_BYTES).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that sends these replies, one for each command, and hangs up.
    fn scripted(replies: &'static [&'static str]) -> Address {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for reply in replies {
                let _ = stream.read(&mut [0; 1024]).unwrap();
                stream.write_all(reply.as_bytes()).unwrap();
            }
        });
        Address::Tcp(port)
    }

    #[test]
    fn a_server_that_answers_tells_its_pid_and_program() {
        const INFO: &str =
            "$60\r\n# Server\r\nprocess_id:42\r\nexecutable:/usr/bin/valkey-server\r\n\r\n";
        assert_eq!(
            scripted(&["+PONG\r\n", INFO]).probe(None),
            Answer::Ready(Identity {
                pid: Some(42),
                program: Some(PathBuf::from("/usr/bin/valkey-server")),
            })
        );
    }

    #[test]
    fn a_server_that_wants_a_password_answers_without_its_pid() {
        let answer = scripted(&["-NOAUTH Authentication required.\r\n"]).probe(None);
        assert_eq!(answer, Answer::Ready(Identity::default()));
    }

    #[test]
    fn a_server_that_loads_is_not_ready_yet() {
        let answer = scripted(&["-LOADING The server is loading the dataset in memory\r\n"]);
        assert_eq!(answer.probe(None), Answer::Loading);
    }

    #[test]
    fn a_program_that_is_not_a_redis_server_is_told_apart() {
        assert_eq!(
            scripted(&["HTTP/1.1 400 Bad Request\r\n"]).probe(None),
            Answer::NotRedis
        );
        assert_eq!(scripted(&[]).probe(None), Answer::NotRedis);
    }

    #[test]
    fn where_no_program_listens_the_connection_is_refused() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert_eq!(Address::Tcp(port).probe(None), Answer::Refused);
        assert_eq!(
            Address::Unix(PathBuf::from("/no/such/socket")).probe(None),
            Answer::Refused
        );
        assert_eq!(probe_port(port), PortUse::Free);
    }
}
