//! What the programs `figures` and `peers` share: the `baton` beside them, servers and fleets, and
//! the document that has their tables.

mod document;
mod servers;

pub use document::Section;
pub use servers::ServerProgram;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use baton_processes::Fleet;
use baton_server::PrivateServer;
use tokio::runtime::Runtime;

/// Longest wait for copies to be ready, and for any progress.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Where `scripts/setup-servers` puts the programs, seen from the folder that cargo builds into.
const SERVERS: &str = "tools/servers";
/// How long a worker of [`slow_fleet`] pretends to handle a message.
pub const SLOW_WORK: Duration = Duration::from_millis(300);

/// The `baton` that was built beside this program.
pub fn program() -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name("baton");
    if !beside.exists() {
        bail!("{} is missing: build it first", beside.display());
    }
    Ok(beside)
}

/// A private server without persistence.
pub fn server() -> Result<PrivateServer> {
    PrivateServer::builder()
        .start()
        .context("cannot start a private server")
}

/// Every server program that this machine has for tests. Without any, or if the environment names
/// one, the program that all other figures use.
pub fn server_programs() -> Result<Vec<PathBuf>> {
    let exe = std::env::current_exe()?.canonicalize()?;
    let mut listed = exe
        .ancestors()
        .find_map(|folder| folder.join(SERVERS).read_dir().ok());
    if std::env::var_os(baton_server::PROGRAM_VARIABLE).is_some() {
        listed = None;
    }
    let files = listed.into_iter().flatten().filter_map(Result::ok);
    let mut programs: Vec<PathBuf> = files.map(|file| file.path()).collect();
    programs.sort();
    if programs.is_empty() {
        programs.push(baton_server::find_program()?);
    }
    Ok(programs)
}

/// A fleet of `count` copies that know their roles. Blanks separate the arguments of `baton run`.
pub fn fleet(program: &Path, server: &PrivateServer, count: usize, args: &str) -> Result<Fleet> {
    fleet_at(program, &server.url(), count, args)
}

/// Like [`fleet`], at the server of that URL.
pub fn fleet_at(program: &Path, url: &str, count: usize, args: &str) -> Result<Fleet> {
    let all: Vec<&str> = ["--redis", url]
        .into_iter()
        .chain(args.split(' '))
        .collect();
    let mut fleet = Fleet::new(program, &all);
    fleet.start_many(count, TIMEOUT)?;
    Ok(fleet)
}

/// A fleet in which about one worker is busy at a time.
pub fn slow_fleet(program: &Path, server: &PrivateServer) -> Result<Fleet> {
    let work = format!("--interval 1s --work {}ms", SLOW_WORK.as_millis());
    fleet(program, server, 4, &work)
}

/// A runtime on the calling thread.
pub fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}
