//! The text of a message as a file for a command's stdin.
//!
//! A file, not a pipe: the node writes it once and need not follow how far the command reads. A
//! command that never reads, or that exits before the end, is nothing special.

use std::fs::File;
use std::io::{self, Seek, Write};

/// A file without a name that holds the text. A reader begins at its start.
pub(crate) fn with(text: &[u8]) -> io::Result<File> {
    let mut file = unnamed()?;
    file.write_all(text)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(target_os = "linux")]
fn unnamed() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    Ok(memfd_create("message", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(not(target_os = "linux"))]
fn unnamed() -> io::Result<File> {
    tempfile::tempfile()
}
