//! Bad weather between one node and the server: a TCP proxy that delays, loses and cuts.

mod connection;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Pause after a connection that could not be accepted: this process has too many files open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// What happens to bytes and connections on their way.
///
/// A direction in which a byte was lost passes no other byte of that connection, whatever the
/// weather: half a stream is worse than none. Such a connection is not closed when the weather
/// clears; its client has to find out by itself. An end (FIN) that fell into bad weather
/// arrives when it clears, as TCP would send it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Everything passes.
    Fair,
    /// Everything passes, late by half to one and a half of this time, both ways, in order.
    Delay(Duration),
    /// Calls reach the server, its replies vanish.
    LoseReplies,
    /// Calls vanish; what the server says by itself passes. New connections are dead.
    LoseCalls,
    /// Nothing passes. New connections are accepted and dead.
    Partition,
    /// Of the next bytes from the server the first half passes, then both sides are closed:
    /// a reply cut in two. Every connection, for as long as the weather lasts.
    CutReplies,
    /// The same for a call: half a command reaches the server.
    CutCalls,
    /// New connections are closed at once. Old ones live on.
    Refuse,
}

/// What a proxy has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that clients made.
    pub connections: u64,
    /// Those of them that are open.
    pub open: u64,
    /// Those of them that were closed at once: in bad weather, or because the server was away.
    pub refused: u64,
    /// Connections closed by the proxy: by [`Proxy::cut`] or by the weather.
    pub cut: u64,
    /// Bytes that passed, both ways.
    pub passed: u64,
    /// Bytes that vanished.
    pub lost: u64,
}

/// The two ways that bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Calls,
    Replies,
}

impl Way {
    fn back(self) -> Self {
        match self {
            Self::Calls => Self::Replies,
            Self::Replies => Self::Calls,
        }
    }
}

impl Weather {
    /// Whether what goes this way vanishes.
    fn loses(self, way: Way) -> bool {
        match self {
            Self::Partition => true,
            Self::LoseCalls => way == Way::Calls,
            Self::LoseReplies => way == Way::Replies,
            _ => false,
        }
    }

    /// Whether what goes this way is cut in two.
    fn cuts(self, way: Way) -> bool {
        match self {
            Self::CutCalls => way == Way::Calls,
            Self::CutReplies => way == Way::Replies,
            _ => false,
        }
    }

    /// How late something is that sets out now.
    fn delay(self) -> Duration {
        match self {
            Self::Delay(time) => time.mul_f64(rand::random_range(0.5..1.5)),
            _ => Duration::ZERO,
        }
    }
}

/// What all connections of a proxy share.
struct Sky {
    upstream: SocketAddr,
    weather: watch::Sender<Weather>,
    /// How often everything was cut.
    cuts: watch::Sender<u64>,
    tally: Tally,
}

/// [`Counts`], while they grow.
#[derive(Default)]
struct Tally {
    connections: AtomicU64,
    open: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
    passed: AtomicU64,
    lost: AtomicU64,
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// A proxy in front of the server, for one node. Dropped, it closes everything.
pub struct Proxy {
    addr: SocketAddr,
    sky: Arc<Sky>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy on a free port of 127.0.0.1, in fair weather.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        Self::start_on(IpAddr::from([127, 0, 0, 1]), upstream)
    }

    /// A proxy on a free port of another address of this machine.
    pub fn start_on(listen: IpAddr, upstream: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((listen, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let sky = Arc::new(Sky {
            upstream,
            weather: watch::Sender::new(Weather::Fair),
            cuts: watch::Sender::new(0),
            tally: Tally::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&sky);
        // With the runtime, all its connections go.
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(&listener, &shared) => {}
                    }
                });
            })?;
        Ok(Self {
            addr,
            sky,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the weather, for all bytes and connections from now on.
    pub fn set(&self, weather: Weather) {
        self.sky.weather.send_replace(weather);
    }

    /// Closes every connection at once, with a reset.
    pub fn cut(&self) {
        self.sky.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// What it has done so far.
    pub fn counts(&self) -> Counts {
        let tally = &self.sky.tally;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            connections: read(&tally.connections),
            open: read(&tally.open),
            refused: read(&tally.refused),
            cut: read(&tally.cut),
            passed: read(&tally.passed),
            lost: read(&tally.lost),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &TcpListener, sky: &Arc<Sky>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        add(&sky.tally.connections, 1);
        // From here on, so that no cut is missed.
        let cuts = sky.cuts.subscribe();
        tokio::spawn(connection::carry(client, Arc::clone(sky), cuts));
    }
}
