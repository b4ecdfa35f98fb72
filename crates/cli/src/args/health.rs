//! The flags of `health`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::handler::timeout;
use super::http::http_addr;

#[derive(clap::Args, Debug)]
pub(crate) struct HealthArgs {
    /// Ask the node or the page that listens here, as `run --http` and `web --http` were told
    #[arg(long, value_name = "ADDR", env = "BATON_HTTP", value_parser = served_addr)]
    pub(crate) http: Option<SocketAddr>,
    /// Ask /readyz instead of /healthz: whether this one node can work, not whether its fleet does
    #[arg(long, env = "BATON_READY")]
    pub(crate) ready: bool,
    /// Max time for the answer
    // Not --timeout: its variable is a handler's, and a probe has the environment of its node.
    #[arg(long, value_name = "TIME", env = "BATON_WITHIN", default_value = "3s", value_parser = timeout)]
    pub(crate) within: Duration,
}

/// Where to ask a server that was told to listen on this address.
fn served_addr(text: &str) -> Result<SocketAddr, String> {
    let wrong = "write the address and the port of a node, such as 127.0.0.1:9464 or [::1]:9464";
    let mut addr = http_addr(text).map_err(|_| wrong.to_owned())?;
    if addr.port() == 0 {
        return Err(format!("port 0 is any free port; {wrong}"));
    }
    // Who listens on every address of this machine answers on loopback, too.
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    Ok(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_every_address_is_asked_on_loopback() {
        for (told, asked) in [
            ("0.0.0.0:9464", "127.0.0.1:9464"),
            ("[::]:9464", "[::1]:9464"),
            ("localhost:9464", "127.0.0.1:9464"),
            ("10.1.2.3:80", "10.1.2.3:80"),
        ] {
            assert_eq!(served_addr(told).unwrap().to_string(), asked);
        }
        assert!(served_addr("127.0.0.1:0").unwrap_err().contains("port 0"));
    }
}
