//! The values of Redis that scripts write: numbers, names, hashes, lists.

use std::collections::BTreeMap;

use baton_model::state::{Id, Ms, Node, RunId};

use crate::encoding;
use crate::raw_connection::Value;

pub(super) fn strange(what: &str, value: &Value) -> String {
    format!("{what} holds {value:?}")
}

pub(super) fn is_empty(value: &Value) -> bool {
    matches!(value, Value::Nil) || matches!(value, Value::Array(values) if values.is_empty())
}

pub(super) fn elements(value: &Value) -> &[Value] {
    match value {
        Value::Array(values) => values,
        _ => &[],
    }
}

pub(super) fn bytes(value: &Value) -> Result<&[u8], String> {
    match value {
        Value::Text(bytes) => Ok(bytes),
        _ => Err(format!("{value:?} is not a text")),
    }
}

pub(super) fn text(value: &Value) -> Result<&str, String> {
    str::from_utf8(bytes(value)?).map_err(|_| format!("{value:?} is not UTF-8"))
}

/// A number as scripts write it.
pub(super) fn digits(word: &str) -> Option<u64> {
    let padded = word.len() > 1 && word.starts_with('0');
    word.parse()
        .ok()
        .filter(|_| !padded && !word.starts_with('+'))
}

pub(super) fn number(value: &Value) -> Result<u64, String> {
    digits(text(value)?).ok_or_else(|| format!("{value:?} is not a number"))
}

pub(super) fn time_of(value: &Value) -> Result<Ms, String> {
    Ok(number(value)? as Ms)
}

pub(super) fn node_of(value: &Value) -> Result<Node, String> {
    encoding::read_node(text(value)?).ok_or_else(|| format!("{value:?} is not a node"))
}

pub(super) fn read_run_id(word: &str) -> Result<RunId, String> {
    let run_id = RunId::from_str_radix(word, 16).ok();
    run_id
        .filter(|_| word.len() == 8)
        .ok_or_else(|| format!("{word:?} is not a run id"))
}

/// The ids of a drain's claim.
pub(super) fn read_ids(body: &[u8]) -> Option<Vec<Id>> {
    let ids = str::from_utf8(body).ok()?.split(' ');
    ids.map(digits).collect()
}

/// The fields of a hash that has no others.
pub(super) fn fields<'a, const N: usize>(
    key: &str,
    hash: &'a Value,
    names: [&str; N],
) -> Result<[Option<&'a Value>; N], String> {
    let mut found = [None; N];
    for [name, value] in elements(hash).as_chunks::<2>().0 {
        match names
            .iter()
            .position(|known| known.as_bytes() == bytes(name).unwrap_or_default())
        {
            Some(at) => found[at] = Some(value),
            None => return Err(strange(key, hash)),
        }
    }
    Ok(found)
}

/// A hash or a sorted set.
pub(super) fn map<K: Ord, V>(
    pairs: &Value,
    key: impl Fn(&str) -> Option<K>,
    value: impl Fn(&Value) -> Result<V, String>,
) -> Result<BTreeMap<K, V>, String> {
    let pairs = elements(pairs).as_chunks::<2>().0.iter();
    let pairs = pairs.map(|[name, of]| {
        let name = text(name)?;
        let key = key(name).ok_or_else(|| format!("{name:?} is not a name of ours"))?;
        Ok((key, value(of)?))
    });
    pairs.collect()
}

/// The elements of a list.
pub(super) fn list<T>(
    value: &Value,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    elements(value).iter().map(read).collect()
}
