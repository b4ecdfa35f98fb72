//! A pseudo-terminal.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a terminal of this size: the end of the test, and the end of the program.
pub(crate) fn open(rows: u16, columns: u16) -> (OwnedFd, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    // A program that had the test's end too would never see it close.
    rustix::io::fcntl_setfd(&terminal, rustix::io::FdFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let path = ptsname(&terminal, Vec::new()).unwrap();
    let inner = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits().try_into().unwrap())
        .open(path.to_str().unwrap())
        .unwrap();
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&inner, size).unwrap();
    (terminal, inner)
}
