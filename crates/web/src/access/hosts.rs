//! The host names that the page answers to.
//!
//! Another site can let its own name point at this machine and then read, through the browser of
//! a user here, what is served under "its" name (DNS rebinding). So the page refuses every name
//! that its operator has not allowed, on every address.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::uri::Authority;

use super::origin::PublicUrl;

/// The allowed host names.
pub(crate) enum Hosts {
    /// All: the token protects the page.
    Any,
    /// These, with any port.
    Named(Vec<String>),
}

impl Hosts {
    /// Allows the names of this machine, the listener's address, the hosts of the public URLs, and
    /// the names in `chosen`.
    pub(crate) fn new(
        addr: SocketAddr,
        chosen: &[String],
        public: &[PublicUrl],
        token: bool,
    ) -> Self {
        // The server does not know under which addresses and names clients reach this machine, nor
        // which host a proxy puts into a request; a public URL does not say so either.
        if addr.ip().is_unspecified() && chosen.is_empty() && token {
            return Self::Any;
        }
        let own = ["localhost", "127.0.0.1", "[::1]"];
        let names = own.into_iter().chain(chosen.iter().map(String::as_str));
        let names = names.chain(public.iter().map(PublicUrl::host));
        let mut names: Vec<String> = names.map(normalized).collect();
        names.push(normalized(&addr.ip().to_string()));
        Self::Named(names)
    }

    /// Whether a `Host` header has an allowed name.
    pub(crate) fn allow(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(names) => names.contains(&normalized(host)),
        }
    }
}

/// The host of a request; none if it does not have exactly one.
pub(crate) fn host_of(headers: &HeaderMap) -> Option<&str> {
    let mut hosts = headers.get_all(HOST).into_iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        _ => None,
    }
}

/// A host in one form, without its port.
fn normalized(host: &str) -> String {
    let host = host.trim();
    if let Ok(ip) = host.parse::<IpAddr>() {
        return ip.to_string();
    }
    let Ok(authority) = host.parse::<Authority>() else {
        // No valid header is equal to this.
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
    fn only_chosen_names_are_allowed() {
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
    fn every_name_is_allowed_only_on_all_addresses_without_chosen_names_and_with_a_token() {
        assert!(hosts("0.0.0.0:1", &[], true).allow("any.example"));
        assert!(hosts("[::]:1", &[], true).allow("any.example"));
        assert!(!hosts("0.0.0.0:1", &[], false).allow("any.example"));
        assert!(!hosts("0.0.0.0:1", &["one.example"], true).allow("any.example"));
        assert!(!hosts("127.0.0.1:1", &[], true).allow("any.example"));
    }
}
