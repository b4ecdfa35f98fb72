//! Flags and variables: good ones are used, bad ones are named, with exit code 2.

use crate::seeder::{Seeder, line, texts};
use crate::support::{assert_finds_m1, baton, dead_port, on, run, server};

#[test]
fn a_value_that_cannot_work_is_refused_and_its_flag_named() {
    for (flag, values) in [
        (
            "--interval",
            &["500", "-1s", "soon", "1us", "1000y", ""][..],
        ),
        ("--error-rate", &["1.5", "-0.1", "NaN", "inf", "5%"]),
        (
            "--messages",
            &["-1", "1.5", "99999999999999999999", "9007199254740993"],
        ),
        ("--lease-ttl", &["0", "1ms", "2h", "1500"]),
        ("--claim-ttl", &["0", "1ms", "2h", "5"]),
        ("--concurrency", &["0", "-1", "1000000"]),
        ("--work", &["10", "2d"]),
        ("--work-per-char", &["-5ms", "x"]),
        (
            "--missed",
            &["never", "catch-up:30", "catch-up:", "skip:1s"],
        ),
        ("--max-pending", &["0", "-1", "9007199254740993"]),
        ("--max-errors", &["0", "x"]),
        (
            "--push",
            &[
                "",
                "h",
                "ftp://h",
                "http://",
                "http://h:99999",
                "http://u:p@h",
            ],
        ),
        ("--timeout", &["0", "60", "2d", "-1s"]),
        ("--keep-errors", &["0", "30", "500ms", "forever"]),
        ("--log", &["xml"]),
        ("--fleet", &["", "a b", "a{b}", "a:b"]),
        ("--port", &["0", "65536", "x"]),
        ("--db", &["-1", "x", "99999999999"]),
        ("--addr", &["h:0", "h:x", "", "user:s3cret@h:1"]),
        ("--host", &["h:1", "", "a/b"]),
        (
            "--redis",
            &[
                "",
                "localhost:6379",
                "http://h",
                "redis://",
                "redis://h:99999",
            ],
        ),
        ("--embedded-port", &["0"]),
    ] {
        for value in values {
            let ended = run(baton(&["run", &format!("{flag}={value}")]));
            assert_eq!(ended.code, Some(2), "{flag}={value}: {}", ended.stderr);
            ended.complains(flag);
            assert_eq!(ended.stdout, "", "{flag}={value}");
        }
    }
}

#[test]
fn a_time_without_a_unit_is_answered_with_the_units() {
    let ended = run(baton(&["--interval", "500"]));
    ended.complains("a unit is missing: 500ms, 500s or 500min");
}

#[test]
fn unknown_words_are_refused() {
    for args in [
        &["frobnicate"][..],
        &["--frobnicate"],
        &["run", "extra"],
        &["status", "--interval", "1s"],
        &["getErrors", "--cleanTemp"],
        &["server"],
        &["server", "start"],
        &["completions", "tcsh"],
    ] {
        assert_eq!(run(baton(args)).code, Some(2), "{args:?}");
    }
}

#[test]
fn a_server_is_named_in_one_way_at_a_time() {
    for (args, flags) in [
        (
            &["--redis", "redis://h", "--addr", "h:1"][..],
            ["--redis", "--addr"],
        ),
        (
            &["--redis", "redis://h", "--host", "h"],
            ["--redis", "--host"],
        ),
        (
            &["--redis", "redis://h", "--port", "1"],
            ["--redis", "--port"],
        ),
        (&["--addr", "h:1", "--port", "1"], ["--addr", "--port"]),
        (
            &["-addr", "h:1", "-host", "h", "-port", "1"],
            ["--addr", "--host"],
        ),
    ] {
        let ended = run(baton(args));
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(
            flags.iter().all(|flag| ended.stderr.contains(flag)),
            "{}",
            ended.stderr
        );
    }
}

#[test]
fn what_is_typed_comes_before_the_environment() {
    let server = server();
    Seeder::new(&server).fail(&texts(1..=1));
    let port = server.port().unwrap().to_string();
    let (addr, dead) = (
        format!("127.0.0.1:{port}"),
        format!("redis://127.0.0.1:{}", dead_port()),
    );
    for (args, variables) in [
        (vec!["--addr", &addr], vec![("REDIS_URL", dead.as_str())]),
        (
            vec!["--port", &port],
            vec![("REDIS_URL", dead.as_str()), ("BATON_ADDR", "dead:1")],
        ),
        (
            vec![],
            vec![("BATON_ADDR", addr.as_str()), ("REDIS_URL", dead.as_str())],
        ),
        (
            vec![],
            vec![("BATON_PORT", port.as_str()), ("BATON_HOST", "127.0.0.1")],
        ),
        (vec![], vec![("BATON_EMBEDDED_PORT", port.as_str())]),
    ] {
        assert_finds_m1(&args, &variables);
    }
}

