//! Reading what scripts answer. Anything unexpected is an error with the answer in it.

use redis::Value;

use crate::Error;

/// Longest excerpt of an answer in an error.
const EXCERPT_CHARS: usize = 200;

/// The error for an answer that no script of ours gives.
pub(crate) fn unexpected(call: &'static str, answer: &Value) -> Error {
    let answer: String = format!("{answer:?}").chars().take(EXCERPT_CHARS).collect();
    Error::Answer { call, answer }
}

/// The elements of an array.
pub(crate) fn array<'a>(call: &'static str, answer: &'a Value) -> Result<&'a [Value], Error> {
    match answer {
        Value::Array(values) => Ok(values),
        _ => Err(unexpected(call, answer)),
    }
}

/// The bytes of one value.
pub(crate) fn bytes<'a>(call: &'static str, value: &'a Value) -> Result<&'a [u8], Error> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text.as_bytes()),
        _ => Err(unexpected(call, value)),
    }
}

/// A value as text.
pub(crate) fn string(call: &'static str, value: &Value) -> Result<String, Error> {
    Ok(String::from_utf8_lossy(bytes(call, value)?).into_owned())
}

/// An array of texts.
pub(crate) fn strings(call: &'static str, answer: &Value) -> Result<Vec<String>, Error> {
    array(call, answer)?
        .iter()
        .map(|value| string(call, value))
        .collect()
}

/// A number, sent as an integer or as its digits.
pub(crate) fn number(call: &'static str, value: &Value) -> Result<u64, Error> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unexpected(call, value)),
        _ => string(call, value)?
            .parse()
            .map_err(|_| unexpected(call, value)),
    }
}

/// An answer of the form `{word, value, …}`.
pub(crate) fn worded<'a>(
    call: &'static str,
    answer: &'a Value,
) -> Result<(&'a [u8], &'a [Value]), Error> {
    match array(call, answer)? {
        [word, rest @ ..] => Ok((bytes(call, word)?, rest)),
        [] => Err(unexpected(call, answer)),
    }
}
