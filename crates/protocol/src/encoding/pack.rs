//! Packs and ranges: how messages travel.
//!
//! A pack is a msgpack array `[time in ms, [text, …]]`, readable by Lua's `cmsgpack` and by
//! any language. It is written once and stays where it is until its last message has ended;
//! what moves through queue and claims is a [`Range`].

use crate::Error;
use crate::calls::answer::{MOST, exact};

/// Messages `first..=last` of one pack, and how often they came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First sequence number of the pack they are in.
    pub pack: u64,
    /// How many messages that pack has.
    pub count: u64,
    /// The first message of the range.
    pub first: u64,
    /// The last message of the range.
    pub last: u64,
    /// How often it came back from a worker that did not end it.
    pub returns: u64,
}

/// Bytes of the longest text that can be a range, with what stands behind its numbers, and of
/// the longest numbers.
const LONGEST_RANGE: (usize, usize) = (400, 90);

impl Range {
    /// Reads what a script wrote: five decimal numbers, and perhaps a time, a run of the
    /// server and the names of nodes that may have died with these messages. What this takes for a range, the scripts
    /// do too, and the other way round.
    pub fn parse(text: &str) -> Option<Self> {
        let (longest, longest_numbers) = LONGEST_RANGE;
        let mut words = text.splitn(8, ' ');
        let numbers = words.by_ref().take(5).map(str::len).sum::<usize>() + 4;
        if text.len() > longest || numbers > longest_numbers {
            return None;
        }
        let digits = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        let hex = |word: &str| word.bytes().all(|b| b.is_ascii_hexdigit());
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(time), Some(run), Some(names))
                if digits(time) && hex(run) && !names.is_empty() && !names.contains(' ') => {}
            _ => return None,
        }
        let mut numbers = text.split(' ').take(5).map(exact);
        let mut next = || numbers.next().flatten();
        let range = Self {
            pack: next()?,
            count: next()?,
            first: next()?,
            last: next()?,
            returns: next()?,
        };
        let end = range.pack + range.count;
        let sound = 1 <= range.pack
            && range.count <= PACK_MESSAGES
            && range.pack <= range.first
            && range.first <= range.last
            && range.last < end
            && range.last < MOST;
        sound.then_some(range)
    }

    /// How many messages it has.
    pub fn size(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Most messages and bytes of a pack that the generator makes. The scripts take no longer range
/// for one of ours.
pub const PACK_MESSAGES: u64 = 1000;
const MOST_BYTES: usize = 256 << 10;
/// From so many messages on a pack ends shortly before 64 KiB, a size class of allocators.
const MANY_MESSAGES: u64 = 500;
const CLASS_BYTES: usize = 65_000;

/// A pack in the making.
#[derive(Debug, Default)]
pub struct PackBuilder {
    texts: Vec<u8>,
    count: u64,
}

impl PackBuilder {
    /// Adds a message.
    pub fn push(&mut self, text: &[u8]) {
        write_text(&mut self.texts, text);
        self.count += 1;
    }

    /// Begins anew, with the memory of the last one.
    pub fn clear(&mut self) {
        self.texts.clear();
        self.count = 0;
    }

    /// How many it has.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the generator would begin another one. What a pack costs beside its texts is
    /// shared by its messages, so it should have many; beyond some hundreds it rather ends
    /// where an allocator's next larger class would be half empty.
    pub fn is_full(&self) -> bool {
        let bytes = self.texts.len();
        self.count >= PACK_MESSAGES
            || bytes >= MOST_BYTES
            || (self.count >= MANY_MESSAGES && bytes >= CLASS_BYTES)
    }

    /// The finished pack.
    pub fn finish(&self, at_ms: u64) -> Vec<u8> {
        let mut pack = Vec::with_capacity(self.texts.len() + 16);
        write(&mut pack, |pack| {
            rmp::encode::write_array_len(pack, 2)?;
            rmp::encode::write_uint(pack, at_ms)?;
            rmp::encode::write_array_len(pack, u32::try_from(self.count).unwrap_or(u32::MAX))
        });
        pack.extend_from_slice(&self.texts);
        pack
    }
}

/// A pack as read: borrowed texts, nothing copied.
#[derive(Debug, PartialEq, Eq)]
pub struct Pack<'a> {
    /// When it was made, on Redis's clock.
    pub at_ms: u64,
    /// The texts in order.
    pub texts: Vec<&'a [u8]>,
}

impl<'a> Pack<'a> {
    /// Reads a pack. Bytes that are not one give an error, never a panic; memory is bounded
    /// by the bytes at hand.
    pub fn parse(mut bytes: &'a [u8]) -> Result<Self, Error> {
        read(&mut bytes).ok_or_else(|| Error::Answer {
            call: "claim",
            answer: "bytes that are not a pack".to_owned(),
        })
    }
}

/// A pack that lanes share: its bytes, and where in them the texts are.
#[derive(Debug, Default)]
pub struct OwnedPack {
    bytes: Vec<u8>,
    contents: Option<Contents>,
}

