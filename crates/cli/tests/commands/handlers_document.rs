//! The examples of docs/handlers.md, run as they stand there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_processes::Fleet;
use redis::Commands;

use crate::shared::{TIMEOUT, redis, server, tool, wait_status};

const DOCUMENT: &str = include_str!("../../../../docs/handlers.md");
const MESSAGES: u64 = 5;

/// The first block of code in this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Writes the program of a language to its file, and lets a fleet handle messages with it. Returns a
/// connection to the server of the fleet, which lives as long as the second value.
fn run_example(
    language: &str,
    name: &str,
    command: &[&str],
) -> (redis::Connection, impl Sized + use<>) {
    let program = block(language);
    let mut lines = program.lines();
    assert!(lines.next().unwrap().starts_with("#!"), "{program}");
    assert!(lines.next().unwrap().contains(name), "{program}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, program).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();

    let server = server();
    let (url, messages) = (server.url(), MESSAGES.to_string());
    let file = file.to_str().unwrap();
    let args = [
        "--redis",
        &url,
        "--interval",
        "1ms",
        "--messages",
        &messages,
    ];
    let args: Vec<&str> = args.iter().chain(command).copied().chain([file]).collect();
    let mut fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &args);
    fleet.start_many(2, TIMEOUT).unwrap();
    wait_status(&server, "all to be done", |status| status.done == MESSAGES);
    (redis(&server), (folder, fleet, server))
}

/// A program that an example needs. If it is missing, a line says so.
fn interpreter(variable: &str, name: &str) -> Option<PathBuf> {
    let skipped = format!("the example of docs/handlers.md for {name}: it is not here");
    let found = tool::find(variable, &[name], "--version", &skipped);
    tool::require(name, found.as_ref());
    found
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_shell_example_counts_characters() {
    let (mut redis, _fleet) = run_example("sh", "count.sh", &["--exec"]);
    let chars: u64 = redis.get("chars").unwrap();
    assert!(chars >= MESSAGES, "{chars}");
}

#[test]
fn the_python_example_counts_words() {
    let Some(python) = interpreter("BATON_PYTHON", "python3") else {
        return;
    };
    let (mut redis, _fleet) = run_example("python", "words.py", &["--", text(&python)]);
    let counts: Vec<u64> = redis.hvals("words").unwrap();
    assert!(counts.iter().sum::<u64>() >= MESSAGES, "{counts:?}");
}

#[test]
fn the_node_example_keeps_every_text() {
    let Some(node) = interpreter("BATON_NODE", "node") else {
        return;
    };
    let (mut redis, _fleet) = run_example("js", "longest.js", &["--", text(&node)]);
    assert_eq!(redis.zcard("texts"), Ok(MESSAGES));
}

/// The document has this very code.
mod rust_example {
    use baton::{Effects, Handler, HandlerError, Message, Rejected};

    pub(super) struct Count;

    impl Handler for Count {
        async fn handle(
            &self,
            message: Message<'_>,
            effects: &mut Effects,
        ) -> Result<(), HandlerError> {
            let text = str::from_utf8(message.text).map_err(Rejected::because)?; // for good
            if text == "not yet" {
                return Err("the warehouse is closed".into()); // later
            }
            effects.incr_by("chars", text.chars().count() as i64);
            Ok(())
        }
    }
}

#[tokio::test]
async fn the_rust_example_is_the_code_that_runs_here() {
    use baton::{Effects, Handler, Message};

    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let ours = squeezed(include_str!("handlers_document.rs")).replace("pub(super) ", "");
    assert!(ours.contains(&squeezed(block("rust"))), "{}", block("rust"));

    let (mut effects, mut expected) = (Effects::default(), Effects::default());
    let mut handle = async |text| {
        let message = Message::new(1, text);
        rust_example::Count.handle(message, &mut effects).await
    };
    assert!(handle(b"\xff").await.unwrap_err().is_final());
    assert!(!handle(b"not yet").await.unwrap_err().is_final());
    handle("grün".as_bytes()).await.unwrap();
    expected.incr_by("chars", 4);
    assert_eq!(effects, expected);
}

/// What the first cells of tables have between backticks, if it begins so.
fn cells(begin: &str) -> Vec<&'static str> {
    let cell = |line: &'static str| line.strip_prefix("| `")?.split('`').next();
    let found = DOCUMENT.lines().filter_map(cell);
    found.filter(|cell| cell.starts_with(begin)).collect()
}

#[test]
fn the_tables_have_every_effect_and_every_variable() {
    let mut expected = baton::Effects::default();
    expected.set("key", "value");
    expected.del("key");
    expected.incr_by("key", 1);
    expected.hset("key", "field", "value");
    expected.hincr_by("key", "field", 1);
    expected.rpush("key", "value");
    expected.sadd("key", "member");
    expected.zadd("key", 5, "member");
    let lines = cells("[").join("\n");
    assert_eq!(baton::Effects::parse_lines(lines.as_bytes()), Ok(expected));
    assert_eq!(cells("BATON_"), baton_exec::VARIABLES);
}
