//! Passwords of the servers that this crate starts. Every user of the machine can reach the
//! loopback interface, so without a password each of them could read and take messages.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Random bytes of a password, written as hexadecimal digits.
const BYTES: usize = 32;

/// A new password that cannot be guessed.
pub(crate) fn random() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The password in a file; `None` if it is missing or incomplete.
pub(crate) fn read(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let password = text.trim_end();
    let whole = password.len() == 2 * BYTES && password.bytes().all(|c| c.is_ascii_hexdigit());
    whole.then(|| password.to_owned())
}

/// Writes a text to a file that only its owner may read. Another process sees the old file or the
/// new one, never a part.
pub(crate) fn write_secret(file: &Path, text: &str) -> io::Result<()> {
    let new = file.with_extension("new");
    // A file that a crash left behind may have other permissions.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?
        .write_all(text.as_bytes())?;
    fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_long_never_the_same_and_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let (first, second) = (random().unwrap(), random().unwrap());
        assert_eq!(first.len(), 64);
        assert_ne!(first, second);

        assert_eq!(read(&file), None);
        for password in [&first, &second] {
            write_secret(&file, &format!("{password}\n")).unwrap();
            assert_eq!(read(&file).as_ref(), Some(password));
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        for torn in ["", "\n", "abc", &"g".repeat(64), &first[..63]] {
            fs::write(&file, torn).unwrap();
            assert_eq!(read(&file), None, "{torn:?}");
        }
    }
}
