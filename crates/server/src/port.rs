//! A free port for a server.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// Ports below the range from which Linux and macOS take those of outgoing connections.
///
/// A server that is down for a while must find its port free when it comes back. In the outgoing
/// range it may not: the system now and then gives a client that reconnects the very port that it
/// connects to. The client then meets itself and holds the port.
const RANGE: Range<u16> = 10_000..32_000;

/// A server in cluster mode also listens this far above its port, for the other servers.
const BUS_OFFSET: u16 = 10_000;

/// How many ports are tried.
const ATTEMPTS: usize = 200;

/// The ports that this process has chosen last, at most as many as [`KEPT`]. A server binds its port some
/// time after the choice, and until then a server that another thread starts must not choose it, too.
static CHOSEN: Mutex<VecDeque<u16>> = Mutex::new(VecDeque::new());
const KEPT: usize = 500;

/// Chooses a port on 127.0.0.1 on which nothing listens at the moment.
///
/// Another program may take it before the caller uses it, so a caller must be ready to choose
/// another.
///
/// # Errors
///
/// [`Error::NoFreePort`] if 200 random ports were taken.
pub fn free_port() -> Result<u16, Error> {
    find(RANGE, |port| vec![port])
}

/// Chooses a port as [`free_port`] does, for a server in cluster mode. Its second port is free, too, and
/// below the outgoing range as well: the other servers try to connect to it while it is down.
pub(crate) fn free_cluster_port() -> Result<u16, Error> {
    find(RANGE.start..RANGE.end - BUS_OFFSET, |port| {
        vec![port, port + BUS_OFFSET]
    })
}

/// A port for a server that listens on `ports_of` it.
fn find(range: Range<u16>, ports_of: impl Fn(u16) -> Vec<u16>) -> Result<u16, Error> {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |port: &u16| {
        let mut ports = ports_of(*port).into_iter();
        ports.all(|port| !chosen.contains(&port) && is_free(port))
    };
    let port = (0..ATTEMPTS).map(|_| random_port(&range)).find(fits);
    let port = port.ok_or(Error::NoFreePort)?;
    chosen.extend(ports_of(port));
    let too_many = chosen.len().saturating_sub(KEPT);
    chosen.drain(..too_many);
    Ok(port)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn random_port(range: &Range<u16>) -> u16 {
    // The standard library's only randomness: the keys of a new hasher. It is enough for two
    // processes that start together to choose differently.
    let random = RandomState::new().hash_one(std::process::id());
    let offset = random % u64::from(range.end - range.start);
    range.start + u16::try_from(offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_below_the_outgoing_range_and_can_be_bound() {
        let port = free_port().unwrap();
        assert!(RANGE.contains(&port));
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let port = free_cluster_port().unwrap();
        assert!(RANGE.contains(&(port + BUS_OFFSET)));
        TcpListener::bind((Ipv4Addr::LOCALHOST, port + BUS_OFFSET)).unwrap();
    }

    #[test]
    fn two_threads_that_start_servers_choose_different_ports() {
        let choose = || {
            let ports = (0..100).map(|_| free_cluster_port().unwrap());
            ports.flat_map(|port| [port, port + BUS_OFFSET]).collect()
        };
        let (mut ports, others): (Vec<u16>, Vec<u16>) = std::thread::scope(|scope| {
            let other = scope.spawn(choose);
            (choose(), other.join().unwrap())
        });
        ports.extend(others);
        let all = ports.len();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), all, "a port was chosen twice");
    }
}
