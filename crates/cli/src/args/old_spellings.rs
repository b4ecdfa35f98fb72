//! The spellings of older programs that solve the same problem: `-addr host:port`, `-getErrors`,
//! `--cleanTemp`. They become our own command line before the parser reads it. Values of flags
//! and everything after `--` stay as they are.
//!
//! The command's name also moves to the front, so that all flags work before and after it. A line
//! without a command becomes `run`.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

/// Flags that also work with one dash.
const ONE_DASH: [&str; 4] = ["addr", "host", "port", "db"];
/// Flags that mean a command: the old name in small letters, and our command.
const COMMANDS: [(&str, &str); 4] = [
    ("geterrors", "getErrors"),
    ("get-errors", "getErrors"),
    ("cleantemp", "clean"),
    ("clean-temp", "clean"),
];

/// What one word of the command line is.
enum Word {
    /// A flag that means this command.
    Command(&'static str),
    /// Such a flag, switched off.
    Nothing,
    /// A flag in our spelling, and whether its value is the next word.
    Flag(OsString, bool),
    /// Not a flag.
    Bare,
}

/// The command line in our own spelling, the command first. The error is a text for the user.
pub(crate) fn canonical(
    argv: Vec<OsString>,
    definition: &clap::Command,
) -> Result<Vec<OsString>, String> {
    let valued = flags_with_values(definition);
    let mut words = argv.into_iter();
    let program = words.next().unwrap_or_else(|| "baton".into());
    let (mut command, mut asked): (Option<OsString>, Option<&str>) = (None, None);
    let mut rest = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            // An unset variable in `-- $CMD` must not mean the pretended work.
            if words.as_slice().first().is_none_or(|word| word.is_empty()) {
                return Err("write a command behind --, or leave -- out".to_owned());
            }
            rest.push(word);
            break;
        }
        match read(&word, &valued) {
            Word::Command(name) => {
                if asked.replace(name).is_some_and(|before| before != name) {
                    return Err("getErrors and cleanTemp are two commands: type one".to_owned());
                }
            }
            Word::Nothing => {}
            Word::Flag(flag, has_value) => {
                rest.push(flag);
                rest.extend(words.by_ref().take(usize::from(has_value)));
            }
            Word::Bare if command.is_none() => command = Some(word),
            Word::Bare => rest.push(word),
        }
    }
    rest.extend(words);

    let command = match (command, asked) {
        (Some(command), Some(asked)) if !is_named(definition, &command, asked) => {
            return Err(format!(
                "{} and {asked} are two commands: type one",
                command.display()
            ));
        }
        (_, Some(asked)) => Some(asked.into()),
        (Some(command), None) => Some(command),
        (None, None) if rest.iter().any(|word| is_about_the_program(word)) => None,
        (None, None) => Some("run".into()),
    };
    Ok([program].into_iter().chain(command).chain(rest).collect())
}

fn read(word: &OsStr, valued: &HashSet<String>) -> Word {
    let Some((text, name)) = word.to_str().and_then(|text| {
        let name = text.strip_prefix('-')?;
        Some((text, name.strip_prefix('-').unwrap_or(name)))
    }) else {
        return Word::Bare;
    };
    let (name, value) = match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    };
    let small = name.to_ascii_lowercase();
    if let Some((_, command)) = COMMANDS.iter().find(|(old, _)| *old == small) {
        match value {
            None | Some("true" | "1") => return Word::Command(command),
            Some("false" | "0") => return Word::Nothing,
            // The parser refuses it.
            Some(_) => {}
        }
    }
    let two_dashes = text.starts_with("--");
    if !two_dashes && ONE_DASH.contains(&name) {
        return Word::Flag(format!("-{text}").into(), value.is_none());
    }
    let has_value = two_dashes && value.is_none() && valued.contains(name);
    Word::Flag(word.to_owned(), has_value)
}

/// Names of all flags whose value may be the next word.
fn flags_with_values(definition: &clap::Command) -> HashSet<String> {
    std::iter::once(definition)
        .chain(definition.get_subcommands())
        .flat_map(clap::Command::get_arguments)
        .filter(|arg| arg.get_action().takes_values())
        .filter_map(|arg| arg.get_long().map(str::to_owned))
        .collect()
}

/// Whether this word names the command.
fn is_named(definition: &clap::Command, word: &OsStr, command: &str) -> bool {
    definition
        .find_subcommand(word)
        .is_some_and(|found| found.get_name() == command)
}

fn is_about_the_program(word: &OsStr) -> bool {
    ["-h", "--help", "-help", "-V", "--version"]
        .iter()
        .any(|flag| word == *flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(line: &str) -> Result<String, String> {
        let argv = std::iter::once("baton").chain(line.split_whitespace());
        let argv = argv.map(OsString::from).collect();
        let words = canonical(argv, &crate::args::definition())?;
        let words: Vec<String> = words
            .iter()
            .map(|word| word.to_str().unwrap().to_owned())
            .collect();
        Ok(words[1..].join(" "))
    }

    #[test]
    fn old_spellings_become_ours() {
        for (old, ours) in [
            ("-addr h:1 -getErrors", "getErrors --addr h:1"),
            ("-addr=h:1 -getErrors=true", "getErrors --addr=h:1"),
            ("--addr h:1 --getErrors", "getErrors --addr h:1"),
            ("-getErrors=false", "run"),
            ("--get-errors", "getErrors"),
            ("-addr h:1", "run --addr h:1"),
            (
                "--host h --port 1 --db 2 --getErrors",
                "getErrors --host h --port 1 --db 2",
            ),
            ("-host h -port 1 -db 2", "run --host h --port 1 --db 2"),
            ("--cleanTemp", "clean"),
            ("-cleanTemp --host h", "clean --host h"),
            ("getErrors --getErrors", "getErrors"),
            ("geterrors --getErrors", "getErrors"),
        ] {
            assert_eq!(rewritten(old).as_deref(), Ok(ours), "{old}");
        }
    }

    #[test]
    fn the_command_comes_first_and_is_run_if_there_is_none() {
        for (line, ours) in [
            ("", "run"),
            ("--interval 1s", "run --interval 1s"),
            (
                "--interval 1s run --log json",
                "run --interval 1s --log json",
            ),
            ("--fleet status", "run --fleet status"),
            ("--fleet x status --json", "status --fleet x --json"),
            ("--json status", "status --json"),
            ("--fleet x server stop", "server --fleet x stop"),
            ("--help", "--help"),
            ("-V", "-V"),
            ("help run", "help run"),
            ("run --help", "run --help"),
            (
                "--redis redis://h completions bash",
                "completions --redis redis://h bash",
            ),
        ] {
            assert_eq!(rewritten(line).as_deref(), Ok(ours), "{line}");
        }
    }

    #[test]
    fn values_of_flags_and_words_after_two_dashes_stay_as_they_are() {
        for (line, ours) in [
            ("--fleet -getErrors", "run --fleet -getErrors"),
            ("--password-file -addr", "run --password-file -addr"),
            ("-addr -getErrors", "run --addr -getErrors"),
            ("status -- -getErrors -addr", "status -- -getErrors -addr"),
            ("--fleet=-addr", "run --fleet=-addr"),
        ] {
            assert_eq!(rewritten(line).as_deref(), Ok(ours), "{line}");
        }
    }

    #[test]
    fn two_commands_at_once_are_refused() {
        for line in [
            "status -getErrors",
            "--getErrors --cleanTemp",
            "run --cleanTemp",
        ] {
            assert!(
                rewritten(line).unwrap_err().contains("two commands"),
                "{line}"
            );
        }
    }
}
