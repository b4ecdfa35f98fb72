//! The page in a real browser, headless, on real fleets: what people see, and what they can do.
//! Without a browser the tests are skipped and say so; with `BATON_REQUIRE_TOOLS=1` they fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod devtools;
mod driver;
mod durability;
mod failed;
mod fleet;
mod hostile;
mod layout;
mod partitions;
mod proxied;
#[path = "../shared/mod.rs"]
mod shared;
mod shots;
mod support;
mod tab;
mod take;
