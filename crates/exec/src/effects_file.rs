//! The file in which a command asks for effects.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton::Effects;
use rustix::fs::OFlags;

/// Max bytes of the file.
const MAX_BYTES: u64 = Effects::MAX_LINES_BYTES as u64;
/// The reason while no command can ask for effects.
pub(crate) const NO_FOLDER: &str = "the folder of effects is gone";

/// Why there is no file with effects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// The folder of all effects is gone. No message is to blame.
    NoFolder,
    /// Another attempt may help.
    Missing(String),
    /// The command wrote what no attempt would mend.
    Wrong(String),
}

/// Makes the file before its command starts. If it is missing at the end, effects may be lost with it.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    match File::create_new(path) {
        Err(_) if !has_folder(path) => Err(io::Error::other(NO_FOLDER)),
        created => created.map(drop),
    }
}

/// Reads the file of a command that has ended.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Unreadable> {
    // The command may have put a pipe or a link in its place, and no open may block the node.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = opened.map_err(|error| why_not_opened(path, &error))?;
    if !file.metadata().is_ok_and(|file| file.is_file()) {
        return Err(not_a_file());
    }
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            let reason = "$BATON_EFFECTS has more than 1 MiB";
            Err(Unreadable::Wrong(reason.to_owned()))
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(cannot_read(&error)),
    }
}

fn why_not_opened(path: &Path, error: &io::Error) -> Unreadable {
    if !has_folder(path) {
        return Unreadable::NoFolder;
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => not_a_file(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Unreadable::Missing("$BATON_EFFECTS was removed".to_owned())
        }
        _ => cannot_read(error),
    }
}

/// Whether the file's folder is there and this process may enter it.
fn has_folder(path: &Path) -> bool {
    let inside = path.parent().map(|folder| folder.join("."));
    inside.is_some_and(|inside| inside.exists())
}

fn not_a_file() -> Unreadable {
    Unreadable::Wrong("$BATON_EFFECTS is not a file any more".to_owned())
}

fn cannot_read(error: &io::Error) -> Unreadable {
    Unreadable::Missing(format!("cannot read $BATON_EFFECTS: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_and_anything_else_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let removed = "$BATON_EFFECTS was removed".to_owned();
        assert_eq!(read(&path("none")), Err(Unreadable::Missing(removed)));
        assert_eq!(read(&path("none/file")), Err(Unreadable::NoFolder));
        create(&path("empty")).unwrap();
        assert_eq!(read(&path("empty")), Ok(Vec::new()));
        let taken = create(&path("empty")).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        let nowhere = create(&path("none/file")).unwrap_err();
        assert_eq!(nowhere.to_string(), NO_FOLDER);
        fs::write(path("file"), "[]\n").unwrap();
        assert_eq!(read(&path("file")), Ok(b"[]\n".to_vec()));

        let at_most = vec![b'\n'; MAX_BYTES as usize];
        fs::write(path("large"), &at_most).unwrap();
        assert_eq!(read(&path("large")), Ok(at_most));
        fs::write(path("too large"), vec![b'\n'; MAX_BYTES as usize + 1]).unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        let mkfifo = std::process::Command::new("mkfifo")
            .arg(path("fifo"))
            .status();
        assert!(mkfifo.unwrap().success());
        fs::create_dir(path("folder")).unwrap();
        for (name, reason) in [
            ("too large", "more than 1 MiB"),
            ("link", "not a file"),
            ("fifo", "not a file"),
            ("folder", "not a file"),
        ] {
            let Err(Unreadable::Wrong(refused)) = read(&path(name)) else {
                panic!("{name} is not refused");
            };
            assert!(refused.contains(reason), "{name}: {refused}");
        }
    }
}
