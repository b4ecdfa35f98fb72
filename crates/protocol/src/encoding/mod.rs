//! The bytes and texts that Redis stores, as types.

pub(crate) mod effect_lines;
pub(crate) mod effects;
pub(crate) mod key;
pub(crate) mod ledger;
pub(crate) mod note;
pub(crate) mod pack;
pub(crate) mod parcel;
pub mod record;
mod record_json;
pub(crate) mod stub;
pub(crate) mod takeover;
