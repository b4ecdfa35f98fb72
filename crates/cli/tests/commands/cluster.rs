//! A server in cluster mode that is named like a single one is refused by every command, at once and
//! in words.

use baton_server::PrivateServer;

use crate::shared::server_matrix::start_each;
use crate::support::{baton, run};

#[test]
fn every_command_refuses_a_server_in_cluster_mode_at_once() {
    let builder = || PrivateServer::builder().config("cluster-enabled", "yes");
    for (name, server) in start_each(builder) {
        for command in [
            &["run"][..],
            &["status"],
            &["status", "--json"],
            &["status", "--watch"],
            &["errors"],
            &["getErrors"],
            &["clean"],
            &["web", "--http", "127.0.0.1:0"],
            &["web", "--http", "127.0.0.1:0", "--allow-actions"],
        ] {
            let mut program = baton(&["--redis", &server.url()]);
            program.args(command);
            let ended = run(program);
            assert_eq!(ended.code, Some(1), "{name}, {command:?}");
            assert_eq!(ended.stdout, "", "{name}, {command:?}");
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
            for words in ["cluster mode", "redis+cluster://"] {
                ended.complains(words);
            }
        }
    }
}
