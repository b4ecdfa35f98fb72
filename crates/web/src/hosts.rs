//! By which names the page may be asked for.
//!
//! A foreign site can let its own name point at this machine and then read, through the
//! browser of somebody here, what is served to "its" name (DNS rebinding). So a name that
//! nobody chose is refused, whatever address it came in on.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::uri::Authority;

use crate::origin::PublicUrl;

/// The names that are answered.
pub(crate) enum Hosts {
    /// All: only who knows the token is told anything.
    Any,
    /// These, with any port.
    Named(Vec<String>),
}

impl Hosts {
    /// The names of this machine, of the address that is listened on, of the public URLs, and
    /// the chosen ones.
    pub(crate) fn new(
        addr: SocketAddr,
        chosen: &[String],
        public: &[PublicUrl],
        token: bool,
    ) -> Self {
        // The server cannot know by which of its addresses and names the machine is reached, nor
        // which host a proxy puts into a request; a public URL does not tell that either.
        if addr.ip().is_unspecified() && chosen.is_empty() && token {
            return Self::Any;
        }
        let own = ["localhost", "127.0.0.1", "[::1]"];
        let names = own.into_iter().chain(chosen.iter().map(String::as_str));
        let names = names.chain(public.iter().map(PublicUrl::host));
        let mut names: Vec<String> = names.map(plain).collect();
        names.push(plain(&addr.ip().to_string()));
        Self::Named(names)
    }

    /// Whether a `Host` header is one of them.
    pub(crate) fn allow(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.contains(&plain(host)),
        }
    }
}

/// The host that was asked for; none if there is not exactly one.
pub(crate) fn host_of(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).into_iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

/// A host in one form, without its port.
fn plain(host: &str) -> String {
    let host = host.trim();
    if let Ok(ip) = host.parse::<IpAddr>() {
        return ip.to_string();
    }
    let Ok(authority) = host.parse::<Authority>() else {
        // No header can be equal to that.
        return host.to_owned();
    };
    if authority.as_str().contains('@') {
        return host.to_owned();
    }
    let host = authority.host();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(ip) => ip.to_string(),
        Err(_) => host.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(addr: &str, chosen: &[&str], token: bool) -> Hosts {
        let chosen: Vec<String> = chosen.iter().map(|name| (*name).to_owned()).collect();
        let public = ["https://public.example".parse().unwrap()];
        Hosts::new(addr.parse().unwrap(), &chosen, &public, token)
    }

    #[test]
    fn only_names_that_somebody_chose_are_allowed() {
        let hosts = hosts("10.1.2.3:7070", &["Baton.example", "fe80::1"], true);
        for good in [
            "localhost",
            "LOCALHOST:7070",
            "127.0.0.1:1",
            "[::1]:7070",
            "[0:0::1]",
            "10.1.2.3:80",
            "baton.example:443",
            "[fe80::1]:9",
            "public.example",
        ] {
            assert!(hosts.allow(good), "{good}");
        }
        for bad in [
            "",
            "evil.example",
            "localhost.evil.example",
            "baton.example.",
            "127.0.0.1.nip.io",
            "10.1.2.4",
            "evil@localhost",
            "localhost@evil",
            "localhost,evil",
            "[::1",
            "127.0.0.2",
        ] {
            assert!(!hosts.allow(bad), "{bad}");
        }
    }

    #[test]
    fn any_name_is_allowed_only_where_none_can_be_known_and_a_token_protects() {
        assert!(hosts("0.0.0.0:1", &[], true).allow("any.example"));
        assert!(hosts("[::]:1", &[], true).allow("any.example"));
        assert!(!hosts("0.0.0.0:1", &[], false).allow("any.example"));
        assert!(!hosts("0.0.0.0:1", &["one.example"], true).allow("any.example"));
        assert!(!hosts("127.0.0.1:1", &[], true).allow("any.example"));
    }
}
