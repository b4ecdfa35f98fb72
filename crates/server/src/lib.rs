//! Finding and running a Redis-compatible server, so that a user can try Baton without one.
//!
//! There are two kinds of server, and a Postgres for tests of sources ([`PrivatePostgres`]):
//!
//! - [`PrivateServer`] belongs to the process that started it and is gone with it, even when that
//!   process is killed. The demo, the benchmarks and the tests use it; they kill, pause and
//!   restart it on purpose.
//!   [`SentinelGroup`] is several of them with replicas and Sentinels, [`ClusterGroup`] a cluster.
//!   With the feature `certificates` there is an authority for those that speak TLS.
//! - [`EmbeddedServer`] is a process of its own on a fixed port, which outlives the node that
//!   started it and keeps its data on disk. `baton run` uses it when no Redis answers.
//!
//! Both run the program that [`find_program`] finds. This crate is no client: it sends only what
//! it needs to see that a server answers, and which one it is, and what an operator sends to the
//! servers of a cluster.

#[cfg(feature = "certificates")]
mod certificate_authority;
mod cluster_group;
mod embedded_server;
mod error;
mod password;
mod port;
mod private_postgres;
mod private_server;
mod probe;
mod process;
mod program;
mod reply;
mod sentinel_group;
mod watchdog;

#[cfg(feature = "certificates")]
pub use certificate_authority::CertificateAuthority;
pub use cluster_group::{ClusterGroup, ClusterGroupBuilder};
pub use embedded_server::{
    EmbeddedServer, EmbeddedState, EmbeddedStatus, Started, Stopped, default_data_dir,
};
pub use error::Error;
pub use port::free_port;
pub use private_postgres::PrivatePostgres;
pub use private_server::{CertificateFiles, Fsync, PrivateServer, PrivateServerBuilder};
pub use probe::{PortUse, probe_port};
pub use program::{PROGRAM_VARIABLE, find_program, find_tls_program};
pub use sentinel_group::{SentinelGroup, SentinelGroupBuilder};
