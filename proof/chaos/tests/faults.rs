//! Kinds of faults that could lose their effect unnoticed: each alone, three times. Needs a program
//! that `cargo test` does not build, see `points.rs`.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::Command;

use baton_chaos::history::History;

/// Runs a few faults of one kind: every one is done, and every message ends once. Nothing is
/// tested of a kind that cannot happen here; the run says why.
fn only(flags: &str, kind: &str) {
    let program = std::env::var_os("BATON_CHAOS_PROGRAM").unwrap();
    // Cargo runs tests in the folder of their package, people name files from that of the workspace.
    let program = PathBuf::from("../..").join(program);
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("record.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_chaos"));
    command.args(["--seed", "11", "--faults", "3", "--only", kind]);
    command.args(flags.split(' '));
    command.arg("--program").arg(program);
    command.arg("--json").arg(&json);
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    if told.contains(&format!("left out: {kind} ")) {
        baton_print::errln!("SKIPPED: {told}");
        return;
    }
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}{complaint}");
    let record: History = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(record.faults.len(), 3, "{told}");
    for fault in &record.faults {
        assert!(!fault.note.starts_with("not done"), "{told}");
        assert_ne!(fault.note, "not reached", "{told}");
    }
    let verdict = &record.verdict;
    assert!(verdict.is_clean() && verdict.published > 0, "{verdict:?}");
}

macro_rules! kinds {
    ($($test:ident: $flags:literal $kind:literal,)*) => {$(
        #[test]
        #[ignore = "needs BATON_CHAOS_PROGRAM, a program built with the feature `chaos`"]
        fn $test() {
            only($flags, $kind);
        }
    )*};
}

kinds! {
    a_fleet_goes_on_while_the_disk_of_a_log_is_full: "--handler pretended" "log-disk-full",
    a_fleet_goes_on_while_a_log_is_not_read: "--handler pretended" "log-stall",
    a_fleet_survives_a_small_output_buffer: "--handler pretended" "output-limit",
    a_fleet_comes_back_with_its_password: "--handler pretended" "password",
    a_fleet_comes_back_when_its_primary_is_one_again: "--handler pretended" "demote",
    a_paused_fleet_leaks_nothing_and_goes_on: "--handler pretended" "operator-pause",
    a_fleet_waits_for_no_time_that_a_fast_clock_wrote: "--handler pretended" "clock-corrected",
    effects_are_exact_while_commands_are_killed: "--handler exec" "kill-child",
    effects_are_exact_while_commands_hang: "--handler exec" "hang-child",
    effects_are_exact_while_supervisors_are_killed: "--handler exec" "kill-supervisor",
    effects_are_exact_while_a_service_dies: "--handler push" "push-dies",
    effects_are_exact_while_a_service_fails: "--handler push" "push-500",
    effects_are_exact_while_a_service_hangs: "--handler push" "push-hangs",
    effects_are_exact_while_a_service_sends_without_end: "--handler push" "push-endless",
    a_fleet_names_what_a_failover_forgets: "--topology sentinel" "lossy-both",
    a_fleet_follows_its_master_there_and_back: "--topology sentinel" "there-and-back",
    a_failover_forgets_nothing_that_was_confirmed: "--topology sentinel --level replicas:2" "lossy",
    a_fleet_follows_its_slot_there_and_back: "--topology cluster" "move-slot",
    a_fleet_follows_its_slot_to_a_new_master: "--topology cluster" "scale-out",
    a_fleet_does_not_notice_a_master_that_it_does_not_use: "--topology cluster --partitions 1" "kill-other",
    a_fleet_outlives_the_master_of_its_lease: "--topology cluster" "kill-control",
    a_fleet_keeps_its_partitions_when_its_control_keys_are_lost: "--topology cluster" "forget-control",
    a_fleet_of_one_slot_follows_it_there_and_back: "--topology cluster --partitions 1" "move-slot",
    each_row_is_in_one_partition_whichever_master_forgets: "--topology cluster --source rows --level replicas:1" "lossy-both",
    no_row_is_lost_behind_a_stale_master_that_a_new_generator_asked: "--topology cluster --source rows --level replicas:1" "hang-both",
    partitions_of_one_server_leak_nothing_while_they_are_paused: "--partitions 4" "operator-pause",
    partitions_of_one_server_have_exact_effects: "--partitions 4 --handler exec" "kill-child",
    a_fleet_outlives_a_stale_master_of_a_cluster: "--topology cluster" "hang-master",
    a_cluster_forgets_nothing_that_was_confirmed: "--topology cluster --level replicas:1" "lossy",
    each_row_is_one_message_while_its_source_is_killed: "--source rows" "kill-source",
    each_row_is_one_message_while_its_source_hangs: "--source rows" "pause-source",
}
