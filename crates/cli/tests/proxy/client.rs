//! A client that says exactly what a test wants, over TLS or without.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use serde_json::Value;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::shared::TIMEOUT;
use crate::shared::nginx::Nginx;

pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A connection without TLS.
pub(crate) fn plain(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// A connection to nginx that asks for a server of this name. It trusts nginx's certificate.
pub(crate) fn tls(nginx: &Nginx, name: &str) -> Box<dyn Stream> {
    let mut roots = RootCertStore::empty();
    roots.add(nginx.certificate.cert.der().clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    Box::new(StreamOwned::new(connection, plain(nginx.addr)))
}

/// A request.
#[derive(Clone)]
pub(crate) struct Request {
    lines: Vec<String>,
    body: String,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            lines: vec![format!("{method} {path} HTTP/1.1")],
            body: String::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name}: {value}"));
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.body = body.to_owned();
        self.header("Content-Length", &body.len().to_string())
    }

    fn write(&self, stream: &mut dyn Write) {
        let head = self.lines.join("\r\n");
        let bytes = format!("{head}\r\n\r\n{}", self.body);
        stream.write_all(bytes.as_bytes()).unwrap();
    }

    /// Sends it and reads the answer to its end.
    pub(crate) fn send(self, stream: impl Stream) -> Answer {
        let mut stream = stream;
        self.header("Connection", "close").write(&mut stream);
        let mut answer = Answer::head(BufReader::new(&mut stream));
        let mut body = Vec::new();
        // A proxy may end TLS without saying so.
        let _ = answer.1.read_to_end(&mut body);
        answer.0.body = String::from_utf8(body).unwrap();
        answer.0
    }

    /// Sends it and leaves the answer's body to be read line by line.
    pub(crate) fn open(self, mut stream: Box<dyn Stream>) -> (Answer, impl BufRead) {
        self.write(&mut stream);
        Answer::head(BufReader::new(stream))
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn head<R: BufRead>(mut lines: R) -> (Self, R) {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = lines.read_line(&mut head).unwrap();
            assert_ne!(read, 0, "no answer: {head:?}");
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body = String::new();
        (Self { status, head, body }, lines)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.body
    }

    /// The object in it, whether it came in chunks or not.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let line = self.body.lines().find(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("{self:?}"));
        serde_json::from_str(line).unwrap()
    }
}
