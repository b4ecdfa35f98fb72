//! The token: how a caller proves to know it, and what it protects.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use baton_web::{Listener, Options};
use serde_json::json;

use crate::support::{Defer, Events, Site, TIMEOUT, TOKEN, block_on, idle_watch, wait_until};

/// Long for a busy machine, and short for a person who logs in.
const SOON: Duration = Duration::from_secs(5);

const PROTECTED: [&str; 7] = [
    "/api/session",
    "/api/events",
    "/api/trend",
    "/api/errors",
    "/api/errors/1?look=x",
    "/api/errors/take/x/file",
    "/metrics",
];

#[test]
fn without_the_token_no_answer_has_data() {
    let site = Site::locked();
    for path in PROTECTED {
        for request in [
            site.request("GET", path),
            site.request("GET", path)
                .header("Authorization", "Bearer wrong"),
            site.request("GET", path)
                .header("Cookie", "baton_session=00"),
        ] {
            let answer = request.send();
            assert_eq!(answer.status, 401, "{path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            assert!(!answer.text().contains(site.fleet.as_str()), "{path}");
        }
    }
    for path in [
        "/api/errors/take",
        "/api/errors/take/x",
        "/api/errors/settle",
    ] {
        assert_eq!(site.request("POST", path).send().status, 401, "{path}");
    }
    let index = site.get("/");
    assert_eq!(
        (index.status, index.header("location")),
        (303, Some("/login"))
    );
}

#[test]
fn the_login_page_needs_no_token_and_has_no_script() {
    let site = Site::locked();
    let page = site.get("/login");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<form"), "{}", page.text());
    assert!(!page.text().contains("<script"), "{}", page.text());
    assert_eq!(site.get("/assets/app.css").status, 200);
}

#[test]
fn a_session_lasts_from_login_to_logout() {
    let site = Site::locked();
    let wrong = site.log_in_with("not the token");
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    assert!(wrong.text().contains("That is not the token."));

    let right = site.log_in_with(TOKEN);
    let cookie = right.header("set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.split("; ").any(|part| part == attribute), "{cookie}");
    }
    let cookie = cookie.split(';').next().unwrap();
    assert!(!cookie.contains(TOKEN));
    let ask = |path: &str| site.request("GET", path).header("Cookie", cookie);
    assert_eq!(ask("/").send().status, 200);
    assert_eq!(ask("/login").send().header("location"), Some("/"));
    let session = ask("/api/session").send().json();
    assert_eq!(session["login"], true);
    assert_eq!(session["fleet"], site.fleet.as_str());
    assert_eq!(session["csrf"].as_str().unwrap().len(), 64);
    let mut events = Events::of(ask("/api/events"));
    assert!(events.next().is_some());

    let csrf = session["csrf"].as_str().unwrap();
    let out = site.action("/logout", &json!({}), csrf);
    let out = out.header("Cookie", cookie).send();
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(ask("/api/session").send().status, 401);
    // A stream that was open ends as well.
    wait_until("the stream ends", || events.next().is_none());
}

#[test]
fn a_program_sends_the_token_itself() {
    let site = Site::locked();
    let metrics = site
        .request("GET", "/metrics")
        .header("Authorization", &format!("Bearer {TOKEN}"))
        .send();
    assert_eq!(metrics.status, 200);
    let kind = metrics.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    assert!(metrics.text().contains("\nbaton_up{"), "{}", metrics.text());
}

#[test]
fn another_site_cannot_log_a_user_in() {
    let site = Site::locked();
    let foreign = site
        .request("POST", "/login")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("Sec-Fetch-Site", "cross-site")
        .body(format!("token={}", TOKEN.replace(' ', "+")).as_bytes())
        .send();
    assert_eq!((foreign.status, foreign.header("set-cookie")), (403, None));
}

#[test]
fn a_session_counts_whatever_else_a_proxy_sends_along() {
    let site = Site::locked();
    let cookie = site.log_in();
    for other in [
        "Basic dXNlcjpwYXNz",
        "Bearer wrong",
        "Negotiate x",
        "garbage",
    ] {
        let ask = |path: &str| site.request("GET", path).header("Authorization", other);
        for path in ["/", "/api/session"] {
            let known = ask(path).header("Cookie", &cookie).send();
            assert_eq!(known.status, 200, "{other} {path}");
        }
        assert_eq!(ask("/api/session").send().status, 401, "{other} alone");
        let stale = ask("/api/session").header("Cookie", "baton_session=00");
        assert_eq!(stale.send().status, 401, "{other} and a stale cookie");
    }
    // A browser behind Basic auth sends it from the first request on: it must be able to log in.
    let enter = site
        .request("POST", "/login")
        .header("Authorization", "Basic dXNlcjpwYXNz")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(format!("token={}", TOKEN.replace(' ', "+")).as_bytes());
    assert_eq!(enter.send().header("location"), Some("/"));
    // A program that sends two headers is known by the one that is right.
    let both = site
        .request("GET", "/api/session")
        .header("Authorization", "Basic dXNlcjpwYXNz")
        .header("Authorization", &format!("Bearer {TOKEN}"));
    assert_eq!(both.send().status, 200);
}

#[test]
fn the_right_token_gets_in_at_once_whatever_others_guess() {
    let site = Site::locked();
    let over = AtomicBool::new(false);
    let refused = AtomicU64::new(0);
    let guess = |number: usize| {
        while !over.load(Ordering::Relaxed) {
            let wrong = match number % 2 {
                0 => site.log_in_with("not the token"),
                _ => site
                    .request("GET", "/metrics")
                    .header("Authorization", "Bearer not the token")
                    .send(),
            };
            assert!(matches!(wrong.status, 401 | 429), "{}", wrong.status);
            refused.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        // Some 30 guesses per second.
        for number in 0..8 {
            scope.spawn(move || guess(number));
        }
        let _end = Defer(|| over.store(true, Ordering::Relaxed));
        wait_until("guesses", || refused.load(Ordering::Relaxed) > 40);
        for _ in 0..10 {
            let before = Instant::now();
            site.log_in();
            let metrics = site
                .request("GET", "/metrics")
                .header("Authorization", &format!("Bearer {TOKEN}"));
            assert_eq!(metrics.send().status, 200);
            assert!(before.elapsed() < SOON, "{:?}", before.elapsed());
        }
    });
}

#[test]
fn guesses_occupy_few_connections() {
    let site = Site::locked();
    let guesses: Vec<_> = (0..200)
        .map(|guess| {
            site.request("GET", "/metrics")
                .header("Authorization", &format!("Bearer {guess}"))
                .header("Connection", "close")
                .start()
        })
        .collect();
    let mut delayed = 0;
    let mut refused_at_once = 0;
    for mut guess in guesses {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut guess, &mut answer).unwrap();
        match &answer[..13] {
            "HTTP/1.1 401 " => delayed += 1,
            "HTTP/1.1 429 " => refused_at_once += 1,
            other => panic!("{other}"),
        }
    }
    // On a slow machine the first are answered before the last arrive, and others take their place.
    assert!(
        delayed >= 64 && refused_at_once > 0,
        "{delayed} {refused_at_once}"
    );
}

