//! Fleets of real `baton` processes, watched and hurt: what the demo, the figures and the
//! tests share.
//!
//! A [`Fleet`] starts copies of the program, collects the JSON lines they log, waits for
//! named events with a deadline, and kills, pauses or stops copies. A [`History`] sorts what
//! the copies told into messages that ended once, and those that did not.

mod fleet;
mod history;
mod info;
mod log;
mod look;
mod proc;
mod strike;

pub use fleet::{Fleet, Interrupt, Own, Told, command};
pub use history::History;
pub use info::{Info, redis_cpu_us};
pub use look::{status, wait_status};
pub use proc::{peak_rss_mb, process_cpu_us};
pub use strike::strike_worker;
