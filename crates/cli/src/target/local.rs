//! The servers of this machine: one that answers, or the embedded one.

use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;
use baton::Target;
use baton_print::errln;
use baton_server::{EmbeddedServer, PortUse, Started};

use super::address;

/// How long a server of this machine may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// What listens on a port of this machine.
pub(super) enum Local {
    /// A server, at exactly this URL. It is not the name `localhost`, because two servers may
    /// stand behind that name and a fleet must meet at one.
    Server(String),
    /// A program that is no server.
    OtherProgram,
    /// No program.
    Nothing,
}

/// Finds out what listens on a port of this machine.
pub(super) fn probe(port: u16) -> Local {
    let on_ipv4 = baton_server::probe_port(port);
    if on_ipv4 == PortUse::Server {
        return Local::Server(address::url("127.0.0.1", port));
    }
    let ipv6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    let on_ipv6 = TcpStream::connect_timeout(&ipv6, CONNECT_TIMEOUT);
    match (on_ipv6, on_ipv4) {
        (Ok(_), _) => Local::Server(address::url("::1", port)),
        (Err(_), PortUse::OtherProgram) => Local::OtherProgram,
        (Err(_), _) => Local::Nothing,
    }
}

/// The server that `baton run` starts on this port if there is no other.
pub(crate) fn embedded(port: u16) -> anyhow::Result<EmbeddedServer> {
    Ok(EmbeddedServer::new(port, baton_server::default_data_dir()?))
}

/// Starts the embedded server, and tells the user about it.
pub(super) fn start_embedded(port: u16) -> anyhow::Result<Target> {
    let embedded = embedded(port)?;
    let started = embedded.start().with_context(|| {
        format!(
            "no Redis answers on localhost:{port}, and baton could not start one (name another \
             server with --redis URL)"
        )
    })?;
    let status = embedded.status();
    match started {
        Started::Here => {
            let program = status.program.map_or_else(
                || "a server".to_owned(),
                |program| program.display().to_string(),
            );
            errln!(
                "baton: no Redis answered on localhost:{port}, so this node started one: {program} on \
                 127.0.0.1:{port}\n\
                 baton: its data is in {}; it outlives this node, and other users cannot use it\n\
                 baton: `baton server status` describes it, `baton server stop` stops it",
                status.data_dir.display()
            );
        }
        Started::Joined => {
            errln!("baton: using the server that another copy just started on 127.0.0.1:{port}")
        }
    }
    Ok(Target::parse(&embedded.url())?)
}
