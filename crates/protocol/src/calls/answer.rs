//! The parts of an answer. An unexpected answer becomes an error that quotes it.

use std::fmt::{self, Write};

use redis::Value;

use crate::Error;
use crate::bounds::MAX_EXACT;

/// Max characters of an answer in an error.
const MAX_EXCERPT_CHARS: usize = 200;

/// The error for an answer that no script of ours gives.
pub(crate) fn unexpected(call: &'static str, answer: &(impl fmt::Debug + ?Sized)) -> Error {
    let mut excerpt = Excerpt::default();
    // The excerpt ends the writing with an error when it is full.
    let _ = write!(excerpt, "{answer:?}");
    Error::Answer {
        call,
        answer: excerpt.text,
    }
}

/// The beginning of a text. An answer may have hundreds of megabytes, too much for a log line.
#[derive(Default)]
struct Excerpt {
    text: String,
    chars: usize,
}

impl Write for Excerpt {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for c in more.chars() {
            if self.chars == MAX_EXCERPT_CHARS {
                return Err(fmt::Error);
            }
            self.text.push(c);
            self.chars += 1;
        }
        Ok(())
    }
}

/// The elements of an array.
pub(crate) fn array<'a>(call: &'static str, answer: &'a Value) -> Result<&'a [Value], Error> {
    match answer {
        Value::Array(values) => Ok(values),
        _ => Err(unexpected(call, answer)),
    }
}

/// The fields of a hash and their values.
pub(crate) fn pairs<'a>(
    call: &'static str,
    answer: &'a Value,
) -> Result<&'a [(Value, Value)], Error> {
    match answer {
        Value::Map(pairs) => Ok(pairs),
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
        Value::Int(number) => u64::try_from(*number)
            .ok()
            .filter(|number| *number <= MAX_EXACT),
        _ => str::from_utf8(bytes(call, value)?).ok().and_then(exact),
    }
    .ok_or_else(|| unexpected(call, value))
}

/// The number of these digits, if scripts can count to it.
pub fn exact(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = plain.then(|| digits.parse().ok()).flatten();
    number.filter(|number| *number <= MAX_EXACT)
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
