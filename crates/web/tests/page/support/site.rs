//! A page of a fleet, served on a port of its own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use baton::inspect::{Limits, Meter, Snapshot, Watch};
use baton::{FleetName, Inspector, Target};
use baton_protocol::Keys;
use baton_web::{Listener, Options, OwnNode};
use serde_json::Value;
use tokio::sync::oneshot;

use super::client::{Answer, Request};
use super::{ANY, SERVER, TIMEOUT, TOKEN, block_on, wait_until};

/// A page of a fleet of its own. Dropping it ends the page.
pub(crate) struct Site {
    pub(crate) addr: SocketAddr,
    pub(crate) fleet: FleetName,
    pub(crate) keys: Keys,
    pub(crate) url: String,
    pub(super) redis: Mutex<redis::Connection>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Site {
    /// A page without a token and without actions.
    pub(crate) fn open() -> Self {
        Self::with(Options::default())
    }

    /// A page with [`TOKEN`] and actions.
    pub(crate) fn locked() -> Self {
        Self::with(Options {
            token: Some(TOKEN.to_owned()),
            allow_actions: true,
            ..Options::default()
        })
    }

    /// A page with actions and without a token.
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

    /// Another page of a fleet.
    pub(crate) fn again(url: &str, fleet: FleetName, options: Options) -> Self {
        let serve = async |listener: Listener, watch| {
            listener.page(watch, options).await.unwrap();
        };
        Self::serve_fleet(fleet, url, ANY, Duration::from_secs(1), serve)
    }

    /// A page that does not call a fleet without a generator unhealthy during a test.
    pub(crate) fn patient() -> Self {
        Self::serve(&SERVER.url(), ANY, TIMEOUT * 10, async |listener, watch| {
            listener.page(watch, Options::default()).await.unwrap();
        })
    }

    /// What a node serves: no page, but metrics and health.
    pub(crate) fn node(node: &str) -> Self {
        let node = node.to_owned();
        Self::serve(&SERVER.url(), ANY, TIMEOUT, async |listener, watch| {
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
            block_on(async {
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

    /// A request to the page.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.addr, self.host(), method, path)
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.addr.port())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.request("GET", path).send()
    }

    /// An action as our own page sends it, with this CSRF token.
    pub(crate) fn action(&self, path: &str, body: &Value, csrf: &str) -> Request {
        self.request("POST", path)
            .header("Content-Type", "application/json")
            .header("Origin", &format!("http://{}", self.host()))
            .header("X-CSRF-Token", csrf)
            .body(body.to_string().as_bytes())
    }

    /// The CSRF token of a page without a token.
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

    /// The fleet at this moment.
    pub(crate) fn snapshot(&self) -> Snapshot {
        block_on(async {
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
