//! Stubs: what the errors store has in place of a long record, which has a key of its own.

use crate::bounds::MAX_STUB_BYTES;
use crate::calls::exact;

const HEAD: &str = "long ";
/// Digits of the longest length; the scripts know it, too.
const MAX_DIGITS: usize = 15;

/// The stub of a record of so many bytes. No other record has this name.
pub(crate) fn encode(length: usize, name: &str) -> Vec<u8> {
    format!("{HEAD}{length} {name}").into_bytes()
}

/// The length of the record that a stub stands for; none if it is no stub.
pub(crate) fn length(stored: &[u8]) -> Option<u64> {
    if stored.len() > MAX_STUB_BYTES {
        return None;
    }
    let rest = str::from_utf8(stored).ok()?.strip_prefix(HEAD)?;
    let (length, name) = rest.split_once(' ')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b':';
    let is_right = length.len() <= MAX_DIGITS && !name.is_empty() && name.bytes().all(is_name);
    exact(length).filter(|_| is_right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::record;

    #[test]
    fn a_stub_says_how_long_its_record_is() {
        let longest = "n".repeat(64);
        let stub = encode(usize::MAX >> 15, &format!("{longest}:{}", u64::MAX));
        assert_eq!(length(&stub), Some(u64::MAX >> 15));
    }

    #[test]
    fn a_record_is_no_stub() {
        let failed = record::failed_once(1, 2, "node", "reason", "long 12 text");
        assert_eq!(length(&record::encode(&failed)), None);
        for foreign in [
            "",
            "long",
            "long 12",
            "long 12 ",
            "long x n",
            "long 1 n n",
            "long 1 n\u{e9}:1",
            "long 9999999999999999 n:1",
        ] {
            assert_eq!(length(foreign.as_bytes()), None, "{foreign:?}");
        }
    }
}
