//! Deliberate breaks of the protocol, one at a time: a check that finds none of them proves
//! nothing. Each is what one plausible slip in a script or a node would do.

/// One break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// `publish` believes whoever calls.
    NoFence,
    /// `seal` and `publish` compare epochs, not nodes.
    EpochOnlyFence,
    /// `publish` accepts any number above the last.
    NumbersWithHoles,
    /// `publish` does not store where the schedule stands.
    CursorNotKept,
    /// `claim` reads the head of the queue and leaves it there.
    ClaimLeavesQueue,
    /// `commit` does not compare the claim's number.
    CommitAnyClaim,
    /// `commit` does not compare the first message.
    CommitAnyRange,
    /// `commit` keeps the claim.
    CommitKeepsClaim,
    /// `commit` does not recognise its own repetition.
    CommitForgets,
    /// `commit` deletes the pack although messages of it have not ended.
    CommitDropsPack,
    /// `commit` ends all that the claim holds, whatever it was asked to end.
    CommitEndsAll,
    /// `reclaim` puts the messages back and leaves the claim.
    ReclaimLeavesClaim,
    /// `reclaim` does not note that the worker may have died.
    ForgetSuspects,
    /// `claim` and `reclaim` count a suspect that is present as dead.
    BlameTheLiving,
    /// A lease or a claim that a wrong clock made holds until that clock's time.
    BelieveFarFuture,
    /// `errors_claim` marks the records as held and keeps no claim on them.
    DrainWithoutClaim,
    /// `errors_claim` takes records that another drain holds.
    DrainTakesHeld,
    /// `errors_commit` drops the records that were not printed, too.
    DrainDropsRest,
    /// `errors_settle` takes a record that a drain holds.
    SettleTakesHeld,
    /// `errors_settle` gives a message to the workers and leaves its record.
    RetryKeepsRecord,
    /// `errors_settle` does not count what it gives to the workers.
    RetryUncounted,
    /// `errors_settle` puts a message back into its pack, which does not wait for it.
    RetryOutnumbersPack,
    /// A generator that hears no answer publishes the texts again under a new number.
    RetryUnderNewNumber,
    /// A worker that hears no answer to its commit takes it for done.
    CommitUnheard,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::NoFence,
        Self::EpochOnlyFence,
        Self::NumbersWithHoles,
        Self::CursorNotKept,
        Self::ClaimLeavesQueue,
        Self::CommitAnyClaim,
        Self::CommitAnyRange,
        Self::CommitKeepsClaim,
        Self::CommitForgets,
        Self::CommitDropsPack,
        Self::CommitEndsAll,
        Self::ReclaimLeavesClaim,
        Self::ForgetSuspects,
        Self::BlameTheLiving,
        Self::BelieveFarFuture,
        Self::DrainWithoutClaim,
        Self::DrainTakesHeld,
        Self::DrainDropsRest,
        Self::SettleTakesHeld,
        Self::RetryKeepsRecord,
        Self::RetryUncounted,
        Self::RetryOutnumbersPack,
        Self::RetryUnderNewNumber,
        Self::CommitUnheard,
    ];
}
