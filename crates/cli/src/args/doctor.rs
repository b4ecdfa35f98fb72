//! The flags of `doctor`.

use baton::Durability;

use super::FormatArgs;

#[derive(clap::Args)]
pub(crate) struct DoctorArgs {
    /// What a confirmed message must survive: none, fsync or replicas[:N]
    ///
    /// none: nothing in particular; fsync: a power cut of the server; replicas:N: a failover, because N
    /// replicas have the message (1 if you write no number).
    #[arg(
        long,
        value_name = "LEVEL",
        env = "BATON_DURABILITY",
        default_value = "none"
    )]
    pub(crate) durability: Durability,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}
