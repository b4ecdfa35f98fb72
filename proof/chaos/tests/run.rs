//! The program `chaos`, as a user runs it.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};

fn chaos(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_list_has_every_kind_of_fault_in_words() {
    let output = chaos(&["--list"]);
    assert!(output.status.success());
    let listed = stdout(&output);
    for facts in baton_chaos::plan::KINDS {
        let named = |line: &&str| line.split(' ').next() == Some(facts.name);
        let line = listed.lines().find(named);
        assert!(line.unwrap().ends_with(facts.words), "{}", facts.name);
    }
}

#[test]
fn a_program_without_crash_points_is_refused_after_the_seed_is_told() {
    let output = chaos(&["--seed", "7", "--program", "/bin/sh"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).starts_with("seed 7; again: chaos --seed 7 "));
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaint.contains("no crash points"), "{complaint}");
}

#[test]
fn an_unknown_kind_of_fault_is_refused() {
    let output = chaos(&["--only", "kill-everything"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
#[ignore = "needs BATON_CHAOS_PROGRAM, a program built with the feature `chaos`"]
fn a_short_run_ends_clean_and_leaves_a_record_and_a_page() {
    let program = std::env::var_os("BATON_CHAOS_PROGRAM").expect("BATON_CHAOS_PROGRAM is not set");
    // Cargo runs tests in the folder of their package, people name files from that of the workspace.
    let program = PathBuf::from("../..").join(program);
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (folder.path().join("r.json"), folder.path().join("r.html"));
    let output = chaos(&[
        "--seed",
        "1",
        "--faults",
        "6",
        "--program",
        program.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
        "--out",
        page.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", stdout(&output));
    let record: baton_chaos::history::History =
        serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let verdict = &record.verdict;
    assert!(verdict.is_clean() && verdict.published > 0, "{verdict:?}");
    assert_eq!(verdict.published, verdict.done + verdict.failed);
    assert!(record.faults.len() >= 6);
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
}
