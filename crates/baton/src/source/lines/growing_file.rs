//! A file that grows. A disk may be slow: all calls run on a thread that may block.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::line_cursor::{Fingerprint, LineCursor, PRINT_BYTES};
use crate::source::SourceError;

/// Max bytes that one read takes.
const READ_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub(super) struct GrowingFile {
    path: PathBuf,
    file: Arc<File>,
}

/// What lies behind a place.
pub(super) enum Read {
    /// None if the file ends there.
    Bytes(Vec<u8>),
    /// The file is shorter than that, or other bytes come before.
    Changed,
}

/// What lies at a path.
pub(super) enum Found {
    Same,
    Another,
    Nothing,
}

impl GrowingFile {
    pub(super) async fn open(path: &Path) -> Result<Self, SourceError> {
        let owned = path.to_owned();
        let opened = blocking(path, move || {
            // Another kind of file, such as a pipe, may block for ever.
            if !owned.metadata()?.is_file() {
                return Err(io::Error::other("it is no regular file"));
            }
            File::open(owned)
        });
        Ok(Self {
            file: Arc::new(opened.await?),
            path: path.to_owned(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// This file, if it is the one that the cursor is from.
    pub(super) async fn at(self, cursor: LineCursor) -> Result<Option<Self>, SourceError> {
        let print = self.fingerprint(cursor.offset).await?;
        let is_same = print.bytes() == cursor.offset && print.digest() == cursor.digest;
        Ok(is_same.then_some(self))
    }

    /// The fingerprint of a place, or of the end if that comes before.
    pub(super) async fn fingerprint(&self, offset: u64) -> Result<Fingerprint, SourceError> {
        let file = Arc::clone(&self.file);
        blocking(&self.path, move || {
            let offset = offset.min(file.metadata()?.len());
            let part = offset.min(PRINT_BYTES as u64);
            let first = read_at(&file, 0, part as usize)?;
            let last = read_at(&file, offset - part, part as usize)?;
            Ok(Fingerprint::new(offset, first, last))
        })
        .await
    }

    /// What lies behind a place, if these bytes come right before it.
    pub(super) async fn read(&self, position: u64, before: Vec<u8>) -> Result<Read, SourceError> {
        let file = Arc::clone(&self.file);
        blocking(&self.path, move || {
            let begin = position - before.len() as u64;
            let mut bytes = read_at(&file, begin, before.len() + READ_BYTES)?;
            if !bytes.starts_with(&before) {
                return Ok(Read::Changed);
            }
            bytes.drain(..before.len());
            Ok(Read::Bytes(bytes))
        })
        .await
    }

    /// Compares this file with the one at that path.
    pub(super) async fn compare(&self, path: &Path) -> Result<Found, SourceError> {
        let (file, owned) = (Arc::clone(&self.file), path.to_owned());
        let inode = |it: Metadata| (it.dev(), it.ino());
        blocking(path, move || {
            let found = match owned.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
                found => inode(found?),
            };
            Ok(match found == inode(file.metadata()?) {
                true => Found::Same,
                false => Found::Another,
            })
        })
        .await
    }
}

/// Reads so many bytes, or fewer if the file ends.
fn read_at(file: &File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let (mut buffer, mut read) = (vec![0; bytes], 0);
    while read < bytes {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(read);
    Ok(buffer)
}

/// Runs this on a thread that may block.
async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SourceError> {
    let done = tokio::task::spawn_blocking(work).await?;
    done.map_err(|error| SourceError::Retry(format!("{}: {error}", path.display())))
}
