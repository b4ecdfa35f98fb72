//! Deliberate breaks of a fleet with partitions, one at a time.

use crate::flaw::Flaw as ScriptFlaw;

/// One break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// A generator publishes to the partition that it sealed first before it has sealed the other.
    PublishesBeforeSealed,
    /// A generator seals the first partition, and only reads where the other one stands.
    SkipsSecondSeal,
    /// A generator numbers a partition's messages behind the last number of the other one.
    NumbersFromOther,
    /// A generator opens its source where the first partition says.
    PositionOfFirst,
    /// A generator changes to another partition before all its packs are acknowledged.
    ChangesEarly,
    /// A generator counts only the messages of its own reign.
    CountsOwnOnly,
    /// Of two positions, a generator takes that with more messages: a cursor alone does not count.
    OrdersByMessages,
    /// A generator that is fenced in one partition gives the same rows to the other.
    FencedGoesOn,
    /// A generator whose seal is refused takes its next lease under the same epoch.
    SealsUnderSameEpoch,
    /// A generator that asks for confirmations opens its source before its seals are confirmed.
    SealUnconfirmed,
    /// A generator that asks for confirmations changes to another partition before its packs are
    /// confirmed.
    ChangesUnconfirmed,
    /// A generator that has sent its copies goes on elsewhere before it knows that they are parked.
    GoesOnUnparked,
    /// A generator goes on elsewhere when some of its packs are parked, and a newer one is not.
    ParksSome,
    /// A successor does not read what is parked.
    IgnoresParked,
    /// A successor publishes all that is parked, under new numbers.
    RenumbersParked,
    /// A successor removes the copies before their partition has accepted the packs.
    RemovesEarly,
    /// A generator whose cursor alone is accepted removes the copy with the same first number: that of the
    /// pack behind it.
    CursorRemovesCopy,
    /// A successor reads what is parked when it has sealed one partition.
    ReadsParkedEarly,
    /// A source that fails after its packs were parked is opened again before them.
    ReopensBeforeParked,
    /// A parked pack that is accepted late takes the place at which a failed source is opened again back.
    StoredGoesBack,
    /// A generator whose node keeps packs of its reign before, which are parked nowhere, goes on in the
    /// other partition before they are accepted.
    GoesOnBesideKept,
    /// A break of the scripts.
    Script(ScriptFlaw),
}

impl Flaw {
    /// All of them, with those of the scripts that a property here is meant for.
    pub const ALL: [Self; 25] = [
        Self::PublishesBeforeSealed,
        Self::SkipsSecondSeal,
        Self::NumbersFromOther,
        Self::PositionOfFirst,
        Self::ChangesEarly,
        Self::CountsOwnOnly,
        Self::OrdersByMessages,
        Self::FencedGoesOn,
        Self::SealsUnderSameEpoch,
        Self::SealUnconfirmed,
        Self::ChangesUnconfirmed,
        Self::GoesOnUnparked,
        Self::ParksSome,
        Self::IgnoresParked,
        Self::RenumbersParked,
        Self::RemovesEarly,
        Self::CursorRemovesCopy,
        Self::ReadsParkedEarly,
        Self::ReopensBeforeParked,
        Self::StoredGoesBack,
        Self::GoesOnBesideKept,
        Self::Script(ScriptFlaw::NoFence),
        Self::Script(ScriptFlaw::EpochOnlyFence),
        Self::Script(ScriptFlaw::NumbersWithHoles),
        Self::Script(ScriptFlaw::ParkUnfenced),
    ];

    /// The break of the scripts, if it is one.
    pub(super) fn of_scripts(self) -> Option<ScriptFlaw> {
        match self {
            Self::Script(flaw) => Some(flaw),
            _ => None,
        }
    }
}
