//! Running a Redis-compatible server, so that nothing has to be installed before Baton is tried.
//!
//! There are two kinds of server, told apart by how long they live:
//!
//! - [`PrivateServer`] belongs to the process that started it and is gone with it, even when that
//!   process is killed. The demo, the benchmarks and the tests use it; it can be killed, paused
//!   and restarted on purpose.
//! - [`Embedded`] is a process of its own on a fixed port, which outlives the node that happened
//!   to start it and keeps its data on disk. `baton run` uses it when no Redis answers.
//!
//! Both run the program that [`find_program`] finds. Talking to the server is left to others:
//! this crate sends no more than it takes to see that a server answers, and which one it is.

mod embedded;
mod error;
mod password;
mod port;
mod private;
mod probe;
mod process;
mod program;
mod watchdog;

pub use embedded::{Embedded, EmbeddedState, EmbeddedStatus, Started, Stopped, default_data_dir};
pub use error::Error;
pub use port::free_port;
pub use private::{Fsync, PrivateServer, PrivateServerBuilder};
pub use probe::{Heard, answers, hear};
pub use program::{PROGRAM_VARIABLE, find_program};
