//! The embedded server's folder and the files in it.

use std::env;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::{Error, password};

/// The file into which the server writes its pid.
pub(super) const PID_FILE: &str = "server.pid";

/// The file with the server's password.
pub(super) const PASSWORD_FILE: &str = "password";
/// The file with the server's password setting: every user can read a command line.
pub(super) const CONFIG_FILE: &str = "server.conf";

/// The folder for the embedded server's data: `$XDG_DATA_HOME/baton`, else
/// `~/.local/share/baton`; on macOS `~/Library/Application Support/baton`.
///
/// # Errors
///
/// [`Error::NoHome`] if neither is known.
pub fn default_data_dir() -> Result<PathBuf, Error> {
    data_dir_from(
        env::var_os("XDG_DATA_HOME").map(PathBuf::from),
        env::home_dir(),
    )
}

fn data_dir_from(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, Error> {
    // The XDG specification wants relative paths ignored, and an empty one is relative.
    let xdg = xdg.filter(|path| path.is_absolute());
    let below_home = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".local/share"
    };
    let home = home
        .filter(|path| path.is_absolute())
        .map(|home| home.join(below_home));
    Ok(xdg.or(home).ok_or(Error::NoHome)?.join("baton"))
}

/// Creates the folder, readable by its owner only, and returns its real path.
pub(super) fn create(folder: &Path) -> Result<PathBuf, Error> {
    let action = || format!("create the folder {}", folder.display());
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(Error::io(action()))?;
    fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(Error::io(action()))?;
    fs::canonicalize(folder).map_err(Error::io(action()))
}

/// Writes a password for the server to read when it starts. A password that is there stays: nodes
/// that wait for the server to come back know it.
pub(super) fn prepare_password(folder: &Path) -> Result<(), Error> {
    let file = folder.join(PASSWORD_FILE);
    let action = || format!("write the server's password to {}", folder.display());
    let password = match password::read(&file) {
        Some(password) => password,
        None => {
            let password = password::random().map_err(Error::io("make a password"))?;
            password::write_secret(&file, &format!("{password}\n")).map_err(Error::io(action()))?;
            password
        }
    };
    password::write_secret(
        &folder.join(CONFIG_FILE),
        &format!("requirepass {password}\n"),
    )
    .map_err(Error::io(action()))
}

/// Removes the password. After a start that failed, another server may have received it.
pub(super) fn forget_password(folder: &Path) {
    for file in [PASSWORD_FILE, CONFIG_FILE] {
        // If this fails, there is no such file, or the next start reports the reason.
        let _ = fs::remove_file(folder.join(file));
    }
}

/// The pid in the pid file. Another process may have it by now.
pub(super) fn read_pid(folder: &Path) -> Option<u32> {
    fs::read_to_string(folder.join(PID_FILE))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Waits for the folder's lock. Closing the file frees it.
pub(super) fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let action = || format!("lock {}", path.display());
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::io(action()))?;
    flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| Error::io(action())(error.into()))?;
    Ok(file)
}

/// The size of the append-only files: a folder of them, or one file from before Redis 7.
pub(super) fn aof_bytes(folder: &Path) -> u64 {
    let in_folder = fs::read_dir(folder.join("appendonlydir"))
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.metadata().ok());
    let single = fs::metadata(folder.join("appendonly.aof")).ok();
    in_folder
        .chain(single)
        .filter(fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_goes_where_xdg_says_and_else_below_the_home_folder() {
        let from = |xdg: &str, home: &str| {
            data_dir_from(Some(PathBuf::from(xdg)), Some(PathBuf::from(home)))
        };
        assert_eq!(from("/data", "/home/me").unwrap(), Path::new("/data/baton"));
        let below_home = match cfg!(target_os = "macos") {
            true => "/home/me/Library/Application Support/baton",
            false => "/home/me/.local/share/baton",
        };
        assert_eq!(from("", "/home/me").unwrap(), Path::new(below_home));
        assert_eq!(from("relative", "/home/me").unwrap(), Path::new(below_home));
        assert!(matches!(from("", ""), Err(Error::NoHome)));
        assert!(matches!(data_dir_from(None, None), Err(Error::NoHome)));
    }

    #[test]
    fn the_size_of_the_data_is_that_of_all_append_only_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(aof_bytes(folder.path()), 0);

        fs::create_dir(folder.path().join("appendonlydir")).unwrap();
        fs::write(folder.path().join("appendonlydir/a.base.aof"), "12345").unwrap();
        fs::write(folder.path().join("appendonlydir/a.incr.aof"), "123").unwrap();
        fs::write(folder.path().join("server.log"), "not counted").unwrap();
        assert_eq!(aof_bytes(folder.path()), 8);
    }
}
