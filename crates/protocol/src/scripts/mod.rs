//! The scripts: one `.lua` file for each state transition, which documents its keys, arguments,
//! answers and invariants. Code that several scripts need is in `fragments/`.
//!
//! A script is put together when it is first used: its fragments in order, then its own file,
//! without comments, and with the numbers of [`bounds`] in place of their names. So documentation
//! and names cost the server nothing.

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

macro_rules! script {
    ($constant:ident, $name:literal, [$($fragment:literal),*]) => {
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
    };
}

script!(BEAT, "beat", ["clock", "key_types", "counts", "presence"]);
script!(FREE, "free", ["clock", "presence"]);
script!(LEAVE, "leave", ["clock", "key_types"]);
script!(FORGET, "forget", ["key_types", "presence"]);
script!(PREFLIGHT, "preflight", []);
script!(
    SEAL,
    "seal",
    ["key_types", "counts", "must_be_count", "ring"]
);
script!(
    PUBLISH,
    "publish",
    ["clock", "key_types", "counts", "ring", "ledger", "packs"]
);
script!(VOID, "void", ["key_types", "counts", "ledger"]);
script!(PARK, "park", ["key_types"]);
script!(RING, "ring", ["ring"]);
script!(TELL, "tell", ["key_types", "counts"]);
script!(PAUSE, "pause", ["clock", "key_types", "counts", "ring"]);
script!(
    CLAIM,
    "claim",
    [
        "clock",
        "key_types",
        "counts",
        "presence",
        "range",
        "suspects",
        "ring",
        "claim_value",
        "first_write",
        "errors_append",
        "ledger",
        "must_be_count",
        "packs",
        "set_aside"
    ]
);
script!(
    EXTEND,
    "extend",
    ["clock", "key_types", "claim_value", "first_write"]
);
script!(
    COMMIT,
    "commit",
    [
        "key_types",
        "counts",
        "range",
        "claim_value",
        "effects",
        "errors_append",
        "ledger"
    ]
);
script!(
    GIVE_BACK,
    "give_back",
    [
        "key_types",
        "presence",
        "range",
        "suspects",
        "ring",
        "claim_value",
        "errors_store",
        "put_back"
    ]
);
script!(
    RECLAIM,
    "reclaim",
    [
        "clock",
        "first_write",
        "key_types",
        "presence",
        "range",
        "suspects",
        "ring",
        "claim_value",
        "errors_store",
        "put_back"
    ]
);
script!(
    ERRORS_CLAIM,
    "errors_claim",
    [
        "clock",
        "claim_value",
        "first_write",
        "key_types",
        "counts",
        "errors_store"
    ]
);
script!(
    ERRORS_COMMIT,
    "errors_commit",
    ["key_types", "counts", "claim_value", "errors_store"]
);
script!(
    ERRORS_SETTLE,
    "errors_settle",
    [
        "clock",
        "ring",
        "ledger",
        "key_types",
        "counts",
        "packs",
        "errors_store"
    ]
);
script!(TOGETHER, "together", []);
script!(NEWEST, "newest", ["counts", "errors_store"]);

fn assemble(files: &[&str]) -> String {
    let lines = files.iter().flat_map(|file| file.lines());
    let code = lines.filter(|line| !line.is_empty() && !line.trim_start().starts_with("--"));
    let code = code.flat_map(|line| [line, "\n"]).collect();
    bounds::NAMED
        .iter()
        .fold(code, |code: String, (name, number)| {
            code.replace(name, &number.to_string())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_numbers_for_names_and_no_comments() {
        let range = assemble(&[include_str!("fragments/range.lua")]);
        assert!(
            range.contains("or returns >= 9007199254740992 then"),
            "{range}"
        );
        assert!(!range.contains("--") && !range.contains("MAX_"), "{range}");
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
