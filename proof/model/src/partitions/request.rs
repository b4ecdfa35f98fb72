//! What a node asks a partition for.

use super::parking::Parcel;
use super::partition::Progress;
use crate::call::Call;
use crate::state::{Node, ParcelField};

/// A call on its way to a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SentCall {
    pub(super) by: Node,
    pub(super) to: usize,
    pub(super) request: Request,
}

/// A call of a script.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Request {
    /// One that a fleet of one partition has, too. What the fleet has made with it, if it is a publish.
    Script(Call, Progress),
    /// Keeps copies of packs that are for another partition.
    Park { epoch: u64, parcels: Vec<Parcel> },
    /// Removes such copies.
    Unpark {
        epoch: u64,
        fields: Vec<ParcelField>,
    },
}
