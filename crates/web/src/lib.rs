//! A page that shows a fleet, and metrics and health for programs.
//!
//! The page is meant for people who may see the fleet's messages, and for nobody else: it is
//! served to this machine only, or to those who know a token. It only shows, unless it is
//! allowed to act. What arrives is bounded everywhere: connections, requests, answers, and the
//! work that a request may cause in Redis.
//!
//! TLS is the business of a proxy in front. The server knows of one only by the public URLs that
//! it is given: its cookie has the attribute `Secure` if they are all `https`.
//!
//! The tour: `serve` accepts connections, `connections` decides which one makes room when there
//! are too many, `guard` holds every request against the rules of who may ask from where, `access`
//! knows tokens and sessions, `hosts` and `origin` names, `page` and `node` have the routes,
//! `events` tells a browser of every reading, `errors` looks at the errors store, remembers
//! what it has shown (`look`), and acts on nothing else (`settle`); `takes` holds what a person has
//! saved and not yet confirmed.

mod access;
mod answer;
mod assets;
mod connections;
mod errors;
mod events;
mod guard;
mod hosts;
mod impatient;
mod login;
mod look;
mod node;
mod origin;
mod page;
#[doc(hidden)]
pub mod prometheus;
mod record;
mod serve;
mod settle;
mod takes;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use baton::inspect::{Meter, Watch};

pub use crate::origin::PublicUrl;

/// How the page is served.
#[derive(Clone, Default)]
pub struct Options {
    /// A visitor without it gets the login page, a program is refused.
    pub token: Option<String>,
    /// Whether visitors may take, drop and retry failed messages. The page's watch must be able to
    /// act then ([`Watch::start_to_act`]).
    pub allow_actions: bool,
    /// Host names under which the page answers, beside localhost and the address itself.
    pub hosts: Vec<String>,
    /// Addresses by which people reach the page through a proxy. Their names are allowed, and
    /// their pages are this one even if the proxy asks for it by another name.
    pub public_urls: Vec<PublicUrl>,
}

/// Does not show the token.
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

    /// Serves the page, metrics and health until it is dropped. Other machines are served only
    /// if there is a token.
    pub async fn page(self, watch: Watch, options: Options) -> io::Result<()> {
        let router = page::router(watch, options, self.addr()?)?;
        serve::forever(self.listener, router).await
    }

    /// Serves metrics and health of one node and its fleet until it is dropped.
    pub async fn node(self, watch: Watch, own: Own) -> io::Result<()> {
        serve::forever(self.listener, node::router(watch, own)).await
    }
}
