//! The names of the properties, for those who ask which one notices a flaw.

/// Invariant 1, for the whole fleet.
pub const ONE_GENERATOR: &str =
    "no older generator publishes after a newer one published or sealed all";
/// Invariant 1, if the control keys are forgotten.
pub const ONE_PUBLISHER: &str = "two nodes never publish under one epoch";
/// Invariant 2, per partition.
pub const GAPLESS: &str = "the numbers of each partition have no gap";
/// Invariant 11: none has two numbers.
pub const NO_ROW_TWICE: &str = "no row of the source is published twice";
/// Invariant 11: no row is lost.
pub const NO_ROW_MISSING: &str = "no row is missing below the last one that is published or parked";
/// Invariant 11: the position is that of the newest messages, or a later one.
pub const NEWEST_POSITION: &str = "a source is opened behind the last row and the newest cursor";
/// What the choice of the position depends on.
pub const TRUE_COUNT: &str = "the newest position counts all rows";
/// Invariant 5.
pub const TRUE_ANSWERS: &str = "what a generator takes for accepted is in its partition";
/// Invariant 15, for publishes.
pub const CONFIRMED_STAYS: &str = "no row is lost that a generator takes for accepted";
/// Invariant 14, for what a generator was told.
pub const ONE_ROW_PER_NUMBER: &str = "no number that a generator takes for given gets another row";
/// What keeps a generator from a needless new reign.
pub const OWN_NUMBERS: &str = "a generator numbers its packs as each partition does";
/// When the faults stop.
pub const LIVENESS: &str = "left alone, the fleet publishes all rows";
