//! The token: who knows it, how it is shown, what it protects.

use baton_web::{Listener, Options};

use crate::support::{Events, PATIENCE, Site, TOKEN, idle_watch, wait_until};

const PROTECTED: [&str; 6] = [
    "/api/session",
    "/api/events",
    "/api/trend",
    "/api/errors",
    "/api/errors/00000000000000000000000000000000?look=x",
    "/metrics",
];

#[test]
fn without_the_token_nothing_is_told() {
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
    for path in ["/api/errors/read", "/api/errors/settle"] {
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
fn who_logs_in_has_a_session_until_logging_out() {
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

    let out = site.request("POST", "/logout").header("Cookie", cookie);
    let out = out.send();
    assert_eq!((out.status, out.header("location")), (303, Some("/login")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(ask("/api/session").send().status, 401);
    // A stream that was open ends as well.
    wait_until("the stream ends", || events.next().is_none());
}

#[test]
fn a_program_shows_the_token_itself() {
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
fn another_site_cannot_log_anybody_in() {
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
fn guesses_are_held_up_and_soon_not_looked_at() {
    let site = Site::locked();
    let cookie = site.log_in();
    let guesses: Vec<_> = (0..60)
        .map(|guess| {
            site.request("GET", "/metrics")
                .header("Authorization", &format!("Bearer {guess}"))
                .header("Connection", "close")
                .start()
        })
        .collect();
    let refused = guesses.into_iter().filter(|mut guess| {
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut guess, &mut answer).unwrap();
        answer.starts_with("HTTP/1.1 429 ")
    });
    assert!(refused.count() > 20);
    // Who was in before does not notice.
    let session = site
        .request("GET", "/api/session")
        .header("Cookie", &cookie);
    assert_eq!(session.send().status, 200);
}

#[test]
fn a_page_without_a_token_is_for_this_machine_only() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let refused = runtime.block_on(async {
        let listener = Listener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let served = listener.page(idle_watch(), Options::default());
        tokio::time::timeout(PATIENCE, served).await.unwrap()
    });
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[test]
fn options_do_not_show_the_token() {
    let options = Options {
        token: Some(TOKEN.to_owned()),
        ..Options::default()
    };
    assert!(!format!("{options:?}").contains(TOKEN));
}
