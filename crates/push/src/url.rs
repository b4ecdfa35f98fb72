//! Where messages are posted to.

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::{PathAndQuery, Scheme};
use rustls::pki_types::ServerName;

use crate::PushError;

/// The parts of a URL that a request and a connection need.
#[derive(Debug, Clone)]
pub(crate) struct PushUrl {
    /// A name, or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Whom the certificate must name, if it is `https`.
    pub(crate) tls_name: Option<ServerName<'static>>,
    /// Path and query.
    pub(crate) path: PathAndQuery,
    /// Host and port as the URL has them.
    pub(crate) authority: HeaderValue,
}

impl PushUrl {
    /// Reads `http://` and `https://`. The complaint does not repeat the URL, which may hold a
    /// password.
    pub(crate) fn parse(url: &str) -> Result<Self, PushError> {
        Self::read(url).map_err(|problem| {
            let forms = "write http://HOST[:PORT][/PATH] or https://…";
            PushError::Url(format!("{problem}; {forms}"))
        })
    }

    fn read(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("no URL: {error}"))?;
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(_) => return Err("its scheme is neither http nor https".to_owned()),
            None => return Err("it has no scheme".to_owned()),
        };
        let Some(authority) = uri.authority().map(|authority| authority.as_str()) else {
            return Err("it names no host".to_owned());
        };
        if authority.contains('@') {
            return Err("a user name or password in it is not used: send a header".to_owned());
        }
        let host = uri.host().unwrap_or_default();
        let port = match authority.strip_prefix(host) {
            Some("") if is_tls => 443,
            Some("") => 80,
            _ => uri.port_u16().unwrap_or_default(),
        };
        if port == 0 {
            return Err("its port is none".to_owned());
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        let tls_name = is_tls.then(|| ServerName::try_from(host.to_owned()));
        let tls_name = tls_name.transpose().map_err(|error| error.to_string())?;
        let path = uri.path_and_query().cloned();
        Ok(Self {
            host: host.to_owned(),
            port,
            tls_name,
            path: path.unwrap_or_else(|| PathAndQuery::from_static("/")),
            authority: HeaderValue::from_str(authority).map_err(|error| error.to_string())?,
        })
    }

    /// The service's address for people.
    pub(crate) fn place(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        for (url, place, is_tls, path) in [
            ("http://h", "h:80", false, "/"),
            ("HTTP://h:8080/job?a=b#c", "h:8080", false, "/job?a=b"),
            ("https://h.example/x", "h.example:443", true, "/x"),
            ("http://[::1]:81/", "[::1]:81", false, "/"),
            ("https://127.0.0.1", "127.0.0.1:443", true, "/"),
            ("http://h?q", "h:80", false, "/?q"),
        ] {
            let parsed = PushUrl::parse(url).unwrap();
            assert_eq!(parsed.place(), place, "{url}");
            assert_eq!(parsed.tls_name.is_some(), is_tls, "{url}");
            assert_eq!(parsed.path.to_string(), path, "{url}");
        }
    }

    #[test]
    fn any_other_text_is_refused_and_not_repeated() {
        for (url, problem) in [
            ("ftp://h/", "neither http nor https"),
            ("unix:///run/s", "URL"),
            ("localhost:8080", "no scheme"),
            ("/job", "no scheme"),
            ("", "URL"),
            ("http://", "URL"),
            ("http://:80/", "names no host"),
            ("http:///job", "URL"),
            ("http://user:secret@h/", "password in it is not used"),
            ("https://secret@h/", "password in it is not used"),
            ("http://h:0/", "its port is none"),
            ("http://h:70000/", "its port is none"),
            ("http://h:/", "its port is none"),
            ("http://h/a b", "URL"),
            ("https://a..b/", "dns name"),
        ] {
            let error = PushUrl::parse(url).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(problem), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
