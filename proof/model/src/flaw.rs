//! Deliberate breaks of the protocol, one at a time: a check that finds none of them proves
//! nothing. Each is a plausible mistake in a script or a node.

/// One break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flaw {
    /// `publish` believes every caller.
    NoFence,
    /// `seal` and `publish` compare epochs, not nodes.
    EpochOnlyFence,
    /// `publish` accepts any number above the last.
    NumbersWithHoles,
    /// `publish` does not store where the source stands.
    CursorNotKept,
    /// `publish` stores the cursor of a pack that it refuses.
    CursorWithoutPack,
    /// `publish` stores a cursor alone although messages behind it are accepted.
    CursorGoesBack,
    /// `publish` accepts messages of a paused generator.
    PublishWhilePaused,
    /// `publish` stores the cursor of a paused generator.
    CursorWhilePaused,
    /// `park` believes every caller.
    ParkUnfenced,
    /// `park` removes nothing.
    ParkKeepsRemoved,
    /// `void` believes every caller.
    VoidUnfenced,
    /// `void` accepts any numbers above the last.
    VoidWithHoles,
    /// `void` accepts numbers of a paused generator.
    VoidWhilePaused,
    /// `void` does not count the numbers.
    VoidUncounted,
    /// `void` does not move the last number: a publish gives the numbers again.
    VoidLeavesLast,
    /// `publish` counts void numbers as messages that have not ended.
    VoidTakesRoom,
    /// `beat` does not note a number that the server forgot.
    KnownNotKept,
    /// `seal` does not say which number a node knows.
    SealForgetsKnown,
    /// `beat` takes an expired lease at once, also if the server process has changed.
    NoWaitForHolder,
    /// `beat` waits for the holder again and again.
    WaitsForEver,
    /// `claim` hands out messages to paused workers.
    ClaimWhilePaused,
    /// `seal` ends the generator's pause: a restart leaks messages.
    SealEndsPause,
    /// `seal` says that no cursor is stored.
    SealForgetsCursor,
    /// `beat` gives the lease to a node that may not generate.
    DeclinerTakesLease,
    /// `beat` renews the lease of a node that may not generate any more.
    DeclinerKeepsLease,
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
    /// `commit` ends all messages of the claim, whatever the call says.
    CommitEndsAll,
    /// `reclaim` puts the messages back and leaves the claim.
    ReclaimLeavesClaim,
    /// `reclaim` does not note that the worker may have died.
    ForgetSuspects,
    /// `claim` and `reclaim` count a suspect that is present as dead.
    BlameTheLiving,
    /// A lease or a claim that was made while the clock was ahead is valid until that time.
    BelieveFarFuture,
    /// `publish` hands messages over although others wait before them.
    HandsOutOfTurn,
    /// `publish` hands messages over and does not claim them.
    HandsUnclaimed,
    /// `publish` hands messages over although the workers are paused.
    HandsWhilePaused,
    /// `publish` hands messages over, and the rest of the pack does not go to the queue.
    HandsWithoutRest,
    /// `publish` hands messages over to a node that still has others that it got so.
    HandsOverAnother,
    /// `publish` claims messages for a node that does not hear of them.
    HandsToTheAbsent,
    /// `claim` finds nothing and does not put its node into `idle`.
    EmptyNotIdle,
    /// A ring takes the node that it wakes for alive.
    RingTheDead,
    /// `errors_claim` marks the records as held and makes no claim.
    DrainWithoutClaim,
    /// `errors_claim` takes records that another drain holds.
    DrainTakesHeld,
    /// `errors_commit` also deletes the records that the call does not name.
    DrainDropsRest,
    /// `errors_settle` takes a record that a drain holds.
    SettleTakesHeld,
    /// `errors_settle` retries a message and leaves its record.
    RetryKeepsRecord,
    /// `errors_settle` does not count what it retries.
    RetryUncounted,
    /// `errors_settle` puts a message back into its pack, which does not wait for it.
    RetryOutnumbersPack,
    /// `errors_settle` gives a retried message another key.
    RetryForgetsOrigin,
    /// `commit` counts a delayed message as done.
    DelayedIsDone,
    /// `commit` counts the first message of a pack down although it stays there.
    DelayedLeavesItsPack,
    /// `commit` counts a message down twice that gets a pack of its own.
    DelayedLeavesTwice,
    /// `commit` gives a delayed message no pack.
    DelayedWithoutPack,
    /// `commit` does not count the attempt of a delayed message.
    DelayUncounted,
    /// `commit` does not note why the attempt failed.
    DelayWithoutNote,
    /// `commit` ends a message and keeps its note.
    EndKeepsNote,
    /// `reclaim` wakes a delayed message and leaves it in `delayed`.
    WakeKeepsDelayed,
    /// `reclaim` wakes a delayed message before it is due.
    WakeEarly,
    /// `claim` lets a message fail as poison and keeps its note.
    PoisonKeepsNote,
    /// `claim` lets a message fail as poison and forgets why its first attempt failed.
    PoisonForgetsReason,
    /// `give_back` also gives back the last message that the worker keeps.
    KeepGivesBackTooMuch,
    /// `give_back` leaves in the claim what it puts into the queue.
    KeepKeepsAll,
    /// A generator that gets no answer publishes the texts again under new numbers.
    RetryUnderNewNumber,
    /// A worker that gets no answer to its commit takes it for done.
    CommitUnheard,
    /// A generator that finds lost numbers goes on with what its source made after them.
    GapRenumbers,
    /// A generator opens a source that failed again where a pack left it that was confirmed late.
    AcceptedGoesBack,
    /// A generator that finds lost numbers opens its source again under the same epoch.
    OpensUnderOldEpoch,
    /// A generator stages a pack under its first number, which it may give to other texts.
    StageByNumber,
    /// A generator whose source does not replay gives forgotten numbers to other texts.
    NumbersGivenAgain,
    /// A generator that finds lost numbers does not send again what it keeps of them.
    VoidsKept,
    /// A generator that finds lost numbers expects what it keeps in the order of its confirmation.
    KeptOutOfOrder,
    /// A generator sends again what Redis never confirmed, under numbers that another node knows.
    SendsUnconfirmed,
    /// A node forgets the number that it knew as soon as it has told a server of it.
    KnowsOnlyOnce,
    /// WAIT answers before the replica has the writes.
    WaitConfirmsNothing,
    /// A node takes an answer for confirmed that came after the write that it waits for.
    ConfirmsTooMuch,
    /// A node takes an answer for confirmed although the server has changed since.
    ConfirmsAcrossFailover,
    /// A server that is promoted again has the name of its earlier time.
    NameWithoutPromotion,
}

