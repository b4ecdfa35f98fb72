//! How Redis stores a fleet, and the calls that change it.
//!
//! **Internal, no promise.** This crate is for Baton's own programs and proofs; it may change with
//! every version. The library for users is `baton-fleet`.
//!
//! From the bottom up: [`Keys`] has every key name; `scripts/` has one Lua file per state
//! transition; `encoding/` has the bytes of packs, records and ledger entries; `link/` owns the
//! connections; [`Store`] in `calls/` has one typed function per script. Nothing else writes to
//! Redis. docs/protocol.md describes all of it.

pub mod audit;
pub mod bounds;
mod calls;
mod certificate_problem;
pub mod crash;
mod durability;
mod encoding;
mod error;
mod keys;
mod link;
mod node_name;
mod rights;
pub mod scripts;
mod server_info;
mod slot;
mod target;
pub mod text;

pub use calls::{
    Beat, BeatCall, Census, Claim, ClaimCall, ClaimedPack, Commit, CommitCall, Delay, ErrorsClaim,
    ErrorsCommit, Extend, Failure, Fence, FleetState, GiveBack, Handed, Lease, Outcomes, PROTOCOL,
    Page, Park, Part, PartitionState, Partitions, Paused, Progress, Publish, PublishCall,
    Reclaimed, Ring, Rings, Roster, RosterEntry, RoundTrip, Seal, Settle, Settled, Slot, Store,
    Wanted, ask_sentinels, check_partitions, decode, exact,
};
pub use certificate_problem::CertificateProblem;
pub use durability::Durability;
pub use encoding::effect_lines::EffectsError;
pub use encoding::effects::Effects;
pub use encoding::key::{Key, OwnedKey};
pub use encoding::ledger::{Digest, Entry, Ledger};
pub use encoding::note::Note;
pub use encoding::pack::{OwnedPack, Pack, PackBuilder, PackKeys, Range};
pub use encoding::parcel::Parcel;
pub use encoding::record::{self, FailedMessage, FailedPreview};
pub use encoding::takeover::{Takeover, TakeoverCause};
pub use error::{Error, Setting};
pub use keys::{FleetName, Keys};
pub use link::{Backoff, LinkState, LoggedReasons, Master, SentinelReport, SentinelView, masters};
pub use node_name::new_name;
pub use rights::{RedisUser, Rule, RuleServer};
pub use server_info::{Replica, ServerInfo};
pub use target::{Target, TargetFacts, TargetKind, TlsFiles, redis_client, target_facts};
