//! A service of a test: it reads real requests and answers as the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::{Effects, Handler, HandlerError, Message};
use baton_push::{Push, PushBuilder};

/// Longest wait for anything that a test expects.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A request that the service got.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Its line and its headers, as they came.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Which connection it came over, from 1 on.
    pub(crate) connection: usize,
}

impl Seen {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}

/// What the service does with a request.
pub(crate) enum Answer {
    /// Sends these bytes, and waits for the next request.
    Send(Vec<u8>),
    /// Sends these bytes, and hangs up.
    SendAndClose(Vec<u8>),
    /// Sends these bytes, and hangs up when the test calls [`Service::hang_up`].
    SendAndWait(Vec<u8>),
    /// Sends the first bytes, then the second again and again until the client hangs up, each time
    /// after such a pause.
    SendForEver(Vec<u8>, Vec<u8>, Duration),
    /// Sends these bytes, and then nothing more until the client hangs up.
    SendAndHang(Vec<u8>),
}

/// The service. It runs on threads of its own, so a test may block the runtime of the handler.
pub(crate) struct Service {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    closed: Receiver<usize>,
    hang_up: Sender<()>,
}

impl Service {
    /// Answers each request as the function says.
    pub(crate) fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (tell_closed, closed) = channel();
        let (hang_up, wait) = channel();
        let wait = Arc::new(Mutex::new(wait));
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        std::thread::spawn(move || {
            for (at, stream) in listener.incoming().enumerate() {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let (wait, tell_closed) = (Arc::clone(&wait), tell_closed.clone());
                let stream = stream.unwrap();
                std::thread::spawn(move || {
                    serve(stream, at + 1, &log, &*answer, &wait);
                    let _ = tell_closed.send(at + 1);
                });
            }
        });
        Self {
            port,
            seen,
            closed,
            hang_up,
        }
    }

    /// Always the same answer.
    pub(crate) fn always(answer: &str) -> Self {
        let answer = answer.as_bytes().to_vec();
        Self::start(move |_| Answer::Send(answer.clone()))
    }

    /// A handler for it.
    pub(crate) fn push(&self) -> Push {
        self.builder().build().unwrap()
    }

    pub(crate) fn builder(&self) -> PushBuilder {
        Push::to(&format!("http://127.0.0.1:{}/job?x=1", self.port)).unwrap()
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Over which connection each request came.
    pub(crate) fn connections(&self) -> Vec<usize> {
        self.seen().iter().map(|seen| seen.connection).collect()
    }

    /// Hangs up where an answer waits for it. Blocks until it has.
    pub(crate) fn hang_up(&self) {
        self.hang_up.send(()).unwrap();
        self.wait_closed();
    }

    /// Blocks until the service has closed its end of some connection. Returns which.
    pub(crate) fn wait_closed(&self) -> usize {
        self.closed.recv_timeout(TIMEOUT).unwrap()
    }
}

fn serve(
    stream: TcpStream,
    connection: usize,
    log: &Mutex<Vec<Seen>>,
    answer: &(dyn Fn(&Seen) -> Answer + Send + Sync),
    wait: &Mutex<Receiver<()>>,
) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(seen) = read_request(&mut reader, connection) {
        log.lock().unwrap().push(seen.clone());
        match answer(&seen) {
            Answer::Send(bytes) => {
                if writer.write_all(&bytes).is_err() {
                    break;
                }
            }
            Answer::SendAndClose(bytes) => {
                let _ = writer.write_all(&bytes);
                break;
            }
            Answer::SendAndWait(bytes) => {
                let _ = writer.write_all(&bytes);
                let _ = wait.lock().unwrap().recv();
                break;
            }
            Answer::SendForEver(first, next, pause) => {
                let mut sent = writer.write_all(&first);
                while sent.is_ok() {
                    std::thread::sleep(pause);
                    sent = writer.write_all(&next);
                }
                break;
            }
            Answer::SendAndHang(bytes) => {
                let _ = writer.write_all(&bytes);
                let _ = reader.read_to_end(&mut Vec::new());
                break;
            }
        }
    }
}

/// Reads a request; none if the client hung up.
pub(crate) fn read_request(reader: &mut impl BufRead, connection: usize) -> Option<Seen> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut seen = Seen {
        head,
        body: Vec::new(),
        connection,
    };
    let length = seen.header("content-length").map(|n| n.parse().unwrap());
    seen.body.resize(length.unwrap_or(0), 0);
    reader.read_exact(&mut seen.body).ok()?;
    Some(seen)
}

/// A response with this status and body.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}")
}

/// How a message ended, in words.
pub(crate) async fn handle(push: &Push, message: Message<'_>) -> (String, Effects) {
    let mut effects = Effects::default();
    let handled = tokio::time::timeout(TIMEOUT, push.handle(message, &mut effects));
    let outcome = match handled.await.unwrap() {
        Ok(()) => "done".to_owned(),
        Err(error) => outcome(&error),
    };
    (outcome, effects)
}

/// How the first message ended.
pub(crate) async fn handle_one(push: &Push) -> String {
    handle(push, Message::new(1, b"text")).await.0
}

/// What becomes of a message, and why.
fn outcome(error: &HandlerError) -> String {
    let debug = format!("{error:?}");
    let kinds = [
        ("Reject", "rejected"),
        ("GiveBack", "unavailable"),
        ("after: None", "later"),
        ("after: Some", "later, at the service's time"),
    ];
    let kind = kinds.iter().find(|(mark, _)| debug.contains(mark)).unwrap();
    format!("{}: {}", kind.1, error.reason())
}
