//! The scripts: each is a `.lua` file that documents its keys, arguments, answers and invariants.
//! The macro puts shared files in front of a script at compile time.

/// One script, and the digest under which the server caches it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) sha: std::sync::LazyLock<String>,
}

macro_rules! script {
    ($constant:ident, $name:literal, [$($part:literal),*]) => {
        pub(crate) static $constant: Script = Script {
            name: $name,
            source: concat!(
                $(include_str!(concat!($part, ".lua")),)*
                include_str!(concat!($name, ".lua"))
            ),
            sha: std::sync::LazyLock::new(|| {
                sha1_smol::Sha1::from($constant.source).digest().to_string()
            }),
        };
    };
}

script!(BEAT, "beat", ["clock", "checked", "presence"]);
script!(FREE, "free", ["clock", "presence"]);
script!(LEAVE, "leave", ["clock"]);
script!(FORGET, "forget", ["checked", "presence"]);
script!(PREFLIGHT, "preflight", []);
script!(SEAL, "seal", ["checked", "bell"]);
script!(PUBLISH, "publish", ["checked", "ledger"]);
script!(
    CLAIM,
    "claim",
    [
        "clock",
        "checked",
        "presence",
        "range",
        "suspects",
        "bell",
        "claimed",
        "errors_append",
        "ledger"
    ]
);
script!(EXTEND, "extend", ["clock", "claimed"]);
script!(
    COMMIT,
    "commit",
    [
        "checked",
        "range",
        "claimed",
        "effects",
        "errors_append",
        "ledger"
    ]
);
script!(
    GIVE_BACK,
    "give_back",
    [
        "checked", "presence", "range", "suspects", "bell", "claimed", "errors", "put_back"
    ]
);
script!(
    RECLAIM,
    "reclaim",
    [
        "clock", "checked", "presence", "range", "suspects", "bell", "claimed", "errors",
        "put_back"
    ]
);
script!(
    ERRORS_CLAIM,
    "errors_claim",
    ["clock", "claimed", "checked", "errors"]
);
script!(
    ERRORS_COMMIT,
    "errors_commit",
    ["claimed", "checked", "errors"]
);
script!(
    ERRORS_SETTLE,
    "errors_settle",
    ["bell", "ledger", "checked"]
);
script!(TOGETHER, "together", []);
script!(NEWEST, "newest", ["checked", "errors"]);
