//! `--cron` and `baton cron`: ticks are printed, and a wrong entry is refused with the reason.

use crate::support::{baton, run};

const DOCUMENT: &str = include_str!("../../../../docs/sources.md");

#[track_caller]
fn assert_refused(args: &[&str], words: &[&str]) {
    let ended = run(baton(args));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(2), ""),
        "{args:?}"
    );
    for part in words {
        ended.complains(part);
    }
}

#[test]
fn a_wrong_entry_is_refused_with_the_reason() {
    for (entry, reason) in [
        ("", "write NAME=SPEC"),
        ("@daily", "the name is missing"),
        ("=@daily", "an entry needs a name"),
        ("a b=@daily", "'a b' is no name"),
        ("a=", "'' is no cron expression: write minute, hour"),
        (
            "a=* * *",
            "'* * *' is no cron expression: write minute, hour",
        ),
        (
            "a=60 * * * *",
            "'60' in the field of the minute: it goes from 0 to 59",
        ),
        (
            "a=*/70 * * * *",
            "'*/70' in the field of the minute: a step of 70 leaves only 0",
        ),
        (
            "a=*/0 * * * *",
            "'*/0' in the field of the minute: a step is a whole number from 1 on",
        ),
        (
            "a=1-2-3 * * * *",
            "'1-2-3' in the field of the minute: a range has one first and one last value",
        ),
        (
            "a=1,,2 * * * *",
            "'1,,2' in the field of the minute: a comma stands between two values",
        ),
        ("a=0 22-2 * * *", "; write 22-23,0-2"),
        ("a=@reboot", "write one of @hourly, @daily"),
        ("a=0 0 30 2 *", "'0 0 30 2 *' never fires"),
        (
            "a=0 0 * * * Europe/Wien",
            "there is no time zone 'Europe/Wien'",
        ),
    ] {
        assert_refused(&["run", "--cron", entry], &["--cron", reason]);
    }
}

#[test]
fn entries_that_do_not_go_together_are_refused() {
    let twice = ["run", "--cron", "a=@daily", "--cron", "a=@hourly"];
    assert_refused(&twice, &["--cron: 'a' is the name of two entries"]);
    let both = ["run", "--cron", "a=@daily", "--interval", "1s"];
    assert_refused(&both, &["--cron", "cannot be used with", "--interval"]);
    assert_refused(&["run", "--cron-text", "x"], &["--cron <NAME=SPEC"]);
    let mut variable = baton(&["run"]);
    variable.env("BATON_CRON", "a=@daily\nb=@hourly\na=@weekly\n");
    let ended = run(variable);
    assert_eq!(ended.code, Some(2));
    ended.complains("'a' is the name of two entries");
}

#[test]
fn the_next_ticks_are_printed_in_utc_and_in_their_zone() {
    let ended = run(baton(&["cron", "next", "3", "0 12 1 7 * Asia/Tokyo"]));
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let years: Vec<u32> = ended
        .lines()
        .iter()
        .map(|line| {
            let (year, rest) = line.split_at(4);
            let expected = format!("-07-01T03:00:00Z  {year}-07-01T12:00:00+09:00  Asia/Tokyo");
            assert_eq!(rest, expected);
            year.parse().unwrap()
        })
        .collect();
    assert_eq!(years, [years[0], years[0] + 1, years[0] + 2]);
}

#[test]
fn midnight_is_another_word_for_daily() {
    let printed =
        |word: &str| run(baton(&["cron", "next", "2", &format!("{word} Asia/Tokyo")])).stdout;
    let midnight = printed("@Midnight");
    assert!(
        midnight.contains("T00:00:00+09:00  Asia/Tokyo"),
        "{midnight}"
    );
    assert_eq!(midnight, printed("@daily"));
}

#[test]
fn what_has_no_next_tick_is_refused() {
    for (args, reason) in [
        (["cron", "next", "0", "@daily"], "1..=1000"),
        (["cron", "next", "1001", "@daily"], "1..=1000"),
        (["cron", "next", "x", "@daily"], "invalid value 'x'"),
        (["cron", "next", "1", "0 0 31 4 *"], "never fires"),
        (
            ["cron", "next", "1", "@daily Mars/Phobos"],
            "there is no time zone 'Mars/Phobos'",
        ),
        (["cron", "next", "1", "now"], "is no cron expression"),
    ] {
        assert_refused(&args, &[reason]);
    }
}

#[test]
fn every_expression_of_the_document_fires_unless_it_says_otherwise() {
    let (_, section) = DOCUMENT.split_once("\n## Cron\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    // Every second piece is code.
    let code = section.split('`').skip(1).step_by(2);
    let expressions: Vec<&str> = code
        .filter(|code| code.starts_with('@') || code.split(' ').count() >= 5)
        .filter(|code| !code.contains(['\n', '{']))
        .collect();
    assert!(expressions.len() > 12, "{expressions:?}");
    for expression in expressions {
        let ended = run(baton(&["cron", "next", "1", expression]));
        let code = if expression == "0 0 30 2 *" { 2 } else { 0 };
        assert_eq!(ended.code, Some(code), "{expression}: {}", ended.stderr);
    }
}
