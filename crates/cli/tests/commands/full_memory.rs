//! A server whose memory is full: the generator cannot publish, and every view says so.

use baton_server::PrivateServer;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::shared::page;
use crate::support::{baton, end, on, read_line, send, server, signal, wait_until};

fn status(server: &PrivateServer) -> Value {
    serde_json::from_str(&on(server, &["status", "--json"]).stdout).unwrap()
}

#[test]
fn a_generator_that_cannot_publish_is_not_ready_and_every_view_says_why() {
    let server = server();
    let url = server.url();
    let run = ["run", "--redis", &url, "--interval", "20ms"];
    let mut node = baton(&[&run[..], &["--http", "127.0.0.1:0"]].concat())
        .spawn()
        .unwrap();
    let line = read_line(node.stderr.as_mut().unwrap());
    let address = page::address_in(&line);
    let answers = |path, code, words: &str| page::answers(address, path, code, words);
    wait_until("a node that is ready", || answers("/readyz", "200", "ok"));
    assert_eq!(status(&server)["publish_troubles"], json!([]));

    send(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    wait_until("a node that is not ready", || {
        let words = "the server refuses the messages of this node: OOM ";
        answers("/readyz", "503", words)
    });
    wait_until("a beat with the reason", || {
        status(&server)["publish_troubles"] != json!([])
    });
    let listed = status(&server);
    let (name, reason) = (
        listed["nodes"][0]["node"].as_str().unwrap(),
        listed["nodes"][0]["publish_trouble"].as_str().unwrap(),
    );
    assert!(reason.starts_with("OOM "), "{reason}");
    let words = format!("the messages of {name} are not accepted: {reason}");
    assert_eq!(listed["publish_troubles"], json!([words]));
    on(&server, &["status"]).says(&format!("warning: {words}\n"));
    assert!(answers("/metrics", "200", "\nbaton_node_publish_trouble{"));
    wait_until("a fleet that is unhealthy", || {
        answers(
            "/healthz",
            "503",
            "the server took no messages of the generator for ",
        )
    });

    send(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    wait_until("a node that is ready again", || {
        answers("/readyz", "200", "ok") && answers("/healthz", "200", "ok")
    });
    wait_until("a beat without a reason", || {
        status(&server)["publish_troubles"] == json!([])
    });
    signal(&node, Signal::TERM);
    assert_eq!(end(node).code, Some(0));
}
