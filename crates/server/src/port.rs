//! A free port for a server.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use crate::Error;

/// Ports below the range from which Linux and macOS take those of outgoing connections.
///
/// A server that is down for a while must find its port free when it comes back. In the outgoing
/// range it may not: the system now and then gives a client that reconnects the very port that it
/// connects to. The client then meets itself and holds the port.
const RANGE: Range<u16> = 10_000..32_000;

/// How many ports are tried.
const ATTEMPTS: usize = 200;

/// Chooses a port on 127.0.0.1 on which nothing listens at the moment.
///
/// Another program may take it before the caller uses it, so a caller must be ready to choose
/// another.
///
/// # Errors
///
/// [`Error::NoFreePort`] if 200 random ports were taken.
pub fn free_port() -> Result<u16, Error> {
    (0..ATTEMPTS)
        .map(|_| random_port())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or(Error::NoFreePort)
}

fn random_port() -> u16 {
    // The standard library's only randomness: the keys of a new hasher. It is enough for two
    // processes that start together to choose differently.
    let random = RandomState::new().hash_one(std::process::id());
    let offset = random % u64::from(RANGE.end - RANGE.start);
    RANGE.start + u16::try_from(offset).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_below_the_outgoing_range_and_can_be_bound() {
        let port = free_port().unwrap();
        assert!(RANGE.contains(&port));
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
