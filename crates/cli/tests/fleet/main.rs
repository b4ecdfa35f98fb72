//! Guarantees of a fleet of real processes on a real server: each test starts its own of
//! both, hurts them, and counts every message.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../shared/mod.rs"]
mod shared;

mod ahead;
mod crash;
mod cron;
mod election;
mod exec;
mod flow;
mod generator_works;
mod handler_trouble;
mod lanes;
mod lossy_failover;
mod lost_data;
mod pause;
mod redis_refuses;
mod redis_trouble;
mod retention;
mod schedule;
mod sentinel_tls;
mod source;
mod source_trouble;
mod stop;
mod support;