impl Flaw {
    /// Those that only the comparison with the scripts shows. The exploration does not ask how soon a
    /// message ends or whether every row is published, and needs two failovers to void behind a hole. It
    /// has one partition, which parks nothing.
    pub const COMPARED_ONLY: [Self; 7] = [
        Self::ParkUnfenced,
        Self::ParkKeepsRemoved,
        Self::EmptyNotIdle,
        Self::RingTheDead,
        Self::HandsToTheAbsent,
        Self::VoidTakesRoom,
        Self::VoidWithHoles,
    ];

    /// All others.
    pub const ALL: [Self; 73] = [
        Self::NoFence,
        Self::EpochOnlyFence,
        Self::NumbersWithHoles,
        Self::CursorNotKept,
        Self::CursorWithoutPack,
        Self::CursorGoesBack,
        Self::PublishWhilePaused,
        Self::CursorWhilePaused,
        Self::ClaimWhilePaused,
        Self::HandsOutOfTurn,
        Self::HandsUnclaimed,
        Self::HandsWhilePaused,
        Self::HandsWithoutRest,
        Self::HandsOverAnother,
        Self::SealEndsPause,
        Self::SealForgetsCursor,
        Self::VoidUnfenced,
        Self::VoidWhilePaused,
        Self::VoidUncounted,
        Self::VoidLeavesLast,
        Self::KnownNotKept,
        Self::SealForgetsKnown,
        Self::NoWaitForHolder,
        Self::WaitsForEver,
        Self::DeclinerTakesLease,
        Self::DeclinerKeepsLease,
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
        Self::RetryForgetsOrigin,
        Self::DelayedIsDone,
        Self::DelayedLeavesItsPack,
        Self::DelayedLeavesTwice,
        Self::DelayedWithoutPack,
        Self::DelayUncounted,
        Self::DelayWithoutNote,
        Self::EndKeepsNote,
        Self::WakeKeepsDelayed,
        Self::WakeEarly,
        Self::PoisonKeepsNote,
        Self::PoisonForgetsReason,
        Self::KeepGivesBackTooMuch,
        Self::KeepKeepsAll,
        Self::RetryUnderNewNumber,
        Self::CommitUnheard,
        Self::GapRenumbers,
        Self::AcceptedGoesBack,
        Self::OpensUnderOldEpoch,
        Self::StageByNumber,
        Self::NumbersGivenAgain,
        Self::VoidsKept,
        Self::KeptOutOfOrder,
        Self::SendsUnconfirmed,
        Self::KnowsOnlyOnce,
        Self::WaitConfirmsNothing,
        Self::ConfirmsTooMuch,
        Self::ConfirmsAcrossFailover,
        Self::NameWithoutPromotion,
    ];
}
