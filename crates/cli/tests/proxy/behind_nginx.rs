//! The page behind nginx: TLS, a password of the proxy's own, events, and both ways of naming the
//! host.

use std::io::BufRead;
use std::time::{Duration, Instant};

use baton::FleetName;
use baton_protocol::{Keys, record};
use baton_server::PrivateServer;
use serde_json::{Value, json};

use crate::client::{Answer, Request, tls};
use crate::shared::nginx::{DOCUMENTED, LEAST, NAME, Nginx, PASSWORD};
use crate::shared::page::{Page, TOKEN};
use crate::shared::wait_until;

/// A browser at nginx's public address.
struct Visitor<'a> {
    nginx: &'a Nginx,
    url: String,
    cookie: String,
    csrf: String,
}

impl Visitor<'_> {
    /// A request as a browser sends it from the page.
    fn request(&self, method: &str, path: &str) -> Request {
        let host = self.url.trim_start_matches("https://");
        let request = Request::new(method, path)
            .header("Host", host)
            .header("Authorization", &format!("Basic {}", base64(PASSWORD)))
            .header("Sec-Fetch-Site", "same-origin");
        match self.cookie.as_str() {
            "" => request,
            cookie => request.header("Cookie", cookie),
        }
    }

    fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send(tls(self.nginx, NAME))
    }

    fn post(&self, path: &str, origin: &str, body: &Value) -> Answer {
        self.request("POST", path)
            .header("Content-Type", "application/json")
            .header("X-CSRF-Token", &self.csrf)
            .header("Origin", origin)
            .body(&body.to_string())
            .send(tls(self.nginx, NAME))
    }

    /// Types the token.
    fn log_in(&mut self) {
        let entered = self
            .request("POST", "/login")
            .header("Content-Type", "application/x-www-form-urlencoded")
            .header("Origin", "null")
            .body(&format!("token={TOKEN}"))
            .send(tls(self.nginx, NAME));
        assert_eq!(entered.status, 303, "{entered:?}");
        assert_eq!(entered.header("location"), Some("/"));
        let cookie = entered.header("set-cookie").unwrap();
        assert!(cookie.ends_with("; Secure"), "{cookie}");
        self.cookie = cookie.split(';').next().unwrap().to_owned();
        let session = self.get("/api/session");
        assert_eq!(session.status, 200, "{session:?}");
        self.csrf = session.json()["csrf"].as_str().unwrap().to_owned();
    }

    /// Drops what the page lists, as a script of this origin would.
    fn drop_all(&self, origin: &str) -> Answer {
        // Before that, the page has nothing to list.
        wait_until("a reading", || self.get("/readyz").status == 200);
        let listed = self.get("/api/errors");
        assert_eq!(listed.status, 200, "{listed:?}");
        let look = listed.json()["look"].clone();
        let body = json!({ "look": look, "what": "all", "action": "drop" });
        self.post("/api/errors/settle", origin, &body)
    }
}

/// A server with one failed message.
fn server() -> PrivateServer {
    let server = PrivateServer::builder().start().unwrap();
    let failed = record::failed_once(1, 1_700_000_000_000, "worker-1", "too long", "text");
    let keys = Keys::new(&FleetName::new("default").unwrap());
    let client = redis::Client::open(server.url()).unwrap();
    redis::pipe()
        .hset(&keys.errors_ids, "last", 1)
        .hset(&keys.errors, 1, record::encode(&failed))
        .exec(&mut client.get_connection().unwrap())
        .unwrap();
    server
}

/// All that a person does, through this configuration.
fn visit(conf: &str) {
    let Some(prepared) = Nginx::prepare() else {
        return;
    };
    let server = server();
    let url = prepared.url();
    let page = Page::with_token(&server, &["--public-url", &url]);
    let nginx = prepared.start(conf, page.addr);
    let mut visitor = Visitor {
        nginx: &nginx,
        url: url.clone(),
        cookie: String::new(),
        csrf: String::new(),
    };
    let stranger = Request::new("GET", "/").header("Host", NAME);
    let stranger = stranger.send(tls(&nginx, NAME));
    assert_eq!(stranger.status, 401, "{}", nginx.log());
    assert!(
        stranger
            .header("www-authenticate")
            .unwrap()
            .starts_with("Basic")
    );

    let first = visitor.get("/");
    assert_eq!(
        (first.status, first.header("location")),
        (303, Some("/login"))
    );
    visitor.log_in();
    let index = visitor.get("/");
    assert_eq!(index.status, 200, "the login leads to the page");
    assert!(index.text().contains("<h1>"));

    assert_events(&visitor);

    // Another site cannot act, nor the same name without TLS; this page can.
    for foreign in ["https://evil.example", &url.replace("https", "http")] {
        let refused = visitor.drop_all(foreign);
        assert_eq!(refused.status, 403, "{foreign}: {refused:?}");
    }
    let dropped = visitor.drop_all(&url);
    assert_eq!(dropped.status, 200, "{dropped:?}");
    assert_eq!(dropped.json()["dropped"], 1);

    assert_eq!(visitor.post("/logout", &url, &json!({})).status, 204);
    assert_eq!(visitor.get("/api/session").status, 401);
}

