//! The recipes of docs/sources.md, run as they stand there.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;

use baton::FailedMessage;
use baton_processes::Fleet;
use baton_server::PrivateServer;

use crate::shared::{TIMEOUT, server, tool, wait_for, wait_status, wait_until};

const DOCUMENT: &str = include_str!("../../../../docs/sources.md");

/// The first block of code in this language below a heading.
fn block(heading: &str, language: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(&format!("\n## {heading}\n")).unwrap();
    let (_, rest) = rest.split_once(&format!("\n```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// Two copies that run a source, and reject what it makes: the errors store has all texts.
fn fleet(server: &PrivateServer, source: &str, format: &str, env: (&str, &str)) -> Fleet {
    let url = server.url();
    let args = ["--redis", &url, "--error-rate", "1"];
    let source = ["--source", source, "--source-format", format];
    let fleet = Fleet::new(env!("CARGO_BIN_EXE_baton"), &[args, source].concat());
    let mut fleet = fleet.with_env(&[(env.0.to_owned(), env.1.to_owned())]);
    fleet.start_many(2, TIMEOUT).unwrap();
    fleet
}

/// Kills the generator, starts another copy, and waits for the successor.
fn replace_generator(fleet: &mut Fleet) {
    let mark = fleet.mark();
    fleet.kill9(fleet.generator().unwrap()).unwrap();
    fleet.start().unwrap();
    let _ = wait_for(fleet, mark, "a successor", |told| told.is_generator());
}

/// The texts of all messages in order.
fn texts(server: &PrivateServer) -> Vec<String> {
    let mut command = baton_processes::command(Path::new(env!("CARGO_BIN_EXE_baton")));
    command.args(["errors", "--json", "--redis", &server.url()]);
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let message = |line| serde_json::from_str::<FailedMessage>(line).unwrap();
    let mut failed: Vec<FailedMessage> = output.lines().map(message).collect();
    failed.sort_by_key(|failed| failed.seq);
    let text = |failed: FailedMessage| String::from_utf8(failed.text).unwrap();
    failed.into_iter().map(text).collect()
}

/// Writes a recipe's program to its file.
fn program(folder: &Path, heading: &str, language: &str, name: &str) -> String {
    let code = block(heading, language);
    assert!(code.lines().nth(1).unwrap().contains(name), "{code}");
    let file = folder.join(name);
    std::fs::write(&file, code).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Whether the tools of a recipe are here. If one is missing, a line says so.
fn have(names: &[&str]) -> bool {
    names.iter().all(|name| {
        let skipped = format!("the recipe of docs/sources.md with {name}: it is not here");
        let variable = format!("BATON_{}", name.to_uppercase());
        let found = tool::find(&variable, &[name], "--version", &skipped);
        tool::require(name, found.as_ref());
        found.is_some()
    })
}

#[test]
fn the_recipe_for_a_csv_file_skips_its_header_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<String> = (1..=3000).map(|row| format!("{row},order")).collect();
    let csv = format!("number,what\n{}\n", rows.join("\n"));
    std::fs::write(folder.path().join("orders.csv"), csv).unwrap();
    let recipe = block("Import a CSV file", "sh").trim();
    let in_example = format!("--source '{recipe}'");
    assert!(DOCUMENT.contains(&in_example), "{in_example}");

    let server = server();
    let source = format!("cd {}; {recipe}", folder.path().display());
    let mut fleet = fleet(&server, &source, "lines", ("BATON_MAX_PENDING", "100"));
    wait_status(&server, "some", |status| status.published > 500);
    replace_generator(&mut fleet);
    wait_status(&server, "all to end", |status| status.failed == 3000);
    assert_eq!(texts(&server), rows);
}

/// An API with 40 events, of which a page has three. Every fifth request fails.
fn serve_events(listener: &TcpListener) {
    const EVENTS: u64 = 40;
    for (count, stream) in listener.incoming().enumerate() {
        let _ = answer(stream.unwrap(), count, EVENTS);
    }
}

fn answer(mut stream: TcpStream, count: usize, events: u64) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or(Ok(String::new()))?;
    let after = first.split("after=").nth(1).unwrap_or_default();
    let after: u64 = after.split(' ').next().unwrap().parse().unwrap();
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let event = |id: u64| format!(r#"{{"id":{id},"what":"größe \"{id}\""}}"#);
    let page: Vec<String> = (after + 1..=events).take(3).map(event).collect();
    let body = format!("[{}]", page.join(","));
    let status = match count % 5 {
        4 => "503 Service Unavailable",
        _ => "200 OK",
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn the_recipe_for_an_api_relays_each_event_once() {
    if !have(&["curl", "jq"]) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    thread::spawn(move || serve_events(&listener));
    let folder = tempfile::tempdir().unwrap();
    let heading = "Poll an API with curl and jq";
    let script = program(folder.path(), heading, "sh", "poll.sh");
    let script = std::fs::read_to_string(script).unwrap();
    assert!(script.contains("sleep 1\n"));
    // The test has no time for pauses.
    let script = script.replace("sleep 1\n", "sleep 0.01\n");
    let file = folder.path().join("quick.sh");
    std::fs::write(&file, script).unwrap();

    let server = server();
    let source = format!("sh {}", file.display());
    let mut fleet = fleet(&server, &source, "json", ("EVENTS_URL", &url));
    wait_status(&server, "some", |status| status.published >= 10);
    replace_generator(&mut fleet);
    wait_status(&server, "all to end", |status| status.failed == 40);
    let expected: Vec<String> = (1..=40)
        .map(|id| format!(r#"{{"id":{id},"what":"größe \"{id}\""}}"#))
        .collect();
    assert_eq!(texts(&server), expected);
}

#[test]
fn the_recipe_for_a_folder_deletes_what_redis_has() {
    if !have(&["python3"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    std::fs::create_dir(&spool).unwrap();
    let add = |number: u32| {
        let hidden = spool.join(".new");
        std::fs::write(&hidden, format!("file {number}\n")).unwrap();
        std::fs::rename(hidden, spool.join(format!("{number:05}"))).unwrap();
    };
    let heading = "Relay a folder, and delete what is accepted";
    let script = program(folder.path(), heading, "python", "spool.py");
    let server = server();
    let spool_path = spool.to_str().unwrap();
    let mut fleet = fleet(&server, &script, "json", ("SPOOL", spool_path));
    for number in 1..=60 {
        add(number);
        if number % 20 == 0 {
            replace_generator(&mut fleet);
        }
    }
    wait_status(&server, "all to end", |status| status.failed == 60);
    wait_until("an empty folder", || {
        std::fs::read_dir(&spool).unwrap().next().is_none()
    });
    let expected: Vec<String> = (1..=60).map(|number| format!("file {number}\n")).collect();
    assert_eq!(texts(&server), expected);
}

#[test]
fn the_table_has_every_variable() {
    let cell = |line: &'static str| line.strip_prefix("| `")?.split('`').next();
    let cells = DOCUMENT.lines().filter_map(cell);
    let variables: Vec<&str> = cells.filter(|cell| cell.starts_with("BATON_")).collect();
    assert_eq!(variables, baton_exec::SOURCE_VARIABLES);
}
