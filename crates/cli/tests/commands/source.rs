//! `--source` as people type it wrongly.

use crate::support::{baton, run};

#[track_caller]
fn assert_refused(args: &[&str], variable: Option<(&str, &str)>, parts: &[&str]) {
    let mut command = baton(&[&["run"], args].concat());
    command.envs(variable);
    let ended = run(command);
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for part in parts {
        ended.complains(part);
    }
}

#[test]
fn a_command_line_that_names_two_sources_or_half_of_one_is_refused() {
    let command = ["--source", "true"];
    for (flag, variable, value) in [
        ("--interval", "BATON_INTERVAL", "1s"),
        ("--missed", "BATON_MISSED", "skip"),
    ] {
        let parts = [flag, "cannot be used with", "--source <CMD>"];
        assert_refused(&[&command[..], &[flag, value]].concat(), None, &parts);
        assert_refused(&command, Some((variable, value)), &parts);
    }
    let parts = ["required", "--source <CMD>"];
    assert_refused(&["--source-format", "json"], None, &parts);
    assert_refused(&[], Some(("BATON_SOURCE_FORMAT", "json")), &parts);
    let parts = ["--source <CMD>", "write a command"];
    assert_refused(&["--source", " "], None, &parts);
    assert_refused(&[], Some(("BATON_SOURCE", "\t")), &parts);
    let parts = ["--source-format", "lines, json"];
    assert_refused(
        &["--source", "true", "--source-format", "csv"],
        None,
        &parts,
    );
}
