//! A page that shows a fleet, and metrics and health for programs.
//!
//! The page shows the fleet's messages, so only callers on this machine, or callers with a token,
//! may see it. It retries, drops and takes failed messages only if it is allowed to. The server
//! bounds connections, requests, answers, and the work that a request may cause in Redis.
//!
//! TLS is the job of a proxy in front. The server knows of that proxy only by its public URLs: the
//! session's cookie has the attribute `Secure` if all of them are `https`.
//!
//! The tour: `http` accepts connections and bounds what clients may send; `access` decides which
//! requests may pass; `page` and `node` have the routes; `event_stream` sends every view of the
//! fleet to the browsers; `failed` searches, takes and settles failed messages; `monitoring` and
//! `prometheus` answer probes and Prometheus; `assets` has the page's files.

mod access;
mod assets;
mod event_stream;
mod failed;
mod http;
mod monitoring;
mod node;
mod page;
#[doc(hidden)]
pub mod prometheus;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use baton::inspect::{Meter, Watch};

pub use crate::access::origin::PublicUrl;
pub use crate::monitoring::ANSWER_HEADER;

/// Who may see the page, and what the page may do.
#[derive(Clone, Default)]
pub struct Options {
    /// The secret that callers need. Without one, the page serves only callers on this machine.
    pub token: Option<String>,
    /// Whether the page may take, drop and retry failed messages. It needs a watch of
    /// [`Watch::start_to_act`] then.
    pub allow_actions: bool,
    /// Host names that the page answers to, beside localhost and its own address.
    pub hosts: Vec<String>,
    /// Addresses of the page behind a proxy. Their host names are allowed, and the page accepts
    /// actions from these origins even if the proxy puts another host into the request.
    pub public_urls: Vec<PublicUrl>,
}

/// Leaves out the token.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("allow_actions", &self.allow_actions)
            .field("hosts", &self.hosts)
            .field("public_urls", &self.public_urls)
            .finish()
    }
}

/// The node of this process, whose metrics are served.
pub struct OwnNode {
    /// Its name.
    pub node: String,
    /// Its counters.
    pub meter: Arc<Meter>,
}

/// A listening socket that does not serve yet.
///
/// ```no_run
/// # use baton::inspect::Watch;
/// # async fn serve(watch: Watch) -> std::io::Result<()> {
/// let listener = baton_web::Listener::bind(([127, 0, 0, 1], 8080).into())?;
/// listener.page(watch, baton_web::Options::default()).await
/// # }
/// ```
pub struct Listener {
    listener: std::net::TcpListener,
}

impl Listener {
    /// Listens on this address; port 0 finds a free port.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The address, with the port that was found.
    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves the page, metrics and health until the future is dropped. Refuses to serve other
    /// machines without a token.
    pub async fn page(self, watch: Watch, options: Options) -> io::Result<()> {
        let router = page::router(watch, options, self.addr()?)?;
        http::server::serve(self.listener, router).await
    }

    /// Serves metrics and health of one node and its fleet until the future is dropped.
    pub async fn node(self, watch: Watch, own: OwnNode) -> io::Result<()> {
        http::server::serve(self.listener, node::router(watch, own)).await
    }
}
