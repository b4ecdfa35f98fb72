//! Needs a program that `cargo test` does not build: one with the feature `chaos`.
//!
//! `cargo build -p baton-cli --features chaos`, then
//! `BATON_CHAOS_PROGRAM=target/debug/baton cargo test -p baton-chaos --test points -- --ignored`.

use std::path::PathBuf;

#[test]
#[ignore = "needs BATON_CHAOS_PROGRAM, a program built with the feature `chaos`"]
fn a_copy_can_die_at_every_point_and_its_fleet_finishes() {
    let program = std::env::var_os("BATON_CHAOS_PROGRAM").expect("BATON_CHAOS_PROGRAM is not set");
    // Cargo runs tests in the folder of their package, people name files from that of the workspace.
    let program = PathBuf::from("../..").join(program);
    let tell = |point: &str, took: std::time::Duration| println!("{point:24} {took:?}");
    baton_chaos::points::all(&program, tell).unwrap_or_else(|error| panic!("{error:#}"));
}
