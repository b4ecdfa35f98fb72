//! What a supervisor does with every request: the command, its time, where its file is.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// Max bytes of an encoded plan. Linux lets no command line be longer than 2 MiB by default.
const MAX_BYTES: u32 = 8 << 20;

/// What the node tells its supervisor at the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The program and its arguments.
    pub(crate) words: Vec<OsString>,
    /// How long it may run.
    pub(crate) timeout: Duration,
    /// How long it may run on after SIGTERM.
    pub(crate) kill_after: Duration,
    /// The folder of the commands' files. The supervisor removes it at its end.
    pub(crate) folder: PathBuf,
}

impl Plan {
    /// Writes the plan: a length, then texts, each with a NUL behind it. No word of a command line can
    /// have a NUL.
    pub(crate) fn write(&self, mut to: impl Write) -> io::Result<()> {
        let (timeout_ms, kill_after_ms) = (self.timeout.as_millis(), self.kill_after.as_millis());
        let mut bytes = format!("{timeout_ms}\0{kill_after_ms}\0").into_bytes();
        for text in std::iter::once(self.folder.as_os_str())
            .chain(self.words.iter().map(OsString::as_os_str))
        {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
        let length = u32::try_from(bytes.len())
            .ok()
            .filter(|length| *length <= MAX_BYTES);
        let length = length.ok_or_else(|| io::Error::other("the command line is too long"))?;
        to.write_all(&length.to_be_bytes())?;
        to.write_all(&bytes)
    }

    /// Reads a plan.
    pub(crate) fn read(mut from: impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        let mut bytes = Vec::new();
        let read = from.take(u64::from(length)).read_to_end(&mut bytes)?;
        let whole = Some(read) == usize::try_from(length).ok();
        let plan = Self::parse(&bytes).filter(|_| whole);
        plan.ok_or_else(|| io::Error::other("not a plan for commands"))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut texts = bytes.strip_suffix(&[0])?.split(|byte| *byte == 0);
        let mut time = || {
            let ms = str::from_utf8(texts.next()?).ok()?.parse().ok()?;
            Some(Duration::from_millis(ms))
        };
        let (timeout, kill_after) = (time()?, time()?);
        let mut texts = texts.map(|text| OsString::from_vec(text.to_vec()));
        Some(Self {
            timeout,
            kill_after,
            folder: texts.next()?.into(),
            words: texts.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_reads_back_as_it_was_written() {
        let plan = Plan {
            words: ["/bin/sh", "", "a b\nc"]
                .map(OsString::from)
                .into_iter()
                .chain([OsString::from_vec(b"\xff".to_vec())])
                .collect(),
            timeout: Duration::from_secs(60),
            kill_after: Duration::ZERO,
            folder: "/tmp/x".into(),
        };
        let mut bytes = Vec::new();
        plan.write(&mut bytes).unwrap();
        assert_eq!(Plan::read(&bytes[..]).unwrap(), plan);
        assert!(Plan::read(&bytes[..bytes.len() - 1]).is_err());
        assert!(Plan::read(&b"\0\0\0\x02x\0"[..]).is_err());
    }
}
