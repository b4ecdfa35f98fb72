//! Host names and headers: the names that the page answers to, and what every answer tells
//! browsers.

use baton_web::Options;

use crate::support::{Site, TOKEN, start_server, wait_until};

#[test]
fn a_name_that_is_not_allowed_is_refused() {
    let site = Site::with(Options {
        hosts: vec!["baton.example".to_owned()],
        ..Options::default()
    });
    let by = |host: Option<&str>, path: &str| site.request("GET", path).host(host).send().status;
    for path in ["/", "/login", "/assets/app.js", "/api/session", "/metrics"] {
        for host in ["localhost", "127.0.0.1:99", "[::1]:80", "Baton.Example:443"] {
            let status = by(Some(host), path);
            assert!(status < 400, "{host} {path} {status}");
        }
        for host in [
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "",
        ] {
            assert_eq!(by(Some(host), path), 421, "{host} {path}");
        }
        assert_eq!(by(None, path), 421, "{path}");
    }
    assert_eq!(by(Some("evil.example"), "/no/such/path"), 421);
    // A second name, in a second header or in the first line.
    let two = site.request("GET", "/").header("Host", "evil.example");
    assert_eq!(two.send().status, 421);
    assert_eq!(site.get("http://evil.example/").status, 421);
    // Probes use any name.
    assert_eq!(by(Some("10.0.0.1"), "/readyz"), 200);
    assert_ne!(by(Some("10.0.0.1"), "/healthz"), 421);
}

#[test]
fn on_all_addresses_the_token_protects_whatever_the_name() {
    let server = start_server();
    let options = Options {
        token: Some(TOKEN.to_owned()),
        ..Options::default()
    };
    let site = Site::on(&server.url(), "0.0.0.0:0", options);
    let ask = site
        .request("GET", "/api/session")
        .host(Some("any.example"));
    assert_eq!(ask.clone().send().status, 401);
    let ask = ask.header("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(ask.send().status, 200);
}

#[test]
fn every_answer_tells_browsers_what_they_may_do() {
    let site = Site::locked();
    let cookie = site.log_in();
    let known = |path: &str| site.request("GET", path).header("Cookie", &cookie);
    let answers = [
        (known("/"), 200),
        (known("/api/session"), 200),
        (known("/api/trend"), 200),
        (known("/api/errors"), 200),
        (known("/api/errors?limit=x"), 400),
        (known("/metrics"), 200),
        (site.request("GET", "/"), 303),
        (site.request("GET", "/login"), 200),
        (site.request("GET", "/api/session"), 401),
        (site.request("POST", "/login"), 415),
        (site.request("GET", "/assets/app.js"), 200),
        (site.request("GET", "/assets/none.js"), 404),
        (site.request("GET", "/none"), 404),
        (site.request("DELETE", "/login"), 405),
        (site.request("GET", "/").host(Some("evil.example")), 421),
        (site.request("GET", "/healthz"), 503),
        (site.request("GET", "/readyz"), 200),
        (site.request("HEAD", "/login"), 200),
    ];
    // A fleet without a generator is unhealthy after a while.
    wait_until("unhealthy", || site.get("/healthz").status == 503);
    for (request, status) in answers {
        let answer = request.send();
        assert_eq!(answer.status, status, "{answer:?}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
        assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{answer:?}");
        }
        let asset = answer.header("etag").is_some();
        let caching = if asset { "no-cache" } else { "no-store" };
        assert_eq!(answer.header("cache-control"), Some(caching), "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn a_browser_that_has_a_file_is_not_sent_it_again() {
    let site = Site::open();
    let first = site.get("/assets/app.js");
    assert_eq!(
        first.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    let tag = first.header("etag").unwrap();
    let again = |tag: &str| {
        let ask = site.request("GET", "/assets/app.js");
        ask.header("If-None-Match", tag).send()
    };
    assert_eq!((again(tag).status, again(tag).text().as_str()), (304, ""));
    assert_eq!(again("\"other\"").status, 200);
}

#[test]
fn only_known_methods_are_answered() {
    let site = Site::acting();
    for path in ["/", "/api/session", "/api/errors", "/metrics", "/healthz"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            assert_eq!(
                site.request(method, path).send().status,
                405,
                "{method} {path}"
            );
        }
        let head = site.request("HEAD", path).send();
        assert!(head.status < 400 || path == "/healthz", "{path}");
        assert_eq!(head.text(), "", "{path}");
    }
    let settle = site.action("/api/errors/settle", &serde_json::json!({}), &site.csrf());
    assert_eq!(settle.send().status, 400);
    assert_eq!(site.get("/api/errors/settle").status, 405);
}
