//! The commands of the documents, run as they stand there.
//!
//! A block ```` ```sh ```` is run by bash, and a block ```` ```text ```` right behind it is what it
//! prints: `…` stands for anything, and on a line of its own for any lines. All blocks of a document
//! share a shell, a home folder and a private server. Comments above a block direct the test:
//!
//! - `<!-- not run: REASON -->`: it is left out;
//! - `<!-- wait for: COMMAND -->`: it runs when this command succeeds, where a reader would wait;
//! - `<!-- files: NAME… -->`: programs of docs/handlers.md that the reader has saved;
//! - `<!-- needs: PROGRAM… -->`: the document is left out on a machine without it.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::shared::markdown::{self, Block, blocks};
use crate::shared::{TIMEOUT, server, tool};

const HANDLERS: &str = include_str!("../../../../docs/handlers.md");

/// Ports that documents name. Each run has others.
const PORTS: [&str; 2] = ["9464", "7070"];

/// The documents whose commands are run.
fn documents() -> Vec<PathBuf> {
    let docs = markdown::root().join("docs");
    let mut all = markdown::readmes();
    all.extend(["tour.md", "tutorial.md"].map(|name| docs.join(name)));
    all.extend(markdown::documents("docs/recipes", true));
    all
}

/// What a line of a document can be: what is expected, with `…` for anything.
fn line_matches(expected: &str, line: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn output_matches(expected: &[String], lines: &[&str]) -> bool {
    match (expected, lines) {
        ([], lines) => lines.is_empty(),
        ([first, others @ ..], lines) if first == "…" => {
            (0..=lines.len()).any(|skipped| output_matches(others, &lines[skipped..]))
        }
        ([first, others @ ..], [line, rest @ ..]) => {
            line_matches(first, line.trim_end()) && output_matches(others, rest)
        }
        ([_, ..], []) => false,
    }
}

#[test]
fn expected_output_matches_with_gaps_and_not_without() {
    let expected: Vec<String> = ["a … c…", "…", "z"].map(str::to_owned).to_vec();
    assert!(output_matches(&expected, &["a b c", "z"]));
    assert!(output_matches(&expected, &["a b c d", "x", "y", "z"]));
    assert!(!output_matches(&expected, &["a b", "z"]));
    assert!(!output_matches(&expected, &["a b c", "x"]));
    assert!(!output_matches(&expected, &["a b c", "z", "more"]));
    assert!(!line_matches("ab…ba", "aba"));
}

/// A program of docs/handlers.md: its second line has its name.
fn save_program(name: &str, folder: &Path) {
    let is_it = |block: &Block| {
        let line = block.lines.get(1);
        line.is_some_and(|line| line.contains(&format!("{name}:")))
    };
    let program = blocks(HANDLERS).into_iter().find(is_it);
    let program = program.unwrap_or_else(|| panic!("docs/handlers.md has no program {name}"));
    let file = folder.join(name);
    fs::write(&file, program.lines.join("\n") + "\n").unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// The script of a document. Block N prints to `N.out` and `N.err` in `folder`.
fn script(blocks: &[&Block], folder: &Path) -> String {
    let mut script = "set -e\n".to_owned();
    let folder = folder.display();
    for block in blocks {
        let number = block.line;
        if let Some(condition) = block.comment("wait for") {
            let _ = writeln!(script, "echo 'line {number}, waiting' > {folder}/at");
            let _ = writeln!(script, "until ({condition}) >{folder}/wait 2>&1");
            let _ = writeln!(script, "do sleep 0.2; done");
        }
        let _ = writeln!(script, "echo 'line {number}' > {folder}/at");
        let _ = writeln!(
            script,
            "exec >{folder}/{number}.out 2>{folder}/{number}.err"
        );
        let _ = writeln!(script, "{}", block.lines.join("\n"));
    }
    script
}

/// Stands in for redis-cli, which the tests' servers come without.
const REDIS_CLI: &str = r#"#!/usr/bin/env python3
import os, socket, sys

def answer(replies):
    line = replies.readline().decode().rstrip("\r\n")
    kind, rest = line[0], line[1:]
    if kind == "$":
        return "" if rest == "-1" else replies.read(int(rest) + 2)[:-2].decode()
    if kind == "*":
        return "\n".join(answer(replies) for _ in range(int(rest)))
    return rest

words = [sys.argv[1:]] if sys.argv[1:] else [line.split() for line in sys.stdin]
with socket.create_connection(("127.0.0.1", int(os.environ["TEST_PORT"]))) as connection:
    replies = connection.makefile("rb")
    for command in words:
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in command]
        connection.sendall(f"*{len(command)}\r\n{''.join(parts)}".encode())
        print(answer(replies))
"#;

/// Runs all blocks of a document. Returns how many it ran, or what went wrong.
fn run(document: &Path) -> Result<usize, String> {
    let text = fs::read_to_string(document).unwrap();
    let all = blocks(&text);
    let is_run = |block: &&Block| block.language == "sh" && block.comment("not run").is_none();
    let run: Vec<&Block> = all.iter().filter(is_run).collect();
    let missing = |name: &str| {
        let skipped = format!("the commands of {}: no {name}", document.display());
        let variable = format!("BATON_{}", name.to_uppercase());
        let found = tool::find(&variable, &[name], "--version", &skipped);
        tool::require(name, found.as_ref());
        found.is_none()
    };
    let needs = run.iter().filter_map(|block| block.comment("needs"));
    let mut needs = needs.flat_map(str::split_whitespace).chain(["python3"]);
    if run.is_empty() || needs.any(missing) {
        return Ok(0);
    }

    let server = server();
    let folder = tempfile::tempdir().unwrap();
    let [home, programs, outputs] = ["home", "bin", "out"].map(|name| folder.path().join(name));
    for folder in [&home, &programs, &outputs] {
        fs::create_dir(folder).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_baton"), programs.join("baton")).unwrap();
    fs::write(programs.join("redis-cli"), REDIS_CLI).unwrap();
    let executable = PermissionsExt::from_mode(0o755);
    fs::set_permissions(programs.join("redis-cli"), executable).unwrap();
    for block in &run {
        let files = block.comment("files").unwrap_or_default();
        files
            .split_whitespace()
            .for_each(|name| save_program(name, &home));
    }
    let port = server.port().unwrap().to_string();
    let mut script = script(&run, &outputs).replace("@localhost", &format!("@127.0.0.1:{port}"));
    for named in PORTS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let free = listener.local_addr().unwrap().port().to_string();
        script = script.replace(&format!("127.0.0.1:{named}"), &format!("127.0.0.1:{free}"));
    }

    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir(&home).env_clear();
    command
        .env("HOME", &home)
        .env("LANG", "C.UTF-8")
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("REDIS_URL", server.url())
        .env("TEST_PORT", &port)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A group of its own, so that all nodes can be killed at once.
        .process_group(0);
    let mut bash = command.spawn().unwrap();
    let group = Pid::from_child(&bash);
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        match bash.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => break None,
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    // Nodes that the document leaves running. There may be none.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = bash.wait();

    let read = |name: &str| fs::read_to_string(outputs.join(name)).unwrap_or_default();
    let at = read("at");
    let number = at.trim_start_matches("line ").split([',', '\n']).next();
    let number = number.unwrap_or_default();
    if status.is_none_or(|status| !status.success()) {
        return Err(format!(
            "{}, {}: {status:?}\n{}{}{}",
            document.display(),
            at.trim(),
            read("wait"),
            read(&format!("{number}.out")),
            read(&format!("{number}.err")),
        ));
    }
    for pair in all.windows(2) {
        let [block, expected] = pair else { continue };
        if !is_run(&block) || expected.language != "text" {
            continue;
        }
        let output = read(&format!("{}.out", block.line));
        let lines: Vec<&str> = output.lines().collect();
        if !output_matches(&expected.lines, &lines) {
            let place = format!("{}, line {}", document.display(), expected.line);
            let expected = expected.lines.join("\n");
            return Err(format!("{place}: expected\n{expected}\nand got\n{output}"));
        }
    }
    Ok(run.len())
}

#[test]
fn every_command_of_the_readme_tour_tutorial_and_recipes_runs() {
    let runs = documents()
        .into_iter()
        .map(|path| thread::spawn(move || run(&path)));
    let runs: Vec<_> = runs.collect();
    let ended: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
    let faults: Vec<&String> = ended
        .iter()
        .filter_map(|ended| ended.as_ref().err())
        .collect();
    assert!(
        faults.is_empty(),
        "{}",
        faults
            .iter()
            .map(|fault| format!("\n{fault}"))
            .collect::<String>()
    );
    let ran: usize = ended.iter().filter_map(|ended| ended.as_ref().ok()).sum();
    assert!(ran > 25, "only {ran} blocks ran");
}

#[test]
fn no_command_of_the_tour_tutorial_and_recipes_hides_in_another_kind_of_block() {
    let readmes = markdown::readmes();
    for document in documents().iter().filter(|path| !readmes.contains(path)) {
        for block in blocks(&fs::read_to_string(document).unwrap()) {
            let place = format!("{}, line {}", document.display(), block.line);
            let shown = ["sh", "text", "ini"].contains(&block.language.as_str());
            let command = block.lines.iter().find(|line| line.contains("baton "));
            assert!(
                shown || command.is_none(),
                "{place}: a command in no `sh` block: {command:?}"
            );
            let reason = block.comment("not run");
            assert!(
                reason.is_none_or(|reason| reason.len() > 10),
                "{place}: why is it not run?"
            );
        }
    }
}

/// The code of a README: what must be the same in all languages. Comments may be translated, and so
/// may blocks without a language, which are pictures.
fn code(readme: &Path) -> Vec<String> {
    let text = fs::read_to_string(readme).unwrap();
    let fenced = |line: usize| {
        text.lines()
            .nth(line - 2)
            .unwrap_or_default()
            .starts_with("```")
    };
    let blocks = blocks(&text).into_iter();
    let blocks = blocks.filter(|block| !block.language.is_empty() || !fenced(block.line));
    let lines = blocks.flat_map(|block| {
        let mark = if block.language == "rust" {
            "// "
        } else {
            "# "
        };
        let code = move |line: String| {
            line.split(mark)
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        block.lines.into_iter().map(code)
    });
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_translation_of_the_readme_has_its_commands() {
    let readme = markdown::root().join("README.md");
    let text = fs::read_to_string(&readme).unwrap();
    let original = code(&readme);
    assert!(original.len() > 50, "{original:?}");
    for translation in markdown::readmes().iter().filter(|path| **path != readme) {
        let name = translation.file_name().unwrap().to_str().unwrap();
        assert!(
            text.contains(&format!("]({name})")),
            "README.md has no link to {name}"
        );
        for (ours, theirs) in original.iter().zip(code(translation)) {
            assert_eq!(*ours, theirs, "README.md and {name}");
        }
        assert_eq!(
            original.len(),
            code(translation).len(),
            "lines of code in {name}"
        );
    }
}
