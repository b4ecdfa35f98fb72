//! The value of a switch, a flag that is on or off. Only its variable has one; a typed switch is on.

use std::ffi::OsStr;

use baton_protocol::text::Escaped;
use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

const ON: [&str; 4] = ["true", "1", "yes", "on"];
const OFF: [&str; 4] = ["false", "0", "no", "off"];

/// Reads a switch's variable. An unknown word is an error, not a guess: `disabled` would otherwise
/// enable the feature.
#[derive(Clone)]
pub(super) struct Switch;

impl TypedValueParser for Switch {
    type Value = bool;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<bool, Error> {
        let is = |words: [&str; 4]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
        match (is(ON), is(OFF)) {
            (true, _) => Ok(true),
            (_, true) => Ok(false),
            _ => Err(refusal(command, arg, value)),
        }
    }
}

fn refusal(command: &Command, arg: Option<&Arg>, value: &OsStr) -> Error {
    let variable = arg.and_then(Arg::get_env).unwrap_or_default();
    let text = format!(
        "{}={}: write true, 1, yes or on, or false, 0, no or off",
        variable.to_string_lossy(),
        Escaped(value.as_encoded_bytes())
    );
    Error::raw(ErrorKind::InvalidValue, format!("{text}\n")).with_cmd(command)
}
