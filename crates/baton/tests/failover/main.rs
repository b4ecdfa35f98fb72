//! A fleet on several servers goes on where the Sentinels or the cluster say.

#![allow(clippy::unwrap_used)]

mod cluster;
mod fleet;
mod growth;
mod handed;
mod lost_cluster;
mod partitions;
mod sentinel;
mod spares;
mod unserved;
