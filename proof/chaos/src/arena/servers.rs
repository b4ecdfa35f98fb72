//! The servers of a run, and the way from a node to them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use baton::FleetName;
use baton_server::{Fsync, PrivateServer};

use super::tls::Tls;
use super::{FLEET, Settings, server};
use crate::group::Group;
use crate::namespace::Namespace;
use crate::proxy::Proxy;
use crate::topology::Topology;

/// The servers.
pub enum Servers {
    /// One server, which keeps its data.
    Single(Box<PrivateServer>),
    /// A master with replicas and Sentinels, or a cluster.
    Group(Box<Group>),
}

/// Starts the servers, and the network namespace of one node, where that is possible.
pub(super) fn start(
    settings: &Settings,
    folder: &Path,
    clock: &Path,
    tls: Option<&Tls>,
) -> Result<(Servers, Option<Namespace>)> {
    match settings.topology {
        Topology::Single => {
            let server = server::start(settings, folder, clock)?;
            let wire = match settings.namespaces {
                true => Some(Namespace::new(address(&server)?)?),
                false => None,
            };
            Ok((Servers::Single(Box::new(server)), wire))
        }
        topology @ (Topology::Sentinel | Topology::Cluster) => {
            let wire = match settings.namespaces {
                true => Some(Namespace::without_proxy()?),
                false => None,
            };
            let host = wire.as_ref().map_or(LOOPBACK, Namespace::host);
            let tls = tls.map(|tls| tls.certify(host)).transpose()?;
            let (program, fsync) = (&settings.server_program, fsync(settings));
            let group = match topology {
                Topology::Cluster => {
                    let fleet = FleetName::new(FLEET)?;
                    Group::start_cluster(program, fsync, host, &fleet, settings.partitions)?
                }
                _ => Group::start_sentinels(program, fsync, host, tls.as_ref())?,
            };
            Ok((Servers::Group(Box::new(group)), wire))
        }
    }
}

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// When a server forces its writes to the disk.
pub(super) fn fsync(settings: &Settings) -> Fsync {
    match settings.always {
        true => Fsync::Always,
        false => Fsync::EverySec,
    }
}

fn address(server: &PrivateServer) -> Result<SocketAddr> {
    let port = server.port().context("the server has no port")?;
    Ok(SocketAddr::new(LOOPBACK, port))
}

impl Servers {
    /// Where they are, for clients that no fault of the network touches.
    pub fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Group(group) => group.url(),
        }
    }

    /// Where a node finds them. A node on the host gets a proxy of its own in front of a single
    /// server; a group has none, because its Sentinels or its servers name the servers themselves.
    pub(super) fn way_for_node(&self, wire: Option<&Namespace>) -> Result<(String, Option<Proxy>)> {
        let Self::Single(server) = self else {
            return Ok((self.url(), None));
        };
        let at_the_wire = wire.and_then(Namespace::proxy).map(Proxy::addr);
        let (addr, proxy) = match at_the_wire {
            Some(addr) => (addr, None),
            None => {
                let proxy = Proxy::start(address(server)?)?;
                (proxy.addr(), Some(proxy))
            }
        };
        Ok((format!("redis://{addr}"), proxy))
    }

    /// The log of a server that has ended by itself.
    pub fn ended(&mut self) -> Option<String> {
        match self {
            Self::Single(server) => (!server.is_running())
                .then(|| format!("the server ended by itself; its log: {}", server.log())),
            Self::Group(group) => group.ended(),
        }
    }

    /// The log of each server, by its name.
    pub fn logs(&self) -> Vec<(String, String)> {
        match self {
            Self::Single(server) => vec![("server".to_owned(), server.log())],
            Self::Group(group) => group.logs(),
        }
    }
}
