//! Guarantees of a fleet of real processes on a real server: each test starts its own of
//! both, hurts them, and counts every message.

mod crash;
mod election;
mod flow;
mod redis_trouble;
mod stop;
mod support;
