//! The service of a run with `--handler push`: answers each message, well or badly.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{Choices, EFFECT, Entry, Fate, Mode, Shared};

/// The type of a body with effects.
const EFFECTS: &str = "application/x-baton-effects";
/// Pause between the lines of a slow body without end.
const DRIP: Duration = Duration::from_millis(50);
/// Lines in a chunk of a fast one.
const CHUNK_LINES: usize = 1000;

/// Serves until this process is killed.
pub fn serve(folder: &Path, addr: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(addr)?;
    loop {
        let (stream, _) = listener.accept()?;
        let shared = Shared::open(folder);
        thread::spawn(move || {
            // A client that is gone gets no answer.
            let _ = attend(&shared, stream);
        });
    }
}

/// The part of a request that decides its answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    key: String,
    attempt: String,
    work: Duration,
}

/// Answers the requests of one connection.
fn attend(shared: &Shared, stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read(&mut reader)? {
        answer(shared, &request, &stream)?;
    }
    Ok(())
}

/// Reads a request with its body; `None` at the end of the connection.
fn read(reader: &mut BufReader<TcpStream>) -> Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).context("no path")?;
    let work_ms = path.split_once("work_ms=").context("no time to work")?.1;
    let mut request = Request {
        work: Duration::from_millis(work_ms.parse()?),
        ..Request::default()
    };
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse()?,
            "idempotency-key" => request.key = value.to_owned(),
            "baton-attempt" => request.attempt = value.to_owned(),
            _ => {}
        }
    }
    io::copy(&mut reader.take(length), &mut io::sink())?;
    Ok(Some(request))
}

fn answer(shared: &Shared, request: &Request, mut stream: &TcpStream) -> Result<()> {
    let mut choices = Choices::of(&request.key, &request.attempt);
    let mode = shared.mode();
    if mode != Mode::Well {
        shared.tell(&Entry::Hit)?;
    }
    let text = "text/plain";
    let (status, kind, body) = match (mode, choices.fate) {
        (Mode::Error, _) => ("500 Internal Server Error", EFFECTS, EFFECT),
        // Until the client goes.
        (Mode::Hang, _) => return Ok(stream.read_exact(&mut [0])?),
        (Mode::Endless, _) => match choices.rng.chance(50) {
            true => return endless(stream, CHUNK_LINES, Duration::ZERO),
            false => return endless(stream, 1, DRIP),
        },
        (Mode::Well, Fate::Done) => ("200 OK", EFFECTS, EFFECT),
        // Only the effects of a message that is done may count.
        (Mode::Well, Fate::Later) => ("503 Service Unavailable", EFFECTS, EFFECT),
        (Mode::Well, Fate::Rejected) => ("422 Unprocessable Content", text, "not this one"),
    };
    thread::sleep(request.work);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    Ok(stream.write_all(head.as_bytes())?)
}

/// Sends a body of effects without end, until the client goes.
fn endless(mut stream: &TcpStream, lines: usize, pause: Duration) -> Result<()> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {EFFECTS}\r\nTransfer-Encoding: chunked\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let body = EFFECT.repeat(lines);
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    loop {
        stream.write_all(chunk.as_bytes())?;
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A service in this process, and a connection to it.
    fn service() -> (tempfile::TempDir, Shared, TcpStream) {
        let folder = tempfile::tempdir().unwrap();
        let shared = Shared::create(folder.path().join("shared")).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        let of_service = shared.clone();
        thread::spawn(move || attend(&of_service, stream));
        (folder, shared, client)
    }

    fn post(mut client: &TcpStream, key: &str) {
        let request = format!(
            "POST /job?work_ms=1 HTTP/1.1\r\nhost: x\r\nidempotency-key: {key}\r\n\
             Baton-Attempt: 1\r\nContent-Length: 3\r\n\r\nabc"
        );
        client.write_all(request.as_bytes()).unwrap();
    }

    /// Reads bytes of the answer, at most this many.
    fn read(mut client: &TcpStream, max: usize) -> String {
        let mut bytes = vec![0; max];
        let count = client.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    /// A key whose first attempt has this fate.
    fn key(fate: Fate) -> String {
        let keys = (0..1000).map(|seq| format!("k-{seq}"));
        let mut keys = keys.filter(|key| Choices::of(key, "1").fate == fate);
        keys.next().unwrap()
    }

    #[test]
    fn each_fate_has_its_status_on_one_connection() {
        let (_folder, shared, client) = service();
        for (fate, status) in [
            (Fate::Done, "200 "),
            (Fate::Later, "503 "),
            (Fate::Rejected, "422 "),
        ] {
            post(&client, &key(fate));
            let answer = read(&client, 1000);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{answer}"
            );
        }
        assert_eq!(shared.journal(), []);
    }

    #[test]
    fn an_error_is_told_in_the_journal_and_the_connection_lives_on() {
        let (_folder, shared, client) = service();
        shared.set_mode(Mode::Error).unwrap();
        post(&client, &key(Fate::Done));
        assert!(read(&client, 1000).starts_with("HTTP/1.1 500 "));
        shared.set_mode(Mode::Well).unwrap();
        post(&client, &key(Fate::Done));
        assert!(read(&client, 1000).ends_with(EFFECT));
        assert_eq!(shared.journal(), [Entry::Hit]);
    }

    #[test]
    fn a_hanging_service_answers_nothing_and_an_endless_one_never_stops() {
        let (_folder, shared, client) = service();
        shared.set_mode(Mode::Hang).unwrap();
        post(&client, "k");
        client
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let error = (&client).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);

        let (_folder, shared, client) = service();
        shared.set_mode(Mode::Endless).unwrap();
        post(&client, "k");
        for _ in 0..10 {
            assert_ne!(read(&client, 40), "");
        }
    }
}
