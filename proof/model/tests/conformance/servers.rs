//! The servers that the test runs on.

use std::path::PathBuf;

use baton_server::PrivateServer;

/// The folder in which `scripts/setup-servers` puts the programs, below cargo's target folder.
const FOLDER: &str = "tools/servers";

/// Starts every server of the test matrix; without a matrix, the one that all other tests use.
pub(crate) fn start_all() -> Vec<PrivateServer> {
    programs().into_iter().map(start).collect()
}

/// Starts one of them.
pub(crate) fn start_one() -> PrivateServer {
    let last = programs().pop();
    start(last.expect("there is a server"))
}

fn start(program: PathBuf) -> PrivateServer {
    let builder = PrivateServer::builder().unix_socket().program(&program);
    let started = builder.start();
    started.unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

fn programs() -> Vec<PathBuf> {
    let exe = std::env::current_exe().and_then(|exe| exe.canonicalize());
    let exe = exe.expect("this program has a path");
    let listed = exe
        .ancestors()
        .find_map(|folder| folder.join(FOLDER).read_dir().ok());
    let files = listed.into_iter().flatten().filter_map(Result::ok);
    let mut programs: Vec<PathBuf> = files.map(|file| file.path()).collect();
    programs.sort();
    if programs.is_empty() {
        programs.push(baton_server::find_program().expect("make setup fetches a server"));
    }
    programs
}
