//! What the page says about the fleet: events, trend, metrics, health.

use baton_web::Options;
use serde_json::json;

use crate::support::{ANY, Events, Site, start_server, wait_until};

#[test]
fn every_view_is_an_event_and_has_its_trouble() {
    let mut server = start_server();
    let site = Site::on(&server.url(), ANY, Options::default());
    let mut events = Events::of(site.request("GET", "/api/events"));
    let first = events.next().unwrap();
    assert_eq!(first["snapshot"]["fleet"], site.fleet.as_str());
    assert_eq!(first["trouble"], json!(null));
    assert!(first["age_ms"].as_u64().unwrap() < 5000);
    site.fail(1, "no", b"text");
    let second = events.wait_for(|event| event["snapshot"]["errors"] == 1);
    assert!(second["snapshot"]["now_ms"].as_u64() > first["snapshot"]["now_ms"].as_u64());
    assert_eq!(second["point"]["at_ms"], second["snapshot"]["now_ms"]);
    assert!(second["health"]["troubles"].is_array() && second["rates"].is_object());
    let trend = site.get("/api/trend").json();
    assert!(
        trend["points"]
            .as_array()
            .unwrap()
            .contains(&second["point"])
    );

    server.kill9();
    let down = events.wait_for(|event| event["trouble"].is_string());
    assert_eq!(down["snapshot"]["errors"], 1, "the last state stays");
    assert_eq!(down["point"], json!(null));
    assert_eq!(site.get("/readyz").status, 503);
    let age = down["age_ms"].as_u64().unwrap();
    events.wait_for(|event| event["age_ms"].as_u64().unwrap() > age + 100);
    let unhealthy = events.wait_for(|event| event["health"]["troubles"] != json!([]));
    let why = unhealthy["health"]["troubles"][0].as_str().unwrap();
    let (why, _) = why.split_once(" for ").unwrap();
    let health = site.get("/healthz");
    assert_eq!(health.status, 503);
    assert!(health.text().starts_with(why), "{why}: {}", health.text());
    assert_eq!(site.get("/").status, 200, "the page is served all the same");
    assert_eq!(site.get("/api/errors").status, 503);

    server.restart().unwrap();
    let up = events.wait_for(|event| event["trouble"].is_null());
    assert_eq!(up["snapshot"]["errors"], 0);
    wait_until("ready again", || site.get("/readyz").status == 200);
}

#[test]
fn healthz_is_about_the_fleet_and_readyz_about_the_watch() {
    let site = Site::open();
    assert_eq!(site.get("/readyz").text(), "ok\n");
    wait_until("a fleet without a generator is unhealthy", || {
        site.get("/healthz").status == 503
    });
    let why = site.get("/healthz").text();
    assert!(
        why.starts_with("no generator") && why.ends_with('\n'),
        "{why}"
    );
    assert_eq!(site.get("/readyz").status, 200);
}

#[test]
fn a_fleet_that_lacks_a_generator_for_a_short_time_is_well() {
    let site = Site::patient();
    let health = site.get("/healthz");
    assert_eq!((health.status, health.text().as_str()), (200, "ok\n"));
}

#[test]
fn a_node_serves_metrics_and_health_and_nothing_else() {
    let site = Site::node("node7");
    let metrics = site
        .request("GET", "/metrics")
        .host(Some("pod.example"))
        .send();
    assert_eq!(metrics.status, 200);
    assert!(
        metrics.text().contains("node=\"node7\""),
        "{}",
        metrics.text()
    );
    assert!(metrics.header("content-security-policy").is_some());
    assert_eq!(site.get("/readyz").status, 200);
    for path in [
        "/",
        "/login",
        "/api/session",
        "/api/errors",
        "/assets/app.js",
    ] {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    assert_eq!(site.request("POST", "/metrics").send().status, 405);
}
