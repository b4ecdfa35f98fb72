//! The page behind a real nginx, and beside clients that mean no good. Without nginx, its tests are
//! skipped and say so; with `BATON_REQUIRE_TOOLS=1` they fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod behind_nginx;
mod client;
mod drip;
#[path = "../shared/mod.rs"]
mod shared;
