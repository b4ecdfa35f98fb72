//! A page on a port of its own, and a client that says exactly what it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use baton::Inspector;
use baton::inspect::{Limits, Meter, Snapshot, Watch};
use baton::{FailedMessage, FleetName, Target};
use baton_protocol::Keys;
use baton_protocol::record;
use baton_server::PrivateServer;
use baton_web::{Listener, Options, OwnNode};
use redis::Commands;
use serde_json::Value;
use tokio::sync::oneshot;

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Any port of this machine.
pub(crate) const ANY: &str = "127.0.0.1:0";
/// The token of a page that has one.
pub(crate) const TOKEN: &str = "the token of the tests";

/// One server for all tests that do not stop it; each has a fleet of its own.
static SERVER: LazyLock<PrivateServer> = LazyLock::new(start);

/// A server for a test that stops it.
pub(crate) fn start() -> PrivateServer {
    PrivateServer::builder().start().unwrap()
}

/// A page of a fleet that no other test knows. It ends when it is dropped.
pub(crate) struct Site {
    pub(crate) addr: SocketAddr,
    pub(crate) fleet: FleetName,
    pub(crate) keys: Keys,
    pub(crate) url: String,
    redis: Mutex<redis::Connection>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Site {
    /// Open to all, and only showing.
    pub(crate) fn open() -> Self {
        Self::with(Options::default())
    }

    /// Only for those who know [`TOKEN`]; they may act.
    pub(crate) fn locked() -> Self {
        Self::with(Options {
            token: Some(TOKEN.to_owned()),
            allow_actions: true,
            ..Options::default()
        })
    }

    /// Open to all, who may act.
    pub(crate) fn acting() -> Self {
        Self::with(Options {
            allow_actions: true,
            ..Options::default()
        })
    }

    pub(crate) fn with(options: Options) -> Self {
        Self::on(&SERVER.url(), ANY, options)
    }

    pub(crate) fn on(url: &str, addr: &str, options: Options) -> Self {
        Self::serve(
            url,
            addr,
            Duration::from_secs(1),
            async |listener, watch| {
                listener.page(watch, options).await.unwrap();
            },
        )
    }

    /// The page of a fleet that another had before.
    pub(crate) fn again(url: &str, fleet: FleetName, options: Options) -> Self {
        let serve = async |listener: Listener, watch| {
            listener.page(watch, options).await.unwrap();
        };
        Self::serve_fleet(fleet, url, ANY, Duration::from_secs(1), serve)
    }

    /// Open to all, and in no hurry to call a fleet without a generator ill.
    pub(crate) fn patient() -> Self {
        Self::serve(
            &SERVER.url(),
            ANY,
            PATIENCE * 10,
            async |listener, watch| {
                listener.page(watch, Options::default()).await.unwrap();
            },
        )
    }

    /// What a node serves instead of the page.
    pub(crate) fn node(node: &str) -> Self {
        let node = node.to_owned();
        Self::serve(&SERVER.url(), ANY, PATIENCE, async |listener, watch| {
            let meter = Arc::new(Meter::default());
            listener.node(watch, OwnNode { node, meter }).await.unwrap();
        })
    }

    fn serve(
        url: &str,
        addr: &str,
        lease_ttl: Duration,
        serve: impl AsyncFnOnce(Listener, Watch) + Send + 'static,
    ) -> Self {
        static FLEETS: AtomicU64 = AtomicU64::new(1);
        let number = FLEETS.fetch_add(1, Ordering::Relaxed);
        let fleet = FleetName::new(&format!("fleet-{number}")).unwrap();
        Self::serve_fleet(fleet, url, addr, lease_ttl, serve)
    }

    fn serve_fleet(
        fleet: FleetName,
        url: &str,
        addr: &str,
        lease_ttl: Duration,
        serve: impl AsyncFnOnce(Listener, Watch) + Send + 'static,
    ) -> Self {
        let target = Target::parse(url).unwrap();
        let redis = redis::Client::open(url).unwrap().get_connection().unwrap();
        let addr = addr.parse().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (ready, bound) = mpsc::channel();
        let name = fleet.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = Listener::bind(addr).unwrap();
                ready.send(listener.addr().unwrap()).unwrap();
                let limits = Limits::new(lease_ttl, Duration::from_secs(1));
                let watch = Watch::start_to_act(target, name, Duration::from_millis(50), limits);
                tokio::select! {
                    () = serve(listener, watch) => {}
                    _ = stopped => {}
                }
            });
        });
        let site = Self {
            addr: bound.recv().unwrap(),
            keys: Keys::new(&fleet),
            fleet,
            url: url.to_owned(),
            redis: Mutex::new(redis),
            stop: Some(stop),
            thread: Some(thread),
        };
        wait_until("the fleet is read", || site.get("/readyz").status == 200);
        site
    }

    /// A request to it.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request {
            addr: self.addr,
            line: format!("{method} {path} HTTP/1.1"),
            host: Some(self.host()),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.addr.port())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send()
    }

    /// An action as our own page sends it, with this proof.
    pub(crate) fn action(&self, path: &str, body: &Value, csrf: &str) -> Request {
        self.request("POST", path)
            .header("Content-Type", "application/json")
            .header("Origin", &format!("http://{}", self.host()))
            .header("X-CSRF-Token", csrf)
            .body(body.to_string().as_bytes())
    }

    /// The proof of a page that has no token.
    pub(crate) fn csrf(&self) -> String {
        let session = self.get("/api/session").json();
        session["csrf"].as_str().unwrap().to_owned()
    }

    /// Logs in and returns the cookie, `name=value`.
    pub(crate) fn log_in(&self) -> String {
        let answer = self.log_in_with(TOKEN);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")));
        let cookie = answer.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    pub(crate) fn log_in_with(&self, token: &str) -> Answer {
        self.request("POST", "/login")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .body(format!("token={}", token.replace(' ', "+")).as_bytes())
            .send()
    }

    /// Puts a failed message into the store.
    pub(crate) fn fail(&self, seq: u64, reason: &str, text: &[u8]) {
        self.push(&record(seq, reason, text));
    }

    /// Puts the failed messages `text 1` to `text N` into the store.
    pub(crate) fn fail_many(&self, messages: u64, reason: impl Fn(u64) -> &'static str) {
        let records: Vec<_> = (1..=messages)
            .map(|seq| record(seq, reason(seq), format!("text {seq}").as_bytes()))
            .collect();
        self.push_all(&records);
    }

    /// Puts bytes into the store.
    pub(crate) fn push(&self, record: &[u8]) {
        self.push_all(&[record.to_vec()]);
    }

    fn push_all(&self, records: &[Vec<u8>]) {
        let mut redis = self.redis.lock().unwrap();
        let count = records.len() as u64;
        let last: u64 = redis.hincr(&self.keys.errors_ids, "last", count).unwrap();
        let ids: Vec<u64> = (last - count + 1..=last).collect();
        let pairs: Vec<_> = ids.iter().zip(records).collect();
        for pairs in pairs.chunks(1000) {
            let _: () = redis.hset_multiple(&self.keys.errors, pairs).unwrap();
        }
    }

    /// Lets Redis lose all that the fleet has in its store of failed messages.
    pub(crate) fn lose_all(&self) {
        let mut redis = self.redis.lock().unwrap();
        let keys = &self.keys;
        for key in [&keys.errors, &keys.errors_ids, &keys.fence, &keys.stats] {
            let _: () = redis.del(key).unwrap();
        }
    }

    /// Lets the fleet have had so many messages, which all failed.
    pub(crate) fn had(&self, messages: u64) {
        let mut redis = self.redis.lock().unwrap();
        let _: () = redis.hset(&self.keys.fence, "last", messages).unwrap();
        let _: () = redis.hset(&self.keys.stats, "failed", messages).unwrap();
    }

    /// The texts that are in the store, oldest first.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut redis = self.redis.lock().unwrap();
        let records: BTreeMap<u64, Vec<u8>> = redis.hgetall(&self.keys.errors).unwrap();
        let text =
            |record: &Vec<u8>| String::from_utf8_lossy(&record::decode(record).text).into_owned();
        records.values().map(text).collect()
    }

    /// The fleet as others see it.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let target = Target::parse(&self.url).unwrap();
            let inspector = Inspector::connect_read_only(&target, &self.fleet).await;
            inspector.unwrap().snapshot().await.unwrap()
        })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn record(seq: u64, reason: &str, text: &[u8]) -> Vec<u8> {
    let failed = {
        let mut made = FailedMessage::default();
        made.seq = seq;
        made.at_ms = 1_700_000_000_000 + seq;
        made.node = "node1".to_owned();
        made.reason = reason.to_owned();
        made.attempt = 1;
        made.text = text.to_vec();
        made
    };
    baton_protocol::record::encode(&failed)
}

