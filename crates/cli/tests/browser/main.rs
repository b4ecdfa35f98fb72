//! The page in a real browser, headless, on real fleets: what people see, and what they can do.
//! Without a browser the tests are skipped and say so; with `BATON_REQUIRE_TOOLS=1` they fail.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod access;
mod devtools;
mod driver;
mod failed;
mod fleet;
mod hostile;
mod layout;
#[path = "../proxy/nginx.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod nginx;
mod proxied;
mod shots;
mod support;
mod tab;
mod take;
