//! Flags of the HTTP server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use baton_web::PublicUrl;

/// How the page is served.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Page")]
pub(crate) struct WebArgs {
    /// Address to listen on; one that other machines can reach needs --token-file
    #[arg(long, value_name = "ADDR", env = "BATON_HTTP", default_value = "127.0.0.1:7070",
          value_parser = http_addr)]
    pub(crate) http: SocketAddr,
    /// File with a token of at least 16 characters; visitors log in with it
    #[arg(long, value_name = "FILE", env = "BATON_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let visitors take, retry and drop failed messages
    #[arg(long, env = "BATON_ALLOW_ACTIONS")]
    pub(crate) allow_actions: bool,
    /// Another host name under which the page answers; may be repeated
    #[arg(
        long,
        value_name = "NAME",
        env = "BATON_ALLOW_HOST",
        value_delimiter = ',',
        value_parser = host_name
    )]
    pub(crate) allow_host: Vec<String>,
    /// Address of the page behind a proxy, such as https://baton.example; may be repeated
    #[arg(
        long,
        value_name = "URL",
        env = "BATON_PUBLIC_URL",
        value_delimiter = ','
    )]
    pub(crate) public_url: Vec<PublicUrl>,
}

/// An address to listen on. Names are not resolved: a page that listens on another address than its
/// owner thinks is open to strangers.
pub(crate) fn http_addr(text: &str) -> Result<SocketAddr, String> {
    let local = text
        .strip_prefix("localhost:")
        .and_then(|port| port.parse().ok())
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    local.or_else(|| text.parse().ok()).ok_or_else(|| {
        "write an address and a port, such as 127.0.0.1:7070 or [::1]:7070; 0.0.0.0:7070 is every \
         address of this machine, and port 0 is any free port"
            .to_owned()
    })
}

/// A name under which the page answers. A wrong one would never be equal to that of a request, and
/// nothing would say so.
fn host_name(text: &str) -> Result<String, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let is_address = bare.unwrap_or(text).parse::<IpAddr>().is_ok();
    let is_label = |label: &str| {
        let is_sign = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        !label.is_empty() && label.chars().all(is_sign)
    };
    match is_address || text.split('.').all(is_label) {
        true => Ok(text.to_owned()),
        false => Err(
            "write a host name or an address, such as baton.example, without scheme, port and path; \
             it counts for every port"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_is_said_in_full() {
        for good in ["127.0.0.1:0", "localhost:7070", "[::1]:1", "0.0.0.0:80"] {
            assert!(http_addr(good).is_ok(), "{good}");
        }
        assert!(http_addr("localhost:1").unwrap().ip().is_loopback());
        for bad in [
            "",
            "7070",
            ":7070",
            "example.org:80",
            "127.0.0.1",
            "localhost:x",
        ] {
            assert!(http_addr(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_allowed_host_is_a_name_or_an_address() {
        for good in [
            "baton",
            "Baton.example",
            "10.1.2.3",
            "fe80::1",
            "[fe80::1]",
            "my_host-2.local",
        ] {
            assert!(host_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            " ",
            ".",
            "a..b",
            "https://baton.example",
            "baton.example/",
            "baton.example:443",
            "*.example",
            "[baton]",
            "me@baton",
            "zwei Wörter",
        ] {
            assert!(host_name(bad).is_err(), "{bad}");
        }
    }
}
