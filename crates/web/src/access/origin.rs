//! Whether our own page sent a request that changes something, or another site in the same browser.
//!
//! A browser says so in two headers that no page can forge; both must agree.
//!
//! `Sec-Fetch-Site` compares the page with the address that the browser asked, so a proxy cannot
//! blur it. But browsers send it only over TLS or to this machine, and a name that another site
//! points at this machine counts as "the same origin", too.
//!
//! `Origin` names the page. It is our page if it is the host of the request. Where a proxy puts
//! another host into the request, it is our page if it is one of the public URLs.
//!
//! `X-Forwarded-Host` and similar headers prove nothing, because any client can send them. The
//! server does not read them.

use std::str::FromStr;

use axum::http::Uri;
use axum::http::header::{HeaderMap, HeaderValue, ORIGIN};
use axum::http::uri::Scheme;

use super::hosts::host_of;

/// The address of the page behind a proxy, such as `https://baton.example`.
///
/// ```
/// let url: baton_web::PublicUrl = "https://baton.example".parse()?;
/// # Ok::<(), &'static str>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// As browsers write it: in lower case, without the default port.
    origin: String,
    host: String,
}

impl PublicUrl {
    /// Its host name.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Whether browsers reach it over TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.origin.starts_with("https:")
    }
}

impl FromStr for PublicUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "a public URL is http or https, a name, and a port if need be, such as \
             https://baton.example";
        let uri: Uri = text.parse().map_err(|_| FORM)?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(FORM);
        };
        if uri.path() != "/" || uri.query().is_some() {
            return Err("the page needs a name of its own: it cannot be served below a path");
        }
        let usual = match scheme {
            scheme if *scheme == Scheme::HTTP => 80,
            scheme if *scheme == Scheme::HTTPS => 443,
            _ => return Err(FORM),
        };
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(FORM);
        }
        let rest = authority.as_str().strip_prefix(authority.host());
        let port = match rest.map(|rest| rest.strip_prefix(':').map(str::parse::<u16>)) {
            Some(None) => String::new(),
            Some(Some(Ok(port))) if port == usual => String::new(),
            Some(Some(Ok(port))) => format!(":{port}"),
            _ => return Err(FORM),
        };
        let host = authority.host().to_ascii_lowercase();
        Ok(Self {
            origin: format!("{scheme}://{host}{port}"),
            host,
        })
    }
}

/// Refuses a request that another site's page has sent, according to the browser. A request
/// without these headers passes only if its sender knows the token.
pub(crate) fn check(
    public: &[PublicUrl],
    headers: &HeaderMap,
    has_token: bool,
) -> Result<(), String> {
    let site = site(headers);
    if site.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Err("another site has sent this".to_owned());
    }
    match headers.get(ORIGIN) {
        Some(origin) if is_ours(public, origin, headers) => Ok(()),
        Some(origin) => Err(foreign_origin(origin)),
        None if site.is_some() || has_token => Ok(()),
        None => Err("no browser says that this page has sent this".to_owned()),
    }
}

fn is_ours(public: &[PublicUrl], origin: &HeaderValue, headers: &HeaderMap) -> bool {
    let Ok(origin) = origin.to_str() else {
        return false;
    };
    let parsed: Option<Uri> = origin.parse().ok();
    let authority = parsed.as_ref().and_then(Uri::authority);
    let asked = host_of(headers);
    let same = authority
        .zip(asked)
        .is_some_and(|(authority, asked)| authority.as_str().eq_ignore_ascii_case(asked));
    same || public.iter().any(|public| public.origin == origin)
}

/// A refusal that names the setting which the operator of a proxy needs.
fn foreign_origin(origin: &HeaderValue) -> String {
    let url = origin.to_str().ok();
    match url.and_then(|url| url.parse::<PublicUrl>().ok()) {
        Some(PublicUrl { origin, .. }) => format!(
            "{origin} has sent this, which is another site; if it is the address of this page behind \
             a proxy, start the page with --public-url {origin}"
        ),
        None => "another site has sent this".to_owned(),
    }
}

/// Whether, according to the browser, another site's page has sent a form. The origin does not
/// identify our own login page: browsers send `null` because of its referrer policy.
pub(crate) fn is_cross_site(headers: &HeaderMap) -> bool {
    matches!(site(headers), Some("cross-site" | "same-site"))
}

fn site(headers: &HeaderMap) -> Option<&str> {
    headers
        .get("sec-fetch-site")
        .map(|site| site.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn a_public_url_is_written_as_browsers_write_an_origin() {
        for (text, origin, host) in [
            (
                "https://Baton.Example",
                "https://baton.example",
                "baton.example",
            ),
            (
                "https://baton.example:443/",
                "https://baton.example",
                "baton.example",
            ),
            (
                "http://baton.example:8080",
                "http://baton.example:8080",
                "baton.example",
            ),
            ("http://[::1]:80", "http://[::1]", "[::1]"),
        ] {
            let url: PublicUrl = text.parse().unwrap();
            assert_eq!((url.origin.as_str(), url.host()), (origin, host));
        }
        for bad in [
            "",
            "baton.example",
            "//baton.example",
            "ftp://baton.example",
            "https://user@baton.example",
            "https://baton.example/path",
            "https://baton.example/?query",
            "https://baton.example:99999",
            "https://",
        ] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn both_headers_must_agree_that_the_page_is_ours() {
        let public = ["https://baton.example".parse().unwrap()];
        let host = ("host", "127.0.0.1:7070");
        let passes = |list: &[(&'static str, &str)], has_token| {
            let mut list = list.to_vec();
            list.push(host);
            check(&public, &headers(&list), has_token).is_ok()
        };
        for good in [
            &[("origin", "http://127.0.0.1:7070")][..],
            &[("origin", "https://baton.example")],
            &[
                ("origin", "https://baton.example"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("sec-fetch-site", "same-origin")],
        ] {
            assert!(passes(good, false), "{good:?}");
        }
        for bad in [
            &[("origin", "http://baton.example")][..],
            &[("origin", "https://baton.example:8443")],
            &[("origin", "https://baton.example.evil")],
            &[
                ("origin", "https://evil.example"),
                ("x-forwarded-host", "evil.example"),
            ],
            &[
                ("origin", "https://evil.example"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[
                ("origin", "https://baton.example"),
                ("sec-fetch-site", "same-site"),
            ],
            &[
                ("origin", "http://127.0.0.1:7070"),
                ("sec-fetch-site", "cross-site"),
            ],
            &[("origin", "null")],
            &[("sec-fetch-site", "")],
        ] {
            assert!(!passes(bad, false) && !passes(bad, true), "{bad:?}");
        }
        assert!(passes(&[], true) && !passes(&[], false));
    }

    #[test]
    fn a_refusal_names_the_setting_for_the_owner_of_a_proxy() {
        let refused = |origin: &str| {
            let headers = headers(&[("origin", origin), ("host", "localhost")]);
            check(&[], &headers, false).unwrap_err()
        };
        let told = refused("https://baton.example");
        assert!(
            told.ends_with("--public-url https://baton.example"),
            "{told}"
        );
        assert_eq!(refused("null"), "another site has sent this");
    }
}
