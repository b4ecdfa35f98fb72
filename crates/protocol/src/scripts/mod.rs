//! The scripts: one `.lua` file for each state transition, which documents its keys, arguments,
//! answers and invariants. Code that several scripts need is in `fragments/`.
//!
//! A script is put together when it is first used: its fragments in order, then its own file,
//! without comments and without the functions that it does not call, and with the numbers of
//! [`bounds`] in place of their names. So documentation, names and shared code cost the server nothing.

use std::ops::Range;
use std::sync::LazyLock;

use crate::bounds;

/// One script.
#[derive(Debug)]
pub struct Script {
    /// The name of its file, and of its call in errors.
    pub name: &'static str,
    /// What the server runs.
    pub source: LazyLock<String>,
    /// The SHA-1 of the source: the name by which the server caches it.
    pub(crate) sha: LazyLock<String>,
}

/// Makes the scripts, each with its fragments.
macro_rules! scripts {
    ($($constant:ident = $name:literal, [$($fragment:literal),*];)*) => {
        $(
            #[doc = concat!("`", $name, ".lua`")]
            pub static $constant: Script = Script {
                name: $name,
                source: LazyLock::new(|| {
                    assemble(&[
                        $(include_str!(concat!("fragments/", $fragment, ".lua")),)*
                        include_str!(concat!($name, ".lua")),
                    ])
                }),
                sha: LazyLock::new(|| {
                    sha1_smol::Sha1::from($constant.source.as_str()).digest().to_string()
                }),
            };
        )*

        /// All of them.
        static ALL: &[&Script] = &[$(&$constant),*];
    };
}

/// Puts all scripts together, so that the first commit of a node, or its first publish after a takeover, does not
/// wait for it.
pub fn prepare() {
    for script in ALL {
        LazyLock::force(&script.sha);
    }
}

scripts! {
    BEAT = "beat", ["clock", "key_types", "counts", "presence"];
    FREE = "free", ["clock", "presence"];
    LEAVE = "leave", ["clock", "key_types"];
    FORGET = "forget", ["key_types", "presence"];
    PREFLIGHT = "preflight", [];
    SEAL = "seal", ["key_types", "counts", "must_be_count", "ring"];
    PUBLISH = "publish", ["clock", "key_types", "counts", "ring", "ledger", "packs"];
    VOID = "void", ["key_types", "counts", "ledger"];
    PARK = "park", ["key_types"];
    RING = "ring", ["ring"];
    TELL = "tell", ["key_types", "counts"];
    PAUSE = "pause", ["clock", "key_types", "counts", "ring"];
    CLAIM = "claim", [
        "clock", "key_types", "counts", "presence", "range", "suspects", "ring", "claim_value",
        "first_write", "errors_append", "ledger", "must_be_count", "packs", "set_aside"
    ];
    EXTEND = "extend", ["clock", "key_types", "claim_value", "first_write"];
    COMMIT = "commit", [
        "key_types", "counts", "range", "claim_value", "effects", "errors_append", "stubs",
        "staged_records", "ledger"
    ];
    GIVE_BACK = "give_back", [
        "key_types", "presence", "range", "suspects", "ring", "claim_value", "errors_store",
        "put_back"
    ];
    RECLAIM = "reclaim", [
        "clock", "first_write", "key_types", "presence", "range", "suspects", "ring",
        "claim_value", "errors_store", "put_back"
    ];
    ERRORS_CLAIM = "errors_claim", [
        "clock", "claim_value", "first_write", "key_types", "counts", "errors_store", "stubs"
    ];
    ERRORS_COMMIT = "errors_commit", [
        "key_types", "counts", "claim_value", "errors_store", "stubs"
    ];
    ERRORS_SETTLE = "errors_settle", [
        "clock", "ring", "ledger", "key_types", "counts", "packs", "errors_store", "stubs"
    ];
    TOGETHER = "together", [];
    NEWEST = "newest", ["counts", "errors_store", "stubs"];
}

fn assemble(files: &[&str]) -> String {
    let lines = files.iter().flat_map(|file| file.lines());
    let code = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with("--"));
    let code = without_unused(code.collect());
    let code = code.into_iter().flat_map(|line| [line, "\n"]).collect();
    bounds::NAMED
        .iter()
        .fold(code, |code: String, (name, number)| {
            code.replace(name, &number.to_string())
        })
}

/// Removes the functions that no other line names: each run of the script would make them anew.
fn without_unused(mut lines: Vec<&str>) -> Vec<&str> {
    loop {
        let mut functions = functions(&lines);
        let unused = functions.find(|function| is_unused(&lines, function));
        drop(functions);
        match unused {
            Some(unused) => lines.drain(unused),
            None => return lines,
        };
    }
}

/// The functions of a script that begin and end at the margin, as ranges of its lines.
fn functions<'a>(lines: &'a [&str]) -> impl Iterator<Item = Range<usize>> + 'a {
    let begins = (0..lines.len()).filter(|at| function_name(lines[*at]).is_some());
    begins.filter_map(|begin| {
        let length = lines[begin..].iter().position(|line| *line == "end")?;
        Some(begin..begin + length + 1)
    })
}

fn function_name(line: &str) -> Option<&str> {
    Some(line.strip_prefix("local function ")?.split_once('(')?.0)
}

fn is_unused(lines: &[&str], function: &Range<usize>) -> bool {
    let Some(name) = function_name(lines[function.start]) else {
        return false;
    };
    let is_word = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let names_it = |line: &&str| line.split(|byte| !is_word(byte)).any(|word| word == name);
    let (before, behind) = (&lines[..function.start], &lines[function.end..]);
    !before.iter().chain(behind).any(names_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_numbers_for_names_and_no_comments() {
        let range = assemble(&[
            include_str!("fragments/range.lua"),
            "-- why\nreturn parse_range(ARGV[1])\n",
        ]);
        assert!(
            range.contains("or returns >= 9007199254740992 then"),
            "{range}"
        );
        assert!(!range.contains("--") && !range.contains("MAX_"), "{range}");
    }

    #[test]
    fn a_script_has_the_functions_that_it_calls_and_no_others() {
        let fragment = "local function one()\n  return 1\nend\n\
            local function two()\n  return one() + one()\nend\n\
            local function twofold(it)\n  return it and twofold(it)\nend\n";
        let calls_two = "local function one()\nreturn 1\nend\nlocal function two()\nreturn one() + one()\nend\n";
        let indented = calls_two.replace("\nreturn", "\n  return");
        assert_eq!(
            assemble(&[fragment, "return two()"]),
            indented + "return two()\n"
        );
        assert_eq!(assemble(&[fragment, "return 2"]), "return 2\n");
    }

    #[test]
    fn no_bound_has_a_name_that_is_part_of_another() {
        for (name, _) in bounds::NAMED {
            let parts = bounds::NAMED
                .iter()
                .filter(|(other, _)| other.contains(name));
            assert_eq!(parts.count(), 1, "{name}");
        }
    }
}