#[test]
fn an_empty_variable_counts_as_none() {
    let server = server();
    Seeder::new(&server).fail(&texts(1..=1));
    let mut command = baton(&["errors", "--redis", &server.url()]);
    for variable in [
        "REDIS_URL",
        "REDIS_PASSWORD",
        "BATON_ADDR",
        "BATON_HOST",
        "BATON_PORT",
        "BATON_DB",
        "BATON_PASSWORD_FILE",
        "BATON_FLEET",
        "BATON_NO_EMBEDDED",
        "BATON_JSON",
    ] {
        command.env(variable, "");
    }
    assert_eq!(run(command).lines(), [line(1, "m1")]);
}

#[test]
fn a_variable_that_is_neither_on_nor_off_is_refused() {
    for (variable, args) in [
        ("BATON_ALLOW_ACTIONS", &["web"][..]),
        ("BATON_ALLOW_EVICTION", &["run"]),
        ("BATON_NO_EMBEDDED", &["run"]),
        ("BATON_NO_EMBEDDED", &["status"]),
        ("BATON_JSON", &["errors"]),
        ("BATON_JSON", &["getErrors"]),
        ("BATON_JSON", &["status"]),
        ("BATON_JSON", &["bench"]),
        ("BATON_WATCH", &["status"]),
    ] {
        for value in ["disabled", "enabled", "2", "-1", " ", "nein", "truee"] {
            let mut command = baton(args);
            command.env(variable, value);
            let ended = run(command);
            assert_eq!(ended.code, Some(2), "{variable}={value}: {}", ended.stderr);
            for part in [variable, value, "true, 1, yes or on"] {
                ended.complains(part);
            }
        }
    }
    let server = server();
    Seeder::new(&server).fail(&texts(1..=1));
    for (values, begin) in [
        (["true", "1", "yes", "on", "ON", "True"], "{"),
        (["false", "0", "no", "off", "OFF", "False"], "2023"),
    ] {
        for value in values {
            let mut command = baton(&["errors", "--redis", &server.url()]);
            command.env("BATON_JSON", value);
            let ended = run(command);
            assert!(ended.stdout.starts_with(begin), "{value}: {ended:?}");
        }
    }
}

#[test]
fn flags_work_before_and_after_the_command() {
    let server = server();
    let mut seed = Seeder::at(&format!("{}/2", server.url()));
    seed.fail(&texts(1..=1));
    let url = server.url();
    for args in [
        ["--redis", &url, "--db", "2", "errors"],
        ["errors", "--redis", &url, "--db", "2"],
        ["--db", "2", "errors", "--redis", &url],
    ] {
        assert_eq!(run(baton(&args)).lines(), [line(1, "m1")], "{args:?}");
    }
    assert_eq!(
        on(&server, &["--fleet", "other", "--db", "2", "errors"]).stdout,
        ""
    );
    let mut command = baton(&["errors", "--redis", &url]);
    command.env("BATON_DB", "2").env("BATON_JSON", "1");
    assert!(run(command).stdout.starts_with(r#"{"seq":1,"#));
}

#[test]
fn help_teaches_without_showing_what_the_environment_holds() {
    let mut command = baton(&["--help"]);
    command.env("REDIS_URL", "redis://:s3cret@h");
    let help = run(command);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for part in [
        "baton --redis",
        "getErrors",
        "status",
        "clean",
        "server",
        "demo",
        "completions",
        "man",
        "Exit codes:",
        "Environment:",
        "[env: REDIS_URL]",
        "baton -addr localhost:6379 -getErrors",
    ] {
        help.says(part);
    }
    assert!(!help.stdout.contains("s3cret"));
    let run_help = run(baton(&["run", "--help"]));
    run_help.says("[env: BATON_ERROR_RATE]");
    assert!(run(baton(&["--version"])).stdout.starts_with("baton 0."));
}

#[test]
fn the_port_of_the_embedded_server_is_not_in_the_way_of_those_who_read_the_help() {
    for args in [
        &["--help"][..],
        &["-h"],
        &["run", "--help"],
        &["server", "stop", "--help"],
        &["man"],
    ] {
        let help = run(baton(args));
        assert_eq!(help.code, Some(0), "{args:?}");
        // The flags beside it are there: this is the text in which it would be.
        help.says("embedded");
        for hidden in [
            "embedded-port",
            "embedded\\-port",
            "BATON_EMBEDDED_PORT",
            // The program starts these itself.
            "bench\\-node",
            "bench\\-floor",
        ] {
            assert!(!help.stdout.contains(hidden), "{args:?}: {}", help.stdout);
        }
    }
    let server = server();
    let port = server.port().unwrap().to_string();
    let status = run(baton(&["status", "--embedded-port", &port]));
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    status.says(&port);
}

#[test]
fn completions_and_the_manual_page_are_printed() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = run(baton(&["completions", shell]));
        assert_eq!(script.code, Some(0), "{shell}");
        script.says("getErrors");
    }
    let page = run(baton(&["man"]));
    for part in [
        ".TH baton 1",
        ".SH \"EXIT CODES\"",
        ".SH \"BATON GETERRORS\"",
        "BATON_INTERVAL",
    ] {
        page.says(part);
    }
}
