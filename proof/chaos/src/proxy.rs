//! A bad network between one node and the server: a TCP proxy that delays, loses and cuts.

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

/// What the proxy does to bytes and connections.
///
/// After a direction of a connection has lost a byte, it passes no other byte, whatever the mode:
/// half a stream is worse than none. The proxy does not close such a connection when the mode
/// changes; its client has to find out. An end (FIN) that a mode holds up arrives when the mode
/// changes, as TCP would send it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everything passes.
    Pass,
    /// Everything passes, late by half to one and a half of this time, both ways, in order.
    Delay(Duration),
    /// Calls reach the server, its replies vanish.
    LoseReplies,
    /// Calls vanish; replies pass. New connections are accepted and dead.
    LoseCalls,
    /// Nothing passes. New connections are accepted and dead.
    Partition,
    /// Of the next bytes from the server the first half passes, then both sides are closed:
    /// a reply cut in two. This happens to every connection while the mode lasts.
    CutReplies,
    /// The same for a call: half a command reaches the server.
    CutCalls,
    /// New connections are closed at once. Old ones live on.
    Refuse,
}

/// The counters of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that clients made.
    pub connections: u64,
    /// Those of them that are open.
    pub open: u64,
    /// Those of them that were closed at once: by the mode, or because the server was away.
    pub refused: u64,
    /// Connections that the proxy closed: by [`Proxy::cut`] or by the mode.
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

impl Mode {
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

    /// The delay of bytes that arrive now.
    fn delay(self) -> Duration {
        match self {
            Self::Delay(time) => time.mul_f64(rand::random_range(0.5..1.5)),
            _ => Duration::ZERO,
        }
    }
}

/// What all connections of a proxy share.
struct Shared {
    upstream: SocketAddr,
    mode: watch::Sender<Mode>,
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

/// A proxy in front of the server, for one node. Dropping it closes everything.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy on a free port of 127.0.0.1, which passes everything.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        Self::start_on(IpAddr::from([127, 0, 0, 1]), upstream)
    }

    /// A proxy on a free port of another address of this machine.
    pub fn start_on(listen: IpAddr, upstream: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((listen, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream,
            mode: watch::Sender::new(Mode::Pass),
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
        let accepting = Arc::clone(&shared);
        // The end of the runtime closes all its connections.
        let thread = std::thread::Builder::new()
            .name("proxy".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = accept(&listener, &accepting) => {}
                    }
                });
            })?;
        Ok(Self {
            addr,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes the mode, for all bytes and connections from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Closes every connection at once, with a reset.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        let tally = &self.shared.tally;
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

async fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        add(&shared.tally.connections, 1);
        // Subscribed before the connection is handled, so that it misses no cut.
        let cuts = shared.cuts.subscribe();
        tokio::spawn(connection::carry(client, Arc::clone(shared), cuts));
    }
}
