//! Numbers on which the nodes and the scripts agree. Each is written here and nowhere else: a
//! script has its name, and `scripts` puts the number in its place.

/// Scripts count in doubles, which hold every whole number up to this one. Scripts count only
/// below it, because a sum that reaches it may have been rounded.
pub const MAX_EXACT: u64 = 1 << 53;

/// The longest time to live of a lease or a claim. A time further ahead was written while Redis's
/// clock was wrong, and counts as past.
pub const MAX_TTL_MS: u64 = 3_600_000;

/// Messages of the largest pack. A range of a larger one is none of ours.
pub const MAX_PACK_MESSAGES: u64 = 1000;

/// Most partitions of a fleet.
pub const MAX_PARTITIONS: u32 = 1024;
/// Partitions of a new fleet in a cluster, unless its first node asks for another number.
pub const CLUSTER_PARTITIONS: u32 = 16;

/// Bytes of the longest cursor of a source.
pub const MAX_CURSOR_BYTES: usize = 64 << 10;

/// Bytes of the longest key that a source gives a message.
pub const MAX_KEY_BYTES: usize = 256;

/// Bytes of the largest pack that passes through the scripts. The generator and the workers send and
/// read larger ones with plain commands: a script copies every text, but needs no round trip more.
pub const SMALL_PACK_BYTES: usize = 1024;
/// Bytes of the largest pack that comes along with the claim of a lane that slept and takes all of
/// it. Such a server is not busy: to copy so much takes it less time than a round trip.
pub const WAKING_PACK_BYTES: usize = 16 << 10;
/// Bytes of the longest record of a failed message that passes through the script of a commit. A worker
/// stages a longer one with plain commands, and it gets a key of its own: from here on that takes the server
/// less time.
pub const SHORT_RECORD_BYTES: usize = 32 << 10;
/// Bytes of the longest stub, which stands for a long record. No record that a worker makes of a message
/// begins like a stub.
pub(crate) const MAX_STUB_BYTES: usize = 128;
/// How long a staged pack waits for its publish, and a staged record for its commit, before it expires.
pub(crate) const STAGED_TTL_S: u64 = 60;

/// Bytes of the longest range, its suspects included.
pub(crate) const MAX_RANGE_BYTES: usize = 400;
/// Bytes of the longest five numbers of a range.
pub(crate) const MAX_RANGE_NUMBER_BYTES: usize = 90;

/// The longest time between two beats of a node in a small fleet.
pub const MAX_BEAT_MS: u64 = 2000;
/// In a large fleet the time between two beats is this × the number of nodes, so the server's load
/// is bounded.
pub const BEAT_MS_PER_NODE: u64 = 2;
/// A node that missed so many beats counts as dead.
pub const SILENT_BEATS: u64 = 3;
/// Nodes that never generate stand in line this much later than they joined: behind all others.
pub const LINE_END_MS: u64 = 100_000_000_000_000;

/// How long the nodes have, after the server process has changed, to come back and say what they
/// know, before another node than the last generator publishes.
pub const REUNION_MS: u64 = 200;

/// All of them, by the names that the scripts use.
pub(crate) const NAMED: [(&str, u64); 13] = [
    ("MAX_EXACT", MAX_EXACT),
    ("MAX_TTL_MS", MAX_TTL_MS),
    ("MAX_PACK_MESSAGES", MAX_PACK_MESSAGES),
    ("SMALL_PACK_BYTES", SMALL_PACK_BYTES as u64),
    ("WAKING_PACK_BYTES", WAKING_PACK_BYTES as u64),
    ("MAX_STUB_BYTES", MAX_STUB_BYTES as u64),
    ("MAX_RANGE_BYTES", MAX_RANGE_BYTES as u64),
    ("MAX_RANGE_NUMBER_BYTES", MAX_RANGE_NUMBER_BYTES as u64),
    ("MAX_BEAT_MS", MAX_BEAT_MS),
    ("BEAT_MS_PER_NODE", BEAT_MS_PER_NODE),
    ("SILENT_BEATS", SILENT_BEATS),
    ("LINE_END_MS", LINE_END_MS),
    ("REUNION_MS", REUNION_MS),
];
