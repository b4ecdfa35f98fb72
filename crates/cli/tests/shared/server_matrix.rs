//! The servers of the test matrix that this machine has.

use std::path::PathBuf;

use baton_server::{PrivateServer, PrivateServerBuilder};

/// Where `scripts/setup-servers` puts the programs, seen from the folder that cargo builds into.
const FOLDER: &str = "tools/servers";

/// Starts every server of the matrix with the settings of `builder`. Without a matrix it starts
/// the server that all other tests use. Each comes with its name, such as `redis-7.0`.
pub(crate) fn start_each(
    builder: impl Fn() -> PrivateServerBuilder,
) -> Vec<(String, PrivateServer)> {
    let start = |program: PathBuf| {
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        let started = builder().program(&program).start();
        let server = started.unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, server)
    };
    programs().into_iter().map(start).collect()
}

fn programs() -> Vec<PathBuf> {
    let exe = std::env::current_exe().unwrap().canonicalize().unwrap();
    let listed = exe
        .ancestors()
        .find_map(|folder| folder.join(FOLDER).read_dir().ok());
    let files = listed.into_iter().flatten().filter_map(Result::ok);
    let mut programs: Vec<PathBuf> = files.map(|file| file.path()).collect();
    programs.sort();
    if programs.is_empty() {
        programs.push(baton_server::find_program().unwrap());
    }
    programs
}
