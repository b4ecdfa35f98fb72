//! A page that shows a fleet, and metrics and health for programs.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use baton::{Meter, Watch};

/// How the page is served.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Who does not know it is shown a login page, or refused.
    pub token: Option<String>,
    /// Whether failed messages may be dropped and retried.
    pub allow_actions: bool,
    /// Names by which the page may be asked for, beside localhost and the address itself.
    pub hosts: Vec<String>,
}

/// A node that tells about itself.
pub struct Own {
    /// Its name.
    pub node: String,
    /// What it counts.
    pub meter: Arc<Meter>,
}

/// An address that is listened on, and nobody answered yet.
pub struct Listener {
    listener: std::net::TcpListener,
}

impl Listener {
    /// Listens.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// Where; the port is the one that was found if none was asked for.
    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the page, metrics and health until it is dropped.
    pub async fn page(self, watch: Watch, options: Options) -> io::Result<()> {
        let _ = (watch, options);
        std::future::pending().await
    }

    /// Serves metrics and health of one node and its fleet until it is dropped.
    pub async fn node(self, watch: Watch, own: Own) -> io::Result<()> {
        let _ = (watch, own);
        std::future::pending().await
    }
}
