//! A program that some tests need and that a machine may lack.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Finds a tool: the program that `variable` names, else the first of `names` that runs with
/// `flag`. If there is none, prints that the tests of it are skipped.
pub(crate) fn find(variable: &str, names: &[&str], flag: &str, skipped: &str) -> Option<PathBuf> {
    let found = match std::env::var_os(variable) {
        Some(program) => Some(PathBuf::from(program)),
        None => names
            .iter()
            .map(PathBuf::from)
            .find(|name| runs(name, flag)),
    };
    if found.is_none() {
        skip(skipped);
    }
    found
}

fn skip(skipped: &str) {
    // Directly to stderr: the test runner would capture `eprintln!`.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {skipped}");
}

/// A server program that speaks TLS. If there is none, prints that the tests of it are skipped.
#[track_caller]
pub(crate) fn tls_server() -> Option<PathBuf> {
    let found = baton_server::find_tls_program();
    if found.is_none() {
        skip("no server that speaks TLS, so no test of one");
    }
    require("server that speaks TLS", found.as_ref());
    found
}

/// Fails a test that lacks a tool where all tools are required.
#[track_caller]
pub(crate) fn require(name: &str, found: Option<&PathBuf>) {
    let required = std::env::var_os("BATON_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(
        found.is_some() || !required,
        "there is no {name}, and BATON_REQUIRE_TOOLS is 1"
    );
}

fn runs(program: &Path, flag: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(flag).stdin(Stdio::null());
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