#[test]
fn another_site_cannot_log_a_user_out() {
    let site = Site::locked();
    let cookie = site.log_in();
    let session = |cookie: &str| site.request("GET", "/api/session").header("Cookie", cookie);
    let csrf = session(&cookie).send().json()["csrf"].clone();
    let csrf = csrf.as_str().unwrap();
    let good = site
        .action("/logout", &json!({}), csrf)
        .header("Cookie", &cookie);
    let foreign = "http://evil.example";
    for (bad, why) in [
        (good.clone().without("X-CSRF-Token"), "no proof"),
        (good.clone().without("Origin"), "no origin"),
        (
            good.clone().without("Origin").header("Origin", foreign),
            "another site",
        ),
        (
            good.clone().header("Sec-Fetch-Site", "same-site"),
            "a sibling",
        ),
        (
            site.request("POST", "/logout")
                .header("Cookie", &cookie)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .body(b"x=y"),
            "a form",
        ),
    ] {
        let refused = bad.send();
        assert!(matches!(refused.status, 403 | 415), "{why}: {refused:?}");
        assert_eq!(refused.header("set-cookie"), None, "{why}");
    }
    // Without the cookie, which browsers do not send for another site, the answer takes none away.
    let bare = good.clone().without("Cookie").send();
    assert_eq!((bare.status, bare.header("set-cookie")), (401, None));
    assert_eq!(session(&cookie).send().status, 200);
    assert_eq!(good.send().status, 204);
    assert_eq!(session(&cookie).send().status, 401);
}

#[test]
fn a_page_without_a_token_is_for_this_machine_only() {
    let refused = block_on(async {
        let listener = Listener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let served = listener.page(idle_watch(), Options::default());
        tokio::time::timeout(TIMEOUT, served).await.unwrap()
    });
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[test]
fn the_debug_form_of_options_has_no_token() {
    let options = Options {
        token: Some(TOKEN.to_owned()),
        ..Options::default()
    };
    assert!(!format!("{options:?}").contains(TOKEN));
}