#[derive(Debug)]
struct Contents {
    at_ms: u64,
    /// Where each text begins, and its length.
    texts: Vec<(usize, usize)>,
}

impl OwnedPack {
    /// Reads a pack, once. Bytes that are not one are kept as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        let contents = Pack::parse(&bytes).ok().map(|pack| Contents {
            at_ms: pack.at_ms,
            texts: pack
                .texts
                .iter()
                .map(|text| (text.as_ptr().addr() - bytes.as_ptr().addr(), text.len()))
                .collect(),
        });
        Self { bytes, contents }
    }

    /// All of its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// When it was made, if it can be read.
    pub fn at_ms(&self) -> Option<u64> {
        Some(self.contents.as_ref()?.at_ms)
    }

    /// How many texts it has; none if it cannot be read.
    pub fn count(&self) -> u64 {
        self.contents
            .as_ref()
            .map_or(0, |contents| contents.texts.len() as u64)
    }

    /// One text, counted from 0.
    pub fn text(&self, at: u64) -> Option<&[u8]> {
        let contents = self.contents.as_ref()?;
        let (from, length) = *contents.texts.get(usize::try_from(at).ok()?)?;
        self.bytes.get(from..from + length)
    }
}

fn read<'a>(bytes: &mut &'a [u8]) -> Option<Pack<'a>> {
    if rmp::decode::read_array_len(bytes).ok()? != 2 {
        return None;
    }
    let at_ms = rmp::decode::read_int(bytes).ok()?;
    let count = rmp::decode::read_array_len(bytes).ok()? as usize;
    // Each text takes a byte at least, so a lying length cannot make us reserve more.
    let mut texts = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        texts.push(read_text(bytes)?);
    }
    bytes.is_empty().then_some(Pack { at_ms, texts })
}

/// Appends a msgpack string. Texts may be any bytes: `cmsgpack` makes no difference either.
pub(crate) fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    write(to, |to| {
        rmp::encode::write_str_len(to, u32::try_from(text.len()).unwrap_or(u32::MAX))
    });
    to.extend_from_slice(text);
}

/// Takes a msgpack string (or binary) off the front.
pub(crate) fn read_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_text_len(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

/// The same of bytes whose end is missing: what is there of the text.
pub(crate) fn read_cut_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_text_len(bytes)?;
    let (text, rest) = bytes.split_at(length.min(bytes.len()));
    *bytes = rest;
    Some(text)
}

fn read_text_len(bytes: &mut &[u8]) -> Option<usize> {
    let mut rest = *bytes;
    let length = match rmp::decode::read_str_len(&mut rest) {
        Ok(length) => length,
        Err(_) => {
            rest = *bytes;
            rmp::decode::read_bin_len(&mut rest).ok()?
        }
    };
    *bytes = rest;
    Some(length as usize)
}

/// Runs an encoder on a vector, to which writing cannot fail.
pub(crate) fn write<T, E>(to: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>) -> Result<T, E>) {
    let written = encode(to);
    debug_assert!(written.is_ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack_of(texts: &[&[u8]]) -> Vec<u8> {
        let mut builder = PackBuilder::default();
        texts.iter().for_each(|text| builder.push(text));
        builder.finish(1_700_000_000_123)
    }

    #[test]
    fn a_pack_reads_back_whatever_its_texts_are() {
        let long = vec![b'x'; 1 << 20];
        let texts: Vec<&[u8]> = vec![
            b"",
            b"hello",
            b"\xff\xfe\x00",
            "\u{1b}[31m".as_bytes(),
            &long,
        ];
        let bytes = pack_of(&texts);
        let pack = Pack::parse(&bytes).unwrap();
        assert_eq!(
            pack,
            Pack {
                at_ms: 1_700_000_000_123,
                texts
            }
        );
    }

    #[test]
    fn any_cut_or_foreign_bytes_are_an_error() {
        let bytes = pack_of(&[b"hello", b"world"]);
        for cut in 0..bytes.len() {
            assert!(Pack::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Pack::parse(&longer).is_err());
        // An array that claims four billion texts.
        assert!(Pack::parse(&[0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(Pack::parse(b"garbage").is_err());
    }

    #[test]
    fn a_range_reads_back_and_nonsense_does_not() {
        let range = Range {
            pack: 1,
            count: 500,
            first: 3,
            last: 500,
            returns: 2,
        };
        assert_eq!(Range::parse("1 500 3 500 2"), Some(range));
        assert_eq!(range.size(), 498);
        for bad in [
            "",
            "1 500 3",
            "1 500 3 501 0",
            "5 5 4 6 0",
            "1 2 2 1 0",
            "0 1 0 0 0",
            "a b c d e",
            "1 1 1 1 0 0",
        ] {
            assert_eq!(Range::parse(bad), None, "{bad}");
        }
        for beyond in ["18446744073709551615", "9007199254740993"] {
            assert_eq!(
                Range::parse(&format!("{beyond} 1 {beyond} {beyond} 0")),
                None
            );
            assert_eq!(Range::parse(&format!("1 1 1 1 {beyond}")), None);
        }
    }
}
