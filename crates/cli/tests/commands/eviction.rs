//! A server that deletes keys when its memory is full.

use baton_server::PrivateServer;

use crate::support::{baton, on, run, three_messages};

fn evicting() -> PrivateServer {
    PrivateServer::builder()
        .config("maxmemory", "100mb")
        .config("maxmemory-policy", "allkeys-lru")
        .start()
        .unwrap()
}

#[test]
fn a_node_refuses_a_server_that_may_delete_messages_and_names_the_policy() {
    let server = evicting();
    let ended = on(&server, &["run"]);
    assert_eq!(
        (ended.code, ended.stderr),
        (
            Some(1),
            format!(
                "baton: fleet default on {}: the server's maxmemory-policy is allkeys-lru: it may \
                 delete messages when its memory is full. Set it to noeviction, or insist with \
                 --allow-eviction\n",
                server.url()
            )
        )
    );
    assert_eq!(keys(&server), 0);
}

#[test]
fn a_node_runs_there_if_the_user_insists() {
    let server = evicting();
    let url = server.url();
    for (fleet, args, variables) in [
        ("typed", &["--allow-eviction"][..], &[][..]),
        ("set", &[], &[("BATON_ALLOW_EVICTION", "1")]),
    ] {
        three_messages(|| {
            let mut command = baton(&["--redis", &url, "--fleet", fleet]);
            command.args(args).envs(variables.iter().copied());
            command
        });
    }
    // The variable can also say no.
    let mut command = baton(&["run", "--redis", &url]);
    command.env("BATON_ALLOW_EVICTION", "0");
    assert_eq!(run(command).code, Some(1));
}

fn keys(server: &PrivateServer) -> u64 {
    redis::cmd("DBSIZE")
        .query(&mut crate::support::redis(server))
        .unwrap()
}
