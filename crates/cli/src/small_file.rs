//! Files that the command line names and that are short: passwords, tokens, headers, certificates.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Max bytes of such a file. One that has more, or never ends, is not the one that was meant.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a short file.
pub(crate) fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let length = File::open(file)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    match length as u64 > MAX_BYTES {
        true => Err(io::Error::other(format!(
            "it has more than {MAX_BYTES} bytes"
        ))),
        false => Ok(bytes),
    }
}

/// Reads a short file of text.
pub(crate) fn read_text(file: &Path) -> io::Result<String> {
    String::from_utf8(read(file)?).map_err(|_| io::Error::other("it is not valid UTF-8"))
}
