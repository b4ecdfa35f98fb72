//! Random sequences of operations, as proptest makes and shrinks them.
//!
//! An operation is only a verb and some small numbers. The chooser decides from the state of that
//! moment which node, number and range they stand for. So a sequence still makes sense when
//! proptest removes operations from it.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Max operations of a sequence.
const MAX_OPERATIONS: usize = 120;

/// Random numbers of an operation.
const PICKS: usize = 12;

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Census,
    Pause,
    Seal,
    Publish,
    Void,
    Park,
    Claim,
    Commit,
    GiveBack,
    Extend,
    Reclaim,
    ErrorsClaim,
    ErrorsCommit,
    Settle,
    Beat,
    Leave,
    Repeat,
    Ring,
    Tell,
    Shift,
    Drop,
    Join,
    Restarted,
    Blame,
    Foreign,
    ForeignDelayed,
    Forge,
    LosePack,
    Expire,
    LoseClaim,
    LoseDeadline,
    Free,
    Crowd,
}

/// How often each verb is drawn, in a sequence about messages and in one about nodes. Shrinking
/// replaces verbs by earlier ones of this list.
const WEIGHTS: [(Verb, [usize; 2]); 33] = [
    (Verb::Census, [3, 0]),
    (Verb::Pause, [6, 1]),
    (Verb::Seal, [5, 3]),
    (Verb::Publish, [14, 2]),
    (Verb::Void, [3, 1]),
    (Verb::Park, [3, 1]),
    (Verb::Claim, [22, 4]),
    (Verb::Commit, [18, 1]),
    (Verb::GiveBack, [4, 0]),
    (Verb::Extend, [4, 1]),
    (Verb::Reclaim, [10, 6]),
    (Verb::ErrorsClaim, [6, 1]),
    (Verb::ErrorsCommit, [6, 0]),
    (Verb::Settle, [8, 0]),
    (Verb::Beat, [8, 40]),
    (Verb::Leave, [1, 4]),
    (Verb::Repeat, [8, 4]),
    (Verb::Ring, [4, 0]),
    (Verb::Tell, [2, 1]),
    (Verb::Shift, [6, 14]),
    (Verb::Drop, [3, 6]),
    (Verb::Join, [3, 6]),
    (Verb::Restarted, [1, 3]),
    (Verb::Blame, [6, 0]),
    (Verb::Foreign, [2, 0]),
    (Verb::ForeignDelayed, [4, 0]),
    (Verb::Forge, [3, 0]),
    (Verb::LosePack, [1, 0]),
    (Verb::Expire, [2, 0]),
    (Verb::LoseClaim, [1, 1]),
    (Verb::LoseDeadline, [2, 1]),
    (Verb::Free, [0, 4]),
    (Verb::Crowd, [0, 2]),
];

/// One operation.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) verb: Verb,
    /// Random numbers for the choices that the verb leaves open, in their order.
    pub(crate) picks: [u8; PICKS],
}

/// The operations on one fleet.
#[derive(Debug, Clone)]
pub(crate) struct Sequence {
    /// Whether the fleet keeps a ledger.
    pub(crate) audited: bool,
    pub(crate) ops: Vec<Operation>,
}

/// Any sequence. Most are about messages.
pub(crate) fn sequences() -> impl Strategy<Value = Sequence> {
    let ops = prop_oneof![3 => vec(op(0), 1..=MAX_OPERATIONS), 1 => vec(op(1), 1..=MAX_OPERATIONS)];
    (any::<bool>(), ops).prop_map(|(audited, ops)| Sequence { audited, ops })
}

/// One operation, drawn by the weights of a column.
fn op(column: usize) -> impl Strategy<Value = Operation> {
    let verbs: Vec<Verb> = WEIGHTS
        .iter()
        .flat_map(|(verb, weights)| std::iter::repeat_n(*verb, weights[column]))
        .collect();
    (select(verbs), any::<[u8; PICKS]>()).prop_map(|(verb, picks)| Operation { verb, picks })
}
