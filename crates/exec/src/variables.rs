//! What the environment of a command has beside its node's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::Message;

/// The variables of every command that handles a message. Its other variables are those of its node, but
/// for those of a service manager.
pub const VARIABLES: [&str; 6] = [
    "BATON_SEQ",
    "BATON_PARTITION",
    "BATON_KEY",
    "BATON_ATTEMPT",
    "BATON_DEADLINE_MS",
    EFFECTS,
];
/// The variables of a command that is a source.
pub const SOURCE_VARIABLES: [&str; 2] = [NEXT, RUN];
/// The variable with the path of the effects file.
pub(crate) const EFFECTS: &str = "BATON_EFFECTS";
/// The variable with the number of the next message.
pub(crate) const NEXT: &str = "BATON_NEXT";
/// The variable with a name for this run of a source.
pub(crate) const RUN: &str = "BATON_RUN";

/// The variables by which a service manager talks with the node. They are not for its commands: a
/// command that said that it is ready would say so for the node.
pub(crate) const SERVICE_MANAGER: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The variables of a command that handles this message within this time, but for the effects file.
pub(crate) fn of(message: Message<'_>, timeout: Duration) -> Vec<(String, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let deadline = now.unwrap_or_default().saturating_add(timeout);
    let values = [
        message.seq.to_string(),
        message.partition.to_string(),
        message.key().to_string(),
        message.attempt.to_string(),
        deadline.as_millis().to_string(),
    ];
    VARIABLES
        .map(str::to_owned)
        .into_iter()
        .zip(values)
        .collect()
}
