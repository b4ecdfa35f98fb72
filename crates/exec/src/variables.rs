//! What the environment of a command has beside its node's.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::leash::Request;

/// The variables of every command. Its other variables are those of its node.
pub const VARIABLES: [&str; 5] = [
    "BATON_SEQ",
    "BATON_KEY",
    "BATON_ATTEMPT",
    "BATON_DEADLINE_MS",
    EFFECTS,
];
/// The variable with the path of the effects file.
pub(crate) const EFFECTS: &str = "BATON_EFFECTS";

/// The variables of one command, whose time is over at `deadline` after 1970.
pub(crate) fn of(
    request: &Request,
    deadline: Duration,
    effects: &Path,
) -> impl Iterator<Item = (&'static str, OsString)> {
    let values = [
        request.seq.to_string().into(),
        request.key.clone().into(),
        request.attempt.to_string().into(),
        deadline.as_millis().to_string().into(),
        effects.as_os_str().to_owned(),
    ];
    VARIABLES.into_iter().zip(values)
}
