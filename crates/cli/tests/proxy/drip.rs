//! More connections than there are places, which send their requests byte by byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{Request, plain};
use crate::shared::page::{Page, TOKEN};

/// Connections that drip at any time, from four threads.
const DRIPS: usize = 1000;
const THREADS: usize = 4;
/// Long for a busy machine; a Prometheus gives up after ten seconds.
const SOON: Duration = Duration::from_secs(5);

/// What drips: a login whose body never ends.
const HEAD: &[u8] = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\
    Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=";

#[test]
fn probes_and_people_are_answered_while_a_thousand_connections_drip() {
    allow_files(2 * DRIPS as u64);
    let server = PrivateServer::builder().start().unwrap();
    let page = Page::with_token(&server, &[]);
    let (over, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| drip(page.addr, &over, &opened));
        }
        let _end = Defer(|| over.store(true, Ordering::Relaxed));
        let deadline = Instant::now() + 12 * SOON;
        // Each was tried at least once; a server may have closed some by now.
        while opened.load(Ordering::Relaxed) < DRIPS {
            assert!(Instant::now() < deadline, "the server accepts no more");
            thread::sleep(Duration::from_millis(5));
        }
        for round in 0..10 {
            for path in ["/healthz", "/readyz", "/metrics", "/login"] {
                let before = Instant::now();
                let answer = Request::new("GET", path)
                    .header("Host", "localhost")
                    .header("Authorization", &format!("Bearer {TOKEN}"))
                    .send(plain(page.addr));
                // A fleet of no nodes may be unhealthy; it must only be said.
                assert!(matches!(answer.status, 200 | 303 | 503), "{answer:?}");
                let took = before.elapsed();
                assert!(took < SOON, "{path} in round {round}: {took:?}");
            }
        }
    });
}

/// Keeps its share of the connections dripping. Each that the server has closed is opened again,
/// once per second.
fn drip(addr: SocketAddr, over: &AtomicBool, opened: &AtomicUsize) {
    let mut streams: Vec<TcpStream> = Vec::new();
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        streams.retain_mut(|stream| {
            let mut byte = [0];
            let read = stream.read(&mut byte);
            read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
                && stream.write_all(b"x").is_ok()
        });
        if Instant::now() >= next {
            next = Instant::now() + Duration::from_secs(1);
            for _ in streams.len()..DRIPS / THREADS {
                opened.fetch_add(1, Ordering::Relaxed);
                // A server that accepts no more: what is open has to do.
                let Ok(mut stream) = TcpStream::connect_timeout(&addr, SOON) else {
                    break;
                };
                if stream.write_all(HEAD).is_ok() && stream.set_nonblocking(true).is_ok() {
                    streams.push(stream);
                }
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Lets this process have so many files open.
fn allow_files(files: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < files) {
        let current = Some(limit.maximum.map_or(files, |most| most.min(files)));
        let raised = Rlimit { current, ..limit };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
}

/// Does something at the end of a block, also when a test fails in it.
struct Defer<F: FnMut()>(F);

impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
