//! The protocol on a real server: each test seeds Redis, makes a call, and compares the
//! answer and the whole state of the fleet's keys.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod bounded;
mod census;
mod claim;
mod clocks;
mod commit;
mod connections;
mod conservation;
mod crashes;
mod effects;
mod errors;
mod extend;
mod fleets;
mod give_back;
mod lease;
mod line;
mod memory;
mod numbers;
mod permissions;
mod publish;
mod reclaim;
mod restart;
mod scripts;
mod seal;
mod settle;
mod snapshot;
mod take;
mod takeovers;
mod texts;
mod types;
