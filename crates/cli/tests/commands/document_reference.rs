//! The reference in docs/reference: generated from the program, and never written by hand.
//!
//! With `BATON_WRITE_REFERENCE` the tests write it (`make reference`), without it they compare.

use std::fmt::Write as _;
use std::fs;

use baton_log::{Line, LogEvent};
use serde_json::{Map, Value, json};

use crate::shared::markdown::root;
use crate::support::{baton, run};

const EVENTS: &str = include_str!("../../../log/src/event.rs");

#[track_caller]
fn compare(name: &str, text: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("BATON_WRITE_REFERENCE").is_some() {
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/reference/{name} is stale: make reference"
    );
}

/// The help of a command.
fn help(command: &[&str]) -> String {
    let ended = run(baton(&[command, &["--help"]].concat()));
    assert_eq!(ended.code, Some(0), "{command:?}");
    let lines = ended.lines().into_iter().map(str::trim_end);
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// The names below `Commands:` in a help.
fn subcommands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let list = rest.lines().take_while(|line| !line.is_empty());
    let names = list.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

/// Takes the flags of the connection out of a help: every command has them.
fn without_connection(help: &str) -> (String, Option<&str>) {
    let Some(begin) = help.find("\nConnection:\n") else {
        return (help.to_owned(), None);
    };
    let section = &help[begin + 1..];
    let mut end = 0;
    for line in section.split_inclusive('\n').skip(1) {
        if !line.starts_with(' ') && line != "\n" {
            break;
        }
        end += line.len();
    }
    let end = "Connection:\n".len() + end;
    let rest = format!("{}{}", &help[..begin + 1], &section[end..]);
    (rest, Some(section[..end].trim_end()))
}

#[test]
fn the_reference_of_commands_is_their_help() {
    let top = help(&[]);
    let mut commands: Vec<Vec<String>> = vec![Vec::new()];
    for name in subcommands(&top) {
        let below = subcommands(&help(&[&name]));
        commands.push(vec![name.clone()]);
        commands.extend(below.into_iter().map(|below| vec![name.clone(), below]));
    }
    assert!(commands.len() > 20, "{commands:?}");
    let mut text = "# Commands\n\n<!-- Generated: make reference -->\n\nWhat `baton --help` and the \
        `--help` of every command print. Every command also has the\n[flags of the connection](#connection).\n"
        .to_owned();
    let mut connection = None;
    for command in &commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help(&words);
        let (help, section) = without_connection(&help);
        if let Some(section) = section {
            let first = connection.get_or_insert_with(|| section.to_owned());
            // Some helps are long, and others have a flag a line.
            let same = first.split_whitespace().eq(section.split_whitespace());
            assert!(same, "{words:?} has other flags of the connection");
        }
        let title = [&["baton"], &words[..]].concat().join(" ");
        let _ = write!(text, "\n## {title}\n\n```text\n{}\n```\n", help.trim_end());
    }
    let _ = write!(
        text,
        "\n## Connection\n\n```text\n{}\n```\n",
        connection.unwrap()
    );
    compare("commands.md", &text);
}

/// A field of an event, or a variant without fields.
struct Field {
    name: String,
    kind: &'static str,
    about: String,
}

struct Event {
    name: String,
    about: String,
    fields: Vec<Field>,
}

fn kind(rust: &str) -> &'static str {
    match rust {
        "u64" => "whole number",
        "f64" => "number",
        "Cow<'a, str>" => "text",
        "Option<Cow<'a, str>>" => "text, if there is one",
        "Cow<'a, [u64]>" => "list of whole numbers",
        "Cow<'a, [String]>" => "list of texts",
        "Role" => "`generator` or `worker`",
        "RedisState" => "`lost` or `regained`",
        other => panic!("a type that the reference does not know: {other}"),
    }
}

fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// The variants of `LogEvent`, from its source: names, types and comments.
fn events() -> Vec<Event> {
    let (_, body) = EVENTS.split_once("pub enum LogEvent<'a> {\n").unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let (mut events, mut about): (Vec<Event>, String) = (Vec::new(), String::new());
    for line in body.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            about = format!("{about}{comment}").trim().to_owned();
        } else if let Some((name, rust)) = line.split_once(": ").filter(|_| !line.starts_with('#'))
        {
            let event = events.last_mut().unwrap();
            event.fields.push(Field {
                name: name.to_owned(),
                kind: kind(rust.trim_end_matches(',')),
                about: std::mem::take(&mut about),
            });
        } else if line.starts_with(char::is_uppercase) {
            events.push(Event {
                name: snake_case(line.trim_end_matches([' ', '{', ','])),
                about: std::mem::take(&mut about),
                fields: Vec::new(),
            });
        }
    }
    // Readers make it from what they do not know; no node writes it.
    events.retain(|event| event.name != "other");
    events
}

#[test]
fn the_reference_of_events_is_their_type() {
    let mut text = "# Log events\n\n<!-- Generated: make reference -->\n\n`baton run --log json` writes one object \
        per line. Every line has `at` (the time, such as\n`2026-11-16T09:00:00.123Z`), `event` and `node` (the \
        node's name); the event decides what follows. A reader\nshould ignore fields and events that it does not \
        know.\n".to_owned();
    for event in events() {
        let _ = write!(text, "\n## {}\n\n{}\n", event.name, event.about);
        if !event.fields.is_empty() {
            text.push_str("\n| field | value | meaning |\n|---|---|---|\n");
        }
        for field in event.fields {
            let _ = writeln!(
                text,
                "| `{}` | {} | {} |",
                field.name, field.kind, field.about
            );
        }
    }
    compare("events.md", &text);
}

#[test]
fn every_event_of_the_reference_is_one_that_nodes_write() {
    let events = events();
    assert!(events.len() > 15);
    for event in events {
        let mut fields = Map::new();
        fields.insert("at".to_owned(), json!("2026-11-16T09:00:00.123Z"));
        fields.insert("event".to_owned(), json!(event.name));
        fields.insert("node".to_owned(), json!("k3v9"));
        for field in &event.fields {
            let value = match field.kind {
                "whole number" => json!(7),
                "number" => json!(0.5),
                "list of whole numbers" => json!([7]),
                "list of texts" => json!(["k3v9"]),
                "`generator` or `worker`" => json!("worker"),
                "`lost` or `regained`" => json!("lost"),
                _ => json!("a text"),
            };
            fields.insert(field.name.clone(), value);
        }
        let value = Value::Object(fields);
        let line: Line = serde_json::from_value(value.clone()).unwrap();
        assert_ne!(line.event, LogEvent::Other, "{value}");
        assert_eq!(serde_json::to_value(&line).unwrap(), value);
    }
}
