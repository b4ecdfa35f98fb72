//! The service that handles the lines: it answers each with an effect that writes the line into Redis.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context, Result};

use super::orders::IMPORTED;

/// A service on threads of this process. They end with it.
pub(super) struct OrderService {
    addr: SocketAddr,
    handled: Arc<AtomicU64>,
}

impl OrderService {
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let service = Self {
            addr: listener.local_addr()?,
            handled: Arc::default(),
        };
        let handled = Arc::clone(&service.handled);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let handled = Arc::clone(&handled);
                thread::spawn(move || {
                    // A node that is dead gets no answer.
                    let _ = attend(stream, &handled);
                });
            }
        });
        Ok(service)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/order", self.addr)
    }

    /// How many lines it was given, those of the dead included.
    pub(super) fn handled(&self) -> u64 {
        self.handled.load(Ordering::Relaxed)
    }
}

/// Answers the requests of one connection.
fn attend(stream: TcpStream, handled: &AtomicU64) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(line) = read(&mut reader)? {
        handled.fetch_add(1, Ordering::Relaxed);
        let effect = serde_json::to_string(&["RPUSH", IMPORTED, &line])? + "\n";
        let length = effect.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-baton-effects\r\n\
             Content-Length: {length}\r\n\r\n{effect}"
        );
        (&stream).write_all(answer.as_bytes())?;
    }
    Ok(())
}

/// The body of the next request; `None` at the end of the connection.
fn read(reader: &mut BufReader<TcpStream>) -> Result<Option<String>> {
    let (mut line, mut length) = (String::new(), None);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if line == "\r\n" {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = Some(value.trim_end().parse()?);
        }
    }
    let mut body = vec![0; length.context("no length")?];
    reader.read_exact(&mut body)?;
    Ok(Some(String::from_utf8(body)?))
}
