//! Command lines of the documents: each is one that this program takes.

use std::ffi::OsString;
use std::fs;
use std::iter::Peekable;
use std::str::Chars;

use super::{Refused, definition, read};

#[path = "../../tests/shared/markdown.rs"]
#[allow(dead_code, reason = "the tests of the program use the rest")]
mod markdown;

/// Languages of blocks that may have command lines.
const SHELL: [&str; 4] = ["", "sh", "console", "ini"];

/// Splits a line of shell into simple commands, and those into words. Substituted commands come
/// first, and an empty text stands in their place; targets of redirections are left out.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    split(&mut line.chars().peekable(), &mut found);
    found
}

/// The words of a simple command.
#[derive(Default)]
struct Words {
    ended: Vec<String>,
    word: Option<String>,
    /// Whether the next word is the target of a redirection.
    is_target: bool,
}

impl Words {
    fn open(&mut self) -> &mut String {
        self.word.get_or_insert_default()
    }

    fn end(&mut self) {
        if let Some(word) = self.word.take()
            && !std::mem::take(&mut self.is_target)
        {
            self.ended.push(word);
        }
    }
}

fn split(chars: &mut Peekable<Chars<'_>>, found: &mut Vec<Vec<String>>) {
    let (mut words, mut quote) = (Words::default(), None);
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\'' | '"', None) => {
                quote = Some(c);
                words.open();
            }
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) => words.open().extend(chars.next()),
            ('$', None | Some('"')) if chars.peek() == Some(&'(') => {
                chars.next();
                split(chars, found);
                words.open();
            }
            (c, Some(_)) => words.open().push(c),
            ('#', None) if words.word.is_none() => break,
            ('>' | '<', None) => {
                // `2>&1`: the number is no word, and the ampersand ends no command.
                words.word.take_if(|word| word.parse::<u8>().is_ok());
                words.end();
                words.is_target = true;
                chars.next_if(|next| "&>".contains(*next));
            }
            (c, None) if c.is_whitespace() => words.end(),
            (';' | '|' | '&' | '(' | ')', None) => {
                words.end();
                found.push(std::mem::take(&mut words).ended);
                if c == ')' {
                    return;
                }
            }
            (c, None) => words.open().push(c),
        }
    }
    words.end();
    found.push(words.ended);
}

/// The arguments of a command, if it is this program: behind variables and words of the shell.
fn arguments(words: &[String]) -> Option<&[String]> {
    let is_prefix = |word: &&String| {
        let variable = word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c))
        });
        variable || ["do", "then", "exec", "if", "until", "sudo", "!", "$"].contains(&word.as_str())
    };
    let prefix = words.iter().take_while(is_prefix).count();
    let (program, arguments) = words[prefix..].split_first()?;
    // `baton = …` is a line of a Cargo.toml.
    let is_toml = arguments.first().is_some_and(|first| first == "=");
    let is_ours = program == "baton" || program.ends_with("/baton");
    (is_ours && !is_toml).then_some(arguments)
}

/// The command lines of a document, each with the number of its line.
fn command_lines(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    for block in markdown::blocks(text) {
        if !SHELL.contains(&block.language.as_str()) {
            continue;
        }
        let mut heredoc: Option<String> = None;
        let mut lines = block.lines.iter().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(end) = &heredoc {
                if line == end {
                    heredoc = None;
                }
                continue;
            }
            let mut line = line.trim().to_owned();
            while line.ends_with('\\') {
                line.pop();
                line.push_str(lines.next().map_or("", |(_, next)| next.trim()));
            }
            heredoc = line
                .split_once("<<")
                .map(|(_, end)| end.trim_matches(['\'', '"']).to_owned());
            let line = line.strip_prefix("ExecStart=").unwrap_or(&line);
            for words in commands(line) {
                if let Some(arguments) = arguments(&words) {
                    found.push((block.line + number, arguments.to_vec()));
                }
            }
        }
    }
    found
}

#[test]
fn lines_of_shell_are_split_as_a_shell_does() {
    let words = |line: &str| -> Vec<Vec<String>> {
        let found = commands(line).into_iter();
        found
            .filter_map(|words| Some(arguments(&words)?.to_vec()))
            .collect()
    };
    for (line, expected) in [
        (
            "$ baton status --json | jq .x # baton no",
            vec![vec!["status", "--json"]],
        ),
        (
            "baton pause; baton resume",
            vec![vec!["pause"], vec!["resume"]],
        ),
        (
            "X=1 baton --exec 'a \"b\"; c' -- d\\ e > log &",
            vec![vec!["--exec", "a \"b\"; c", "--", "d e"]],
        ),
        (
            "kill \"$(baton status | awk '$1 { print }')\"",
            vec![vec!["status"]],
        ),
        ("for n in 1; do baton > node$n.log & done", vec![vec![]]),
        ("baton: no Redis", vec![]),
        ("baton = { version = 1 }", vec![]),
        ("echo baton", vec![]),
    ] {
        assert_eq!(words(line), expected, "{line}");
    }
}

#[test]
fn every_command_line_in_a_document_is_one_that_the_program_takes() {
    let mut checked = 0;
    let documents = markdown::documents("", false).into_iter();
    let documents = documents.chain(markdown::documents("docs", true));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for (line, arguments) in command_lines(&text) {
            checked += 1;
            let argv = ["baton"].iter().map(OsString::from);
            let argv = argv.chain(arguments.iter().map(OsString::from)).collect();
            let complaint = match read(argv) {
                Err(Refused::Words(words)) => words,
                Err(Refused::Parser(error)) if error.use_stderr() => error.to_string(),
                Ok(_) | Err(_) => continue,
            };
            panic!(
                "{}, line {line}: {arguments:?}: {complaint}",
                document.display()
            );
        }
    }
    assert!(checked > 80, "{checked}");
}

#[test]
fn every_flag_of_a_command_in_prose_is_one_of_that_command() {
    let mut checked = 0;
    let definition = definition();
    let known = |command: &clap::Command, flag: &str| {
        let mut flags = command.get_arguments().filter_map(clap::Arg::get_long);
        ["help", "version"].contains(&flag) || flags.any(|long| long == flag)
    };
    let documents = markdown::documents("", false).into_iter();
    let documents = documents.chain(markdown::documents("docs", true));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for span in markdown::inline_code(&text) {
            let Some(rest) = span.strip_prefix("baton ") else {
                continue;
            };
            let place = format!("{}: `{span}`", document.display());
            let mut words = rest
                .split_whitespace()
                .take_while(|word| !["--", "|", ">"].contains(word));
            let first = words.clone().next().unwrap_or_default();
            let command = match definition.find_subcommand(first) {
                Some(command) => command,
                None if first.is_empty() || first.starts_with('-') => {
                    definition.find_subcommand("run").unwrap()
                }
                None => panic!("{place}: there is no command {first}"),
            };
            let mut flags = words.by_ref().filter_map(|word| word.strip_prefix("--"));
            let unknown = flags.find(|flag| !known(command, flag) && !known(&definition, flag));
            assert_eq!(unknown, None, "{place}");
            checked += 1;
        }
    }
    assert!(checked > 40, "{checked}");
}
