//! Fleets of real `baton` processes: the demo, the bench, the figures and the tests share them.
//!
//! A [`Fleet`] starts copies of the program, reads the lines that they log, waits for events
//! with a timeout, and kills, pauses or stops copies. A [`History`] sorts the lines by message:
//! which messages ended once, and which did not.

mod fleet;
mod history;
mod info;
mod log_reader;
mod process_usage;
mod recovery;
mod status;
mod told;

pub use fleet::{Fleet, Own, command};
pub use history::History;
pub use info::{Info, redis_cpu_us};
pub use process_usage::{peak_rss_mb, process_cpu_us};
pub use recovery::recovery_time;
pub use status::{status, wait_status};
pub use told::{Interrupt, Told};
