//! The protocol on a real server: each test seeds Redis, makes a call, and compares the answer and
//! the whole state of the fleet's keys.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod census;
mod claim;
mod clocks;
mod commit;
mod connections;
mod conservation;
mod delayed;
mod durability;
mod effects;
mod errors;
mod extend;
mod failover;
mod fleets;
mod foreign_values;
mod give_back;
mod handed;
mod holder_wait;
mod known;
mod lease;
mod long_records;
mod memory;
mod partitions;
mod pause;
mod permissions;
mod publish;
mod reclaim;
mod restart;
mod rings;
mod script_time;
mod scripts;
mod seal;
mod settle;
mod snapshot;
mod staging;
mod standbys;
mod suspects;
mod take;
mod takeovers;
mod texts;
mod void;
mod wrong_types;
