//! Would we have noticed? Deliberate breaks of scripts and nodes, one line each, and which of
//! model, conformance, chaos, audit and named tests kills each of them.

pub mod killer;
pub mod mutant;
pub mod tree;
