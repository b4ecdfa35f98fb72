//! The abilities of this process's terminal.

use std::ffi::OsString;
use std::io::{IsTerminal, stdin, stdout};

/// Whether stdin and stdout are a terminal that can draw a view and read keys.
pub(crate) fn is_interactive() -> bool {
    stdin().is_terminal() && has_screen()
}

/// Whether stdout is a terminal that understands escape sequences.
pub(crate) fn has_screen() -> bool {
    stdout().is_terminal() && !is_dumb()
}

/// Whether texts on stdout may have colours: it is such a terminal, and the user has not set
/// `NO_COLOR`, see <https://no-color.org>.
pub(crate) fn has_colours() -> bool {
    has_screen() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the terminal says that it only appends, as the shell of an editor does.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM") == Some(OsString::from("dumb"))
}
