//! Addresses as users write them: `host:port` and its short forms.

use std::net::Ipv6Addr;

/// Redis's own port.
pub(super) const DEFAULT_PORT: u16 = 6379;

/// Splits `host:port`, `[address]:port`, `:port`, `host` and a bare IPv6 address.
pub(crate) fn split(addr: &str) -> Option<(&str, u16)> {
    if addr.parse::<Ipv6Addr>().is_ok() {
        return Some((addr, DEFAULT_PORT));
    }
    let (host, port) = match addr.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':')?)),
            }
        }
        None => match addr.rsplit_once(':') {
            Some(("", port)) => ("localhost", Some(port)),
            Some((host, port)) => (host, Some(port)),
            None => (addr, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => DEFAULT_PORT,
    };
    is_host(host).then_some((host, port))
}

/// Whether this can be a host: it has no character that means something else in a URL.
pub(super) fn is_host(host: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    host.parse::<Ipv6Addr>().is_ok() || (!host.is_empty() && host.chars().all(plain))
}

/// The URL of a host and a port.
pub(crate) fn url(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("redis://[{host}]:{port}"),
        false => format!("redis://{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (addr, parts) in [
            ("localhost:6379", ("localhost", 6379)),
            ("h", ("h", 6379)),
            (":7000", ("localhost", 7000)),
            ("10.0.0.1:1", ("10.0.0.1", 1)),
            ("[::1]:7000", ("::1", 7000)),
            ("[::1]", ("::1", 6379)),
            ("::1", ("::1", 6379)),
        ] {
            assert_eq!(split(addr), Some(parts), "{addr}");
        }
        for bad in [
            "",
            ":",
            "h:",
            "h:0",
            "h:99999",
            "h:x",
            "user:pw@h:1",
            "[::1]x",
            "[h]:1",
            "a b:1",
            "h/1:2",
            "redis://h:1",
            "h?x:1",
        ] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }
}