/// A request that is being written.
#[derive(Clone)]
pub(crate) struct Request {
    addr: SocketAddr,
    line: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without one header of those it was given.
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

    /// Sends it, and reads the answer to its end.
    pub(crate) fn send(self) -> Answer {
        let mut stream = self.header("Connection", "close").start();
        let mut bytes = Vec::new();
        // A server that refuses a body does not read it, and then the connection is reset.
        let _ = stream.read_to_end(&mut bytes);
        Answer::parse(&bytes)
    }

    /// Sends it, and leaves the answer to be read.
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
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What the server said.
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

    /// The words of a refusal.
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

/// A stream of events.
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

    /// The next event; none when the stream is over.
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

    /// The next event that is so.
    pub(crate) fn wait_for(&mut self, so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let event = self.next().unwrap();
            if so(&event) {
                return event;
            }
            assert!(Instant::now() < deadline, "{event}");
        }
    }
}

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Does something at the end of a block, also when a test fails in it.
pub(crate) struct Defer<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Defer<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A watch of a server that no test needs.
pub(crate) fn idle_watch() -> Watch {
    let limits = Limits::new(PATIENCE, PATIENCE);
    let target = Target::parse("redis://127.0.0.1:1").unwrap();
    Watch::start(target, FleetName::new("idle").unwrap(), PATIENCE, limits)
}
