//! `--exec` and `-- CMD` as people type them, and type them wrongly.

use crate::support::{baton, run, server, wait_until};

#[track_caller]
fn assert_refused(args: &[&str], parts: &[&str]) {
    let ended = run(baton(args));
    assert_eq!(ended.code, Some(2), "{ended:#?}");
    for part in parts {
        ended.complains(part);
    }
}

#[test]
fn a_command_line_that_names_two_handlers_or_none_is_refused() {
    assert_refused(
        &["run", "--exec", "true", "--", "true"],
        &["--exec <CMD>", "cannot be used with", "[CMD]..."],
    );
    for (flag, value) in [
        ("--work", "1ms"),
        ("--work-per-char", "1ms"),
        ("--error-rate", "0"),
    ] {
        let parts = [flag, "cannot be used with", "--exec <CMD>"];
        assert_refused(&["run", "--exec", "true", flag, value], &parts);
        let parts = [flag, "cannot be used with"];
        assert_refused(&["run", flag, value, "--", "true"], &parts);
    }
    assert_refused(
        &["run", "--exec", " "],
        &["--exec <CMD>", "write a command"],
    );
    for words in [&["run", "--"][..], &["--"], &["run", "--", "", "x"]] {
        assert_refused(words, &["write a command behind --"]);
    }
    for flag in ["--timeout", "--kill-after"] {
        assert_refused(&["run", flag, "5s"], &["required", "--exec <CMD>"]);
    }
    let url = "http://127.0.0.1:1/";
    for words in [&["--exec", "true"][..], &["--", "true"]] {
        let push = [&["run", "--push", url], words].concat();
        assert_refused(&push, &["cannot be used with", "--push <URL>"]);
    }
    assert_refused(
        &["run", "--push", url, "--kill-after", "5s"],
        &["required", "--exec <CMD>|CMD"],
    );
    assert_refused(
        &["run", "--exec", "true", "--timeout", "0"],
        &["--timeout", "at least 1ms"],
    );
    assert_refused(
        &["run", "--exec", "true", "--timeout", "30"],
        &["--timeout", "a unit is missing"],
    );
}

#[test]
fn a_variable_counts_like_its_flag() {
    for (variable, value, args, parts) in [
        (
            "BATON_EXEC",
            "true",
            &["--", "true"][..],
            &["--exec <CMD>"][..],
        ),
        (
            "BATON_EXEC",
            "true",
            &["--push", "http://h/"],
            &["--exec <CMD>", "--push <URL>"],
        ),
        (
            "BATON_PUSH",
            "http://h/",
            &["--exec", "true"],
            &["--exec <CMD>", "--push <URL>"],
        ),
        (
            "BATON_WORK",
            "1ms",
            &["--exec", "true"],
            &["--exec <CMD>", "--work <TIME>"],
        ),
        (
            "BATON_TIMEOUT",
            "5s",
            &[],
            &["--timeout <TIME>", "--exec <CMD>"],
        ),
        (
            "BATON_KILL_AFTER",
            "5s",
            &["--push", "http://h/"],
            &["--kill-after <TIME>"],
        ),
        ("BATON_EXEC", " ", &[], &["--exec <CMD>", "write a command"]),
    ] {
        let mut command = baton(&[&["run"], args].concat());
        command.env(variable, value);
        let ended = run(command);
        assert_eq!(ended.code, Some(2), "{ended:#?}");
        for part in parts {
            ended.complains(part);
        }
    }
}

#[test]
fn words_behind_two_dashes_are_the_command() {
    let server = server();
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words");
    let script = r#"printf '%s|' "$@" > "$0""#;
    let words = [
        "--redis",
        &url,
        "--interval",
        "10ms",
        "--messages",
        "1",
        "--",
        "sh",
        "-c",
        script,
        file.to_str().unwrap(),
        "two words",
        "--exec",
        "-getErrors",
        "",
    ];
    let mut nodes: Vec<_> = (0..2)
        .map(|_| {
            baton(&words)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    wait_until("the message to be handled", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.ends_with("||"))
    });
    for node in &mut nodes {
        node.kill().unwrap();
        node.wait().unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text, "two words|--exec|-getErrors||");
}
