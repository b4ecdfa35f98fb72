//! An HTTP client that sends exactly the bytes that a test asks for.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use serde_json::Value;

use super::TIMEOUT;

/// A request to send.
#[derive(Clone)]
pub(crate) struct Request {
    addr: SocketAddr,
    line: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(super) fn new(addr: SocketAddr, host: String, method: &str, path: &str) -> Self {
        Self {
            addr,
            line: format!("{method} {path} HTTP/1.1"),
            host: Some(host),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Removes a header.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(given, _)| given != name);
        self
    }

    pub(crate) fn host(mut self, host: Option<&str>) -> Self {
        self.host = host.map(str::to_owned);
        self
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Sends it and reads the whole answer.
    pub(crate) fn send(self) -> Answer {
        let mut stream = self.header("Connection", "close").start();
        let mut bytes = Vec::new();
        // A server that refuses a body does not read it, so the connection may end with a reset.
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }

    /// Sends it and does not read the answer.
    pub(crate) fn start(self) -> TcpStream {
        let mut head = format!("{}\r\n", self.line);
        if let Some(host) = &self.host {
            head += &format!("Host: {host}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if !self.body.is_empty() {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        let mut stream = connect(self.addr);
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        let _ = stream.write_all(&self.body);
        stream
    }
}

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// The server's answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {:?}", bytes.escape_ascii()));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let (status, headers) = parse_head(head.lines());
        let mut answer = Self {
            status,
            headers,
            body: bytes[end + 4..].to_vec(),
        };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = unchunk(&answer.body);
        }
        answer
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The reason of a refusal.
    pub(crate) fn error(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["error"].as_str().unwrap().to_owned()
    }
}

fn parse_head<'a>(mut lines: impl Iterator<Item = &'a str>) -> (u16, Vec<(String, String)>) {
    let first = lines.next().unwrap();
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_ascii_lowercase(), value.to_owned())
    });
    (status, headers.collect())
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&bytes[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
}

/// A stream of server-sent events.
pub(crate) struct Events {
    lines: BufReader<TcpStream>,
    pub(crate) status: u16,
}

impl Events {
    pub(crate) fn of(request: Request) -> Self {
        let mut lines = BufReader::new(request.start());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(lines.read_line(&mut head).unwrap(), 0, "{head}");
        }
        let (status, _) = parse_head(head.trim_end().lines());
        Self { lines, status }
    }

    /// The next event; none at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// The next event that fits.
    pub(crate) fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let event = self.next().unwrap();
            if fits(&event) {
                return event;
            }
            assert!(Instant::now() < deadline, "{event}");
        }
    }
}
