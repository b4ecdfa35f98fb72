//! The file in which a command asks for effects.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton::Effects;
use rustix::fs::OFlags;

/// Max bytes of the file.
const MAX_BYTES: u64 = Effects::MAX_LINES_BYTES as u64;

/// Reads the file. It has no bytes if the command did not make it. The error is a reason to reject the
/// message.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    // The command may have put a pipe or a link in its place, and no open may block the node.
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read $BATON_EFFECTS: {error}")),
    };
    if !file.metadata().is_ok_and(|file| file.is_file()) {
        return Err("$BATON_EFFECTS is not a file any more".to_owned());
    }
    let mut bytes = Vec::new();
    match file.take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            Err("$BATON_EFFECTS has more than 1 MiB".to_owned())
        }
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("cannot read $BATON_EFFECTS: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_and_anything_else_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(read(&path("none")), Ok(Vec::new()));
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
            ("link", "cannot read"),
            ("fifo", "not a file"),
            ("folder", "not a file"),
        ] {
            let refused = read(&path(name)).unwrap_err();
            assert!(refused.contains(reason), "{name}: {refused}");
        }
    }
}
