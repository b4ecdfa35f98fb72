//! How durable a write must be: the flag of every command that writes messages or removes them.

use baton::Durability;

#[derive(clap::Args, Debug)]
pub(crate) struct DurabilityArgs {
    /// What must have a message or its end before it counts: none is the server's memory, fsync its
    /// disk (appendfsync always), replicas:N so many replicas; choose N = all that may be promoted.
    /// While the server cannot give it, a node waits and says so
    #[arg(
        long,
        value_name = "LEVEL",
        env = "BATON_DURABILITY",
        default_value = "none"
    )]
    pub(crate) durability: Durability,
}
