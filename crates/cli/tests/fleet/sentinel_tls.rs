//! A master with replicas and Sentinels that speak TLS only and want a certificate and a password. The
//! Sentinels have a user and a password of their own.

use std::process::Command;

use baton_log::RedisState;
use baton_processes::Fleet;
use baton_server::{CertificateAuthority, PrivateServer, SentinelGroup};
use serde_json::Value;

use crate::shared::tool;
use crate::support::{TIMEOUT, is_redis, wait_for, wait_until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_baton");
const SERVERS: &str = "p@ss of the servers";
const SENTINELS: &str = "p@ss of the Sentinels";

#[test]
fn a_fleet_behind_tls_and_passwords_goes_on_when_its_master_dies() {
    let Some(server_program) = tool::tls_server() else {
        return;
    };
    let authority = CertificateAuthority::new("ours").unwrap();
    let servers = PrivateServer::builder()
        .program(server_program)
        .password(SERVERS)
        .tls(authority.certify(&["127.0.0.1"]).unwrap());
    let mut group = SentinelGroup::builder(servers)
        .sentinel_login("watcher", SENTINELS)
        .start()
        .unwrap();
    let url = group.url();
    assert!(url.starts_with("rediss+sentinel://") && url.contains("sentinel_user=watcher"));
    let caller = authority.certify(&["caller"]).unwrap();
    let text = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (text(&caller.ca), text(&caller.cert), text(&caller.key));
    let target = ["--redis", &url, "--tls-ca", &ca, "--tls-cert", &cert];
    let target = [&target[..], &["--tls-key", &key]].concat();
    let password = ("REDIS_PASSWORD".to_owned(), SERVERS.to_owned());
    let args = [&target[..], &["--interval", "5ms"]].concat();
    let mut fleet = Fleet::new(PROGRAM, &args).with_env(&[password]);
    fleet.start_many(3, TIMEOUT).unwrap();
    wait_for(&fleet, 0, "a message", |told| told.is_processed());

    let old = group.agreed_master().unwrap();
    let mark = fleet.mark();
    group.servers[old].kill9();
    wait_for(&fleet, mark, "a node to lose Redis", |told| {
        is_redis(told, RedisState::Lost)
    });
    wait_until("another master", || {
        group.master().is_some_and(|master| master != old)
    });
    let mark = fleet.mark();
    wait_for(&fleet, mark, "a publish", |told| told.is_published());
    wait_for(&fleet, mark, "a commit", |told| told.is_processed());

    let mut status = Command::new(PROGRAM);
    status.args(&target).args(["status", "--json"]);
    let status = status.env("REDIS_PASSWORD", SERVERS).output().unwrap();
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["balanced"], true, "{status}");
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3, "{status}");
}