/// Events arrive one by one, each soon after it was sent.
fn assert_events(visitor: &Visitor<'_>) {
    let before = Instant::now();
    let events = visitor.request("GET", "/api/events");
    let (head, mut lines) = events.open(tls(visitor.nginx, NAME));
    assert_eq!(head.status, 200, "{head:?}");
    let mut event = || {
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the stream ended");
        }
        serde_json::from_str::<Value>(&line["data: ".len()..]).unwrap()
    };
    let ages: Vec<_> = (0..3)
        .map(|_| event()["snapshot"]["now_ms"].as_u64())
        .collect();
    assert!(ages.is_sorted() && ages[0] < ages[2], "{ages:?}");
    // The page reads the fleet once per second.
    let took = before.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn the_documented_configuration_works() {
    visit(DOCUMENTED);
}

#[test]
fn nginx_with_its_own_defaults_works_though_it_asks_by_another_host() {
    visit(LEAST);
}

#[test]
fn without_a_public_url_a_refusal_names_it() {
    let Some(prepared) = Nginx::prepare() else {
        return;
    };
    let server = server();
    let url = prepared.url();
    let page = Page::with_token(&server, &[]);
    let nginx = prepared.start(LEAST, page.addr);
    let mut visitor = Visitor {
        nginx: &nginx,
        url: url.clone(),
        cookie: String::new(),
        csrf: String::new(),
    };
    let program = format!("Bearer {TOKEN}");
    // Through a proxy with a password of its own, a program has no header left for the token. So
    // the refusal is tested with a session.
    let entered = visitor
        .request("POST", "/login")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(&format!("token={TOKEN}"))
        .send(tls(&nginx, NAME));
    let cookie = entered.header("set-cookie").unwrap();
    assert!(!cookie.contains("Secure"), "{cookie}");
    visitor.cookie = cookie.split(';').next().unwrap().to_owned();
    visitor.csrf = visitor.get("/api/session").json()["csrf"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = visitor.drop_all(&url);
    assert_eq!(refused.status, 403);
    let told = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(told.contains(&format!("--public-url {url}")), "{told}");
    // Beside the proxy, it has.
    let metrics = Request::new("GET", "/metrics")
        .header("Host", "localhost")
        .header("Authorization", &program)
        .send(crate::client::plain(page.addr));
    assert_eq!(metrics.status, 200);
}

#[test]
fn a_name_that_is_not_the_page_s_own_is_refused_in_both_places() {
    let Some(prepared) = Nginx::prepare() else {
        return;
    };
    let server = server();
    let page = Page::with_token(&server, &["--public-url", &prepared.url()]);
    let nginx = prepared.start(DOCUMENTED, page.addr);
    // By nginx, which has no certificate for it; and by the page, where nginx passes a Host on
    // that is not the name of the certificate.
    let mut foreign = tls(&nginx, "evil.example");
    let asked = std::io::Write::write_all(&mut foreign, b"GET / HTTP/1.1\r\n\r\n");
    assert!(asked.is_err(), "nginx accepted the name");
    let direct = Request::new("GET", "/login").header("Host", "evil.example");
    assert_eq!(direct.send(crate::client::plain(page.addr)).status, 421);
}

/// As Basic auth wants it.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    text.as_bytes()
        .chunks(3)
        .map(|three| {
            let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or_default());
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            let digit = |index: usize| match index <= three.len() {
                true => DIGITS[(bits >> (18 - 6 * index) & 63) as usize] as char,
                false => '=',
            };
            String::from_iter([digit(0), digit(1), digit(2), digit(3)])
        })
        .collect()
}
