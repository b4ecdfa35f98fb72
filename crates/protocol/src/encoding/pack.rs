//! Packs and ranges: how Redis stores messages.
//!
//! A pack is a msgpack array `[time in ms, [text, …], origin]` or `[time in ms, [text, …], [key, …]]`,
//! which Lua's `cmsgpack` and every other language can read. The origin is a random name that a generator
//! draws when it opens its source: with the sequence number it is a message's key, unless the source gave
//! messages of the pack keys of its own. A pack is written once and stays in place until its last message
//! has ended. A [`Range`] of it moves through queue and claims.

use crate::Error;
use crate::bounds::{MAX_EXACT, MAX_PACK_MESSAGES, MAX_RANGE_BYTES, MAX_RANGE_NUMBER_BYTES};
use crate::calls::answer::exact;
use crate::encoding::key::Key;

/// Messages `first..=last` of one pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First sequence number of their pack.
    pub pack: u64,
    /// How many messages that pack has.
    pub count: u64,
    /// The first message of the range.
    pub first: u64,
    /// The last message of the range.
    pub last: u64,
    /// How often a worker's claim on it was reclaimed.
    pub returns: u64,
}

impl Range {
    /// Reads a stored range: five decimal numbers, optionally followed by its suspects: a time, a
    /// run id and the names of nodes that may have died with these messages. Accepts exactly what
    /// the scripts accept.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(8, ' ');
        let numbers = words.by_ref().take(5).map(str::len).sum::<usize>() + 4;
        if text.len() > MAX_RANGE_BYTES || numbers > MAX_RANGE_NUMBER_BYTES {
            return None;
        }
        let digits = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        let hex = |word: &str| word.bytes().all(|b| b.is_ascii_hexdigit());
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(time), Some(run_id), Some(names))
                if digits(time) && hex(run_id) && !names.is_empty() && !names.contains(' ') => {}
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
            && range.count <= MAX_PACK_MESSAGES
            && range.pack <= range.first
            && range.first <= range.last
            && range.last < end
            && range.last < MAX_EXACT
            && range.returns < MAX_EXACT;
        sound.then_some(range)
    }

    /// How many messages it has.
    pub fn size(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// Max bytes of a pack that the generator makes, unless its last text is long.
const MAX_PACK_BYTES: usize = 256 << 10;
/// With so many messages a pack ends shortly before 64 KiB, a size class of allocators.
const MANY_MESSAGES: u64 = 500;
const CLASS_BYTES: usize = 65_000;

/// Bytes in front of a pack's first text. Its time and its count are written in a fixed length, so
/// that the texts do not move when the pack is finished.
const HEAD: usize = 1 + 9 + 3;

/// A pack in the making.
#[derive(Debug, Default)]
pub struct PackBuilder {
    /// Room for the head, and the texts behind it.
    bytes: Vec<u8>,
    count: u64,
    /// Keys that the source gave, and the place of the message of each.
    keys: Vec<(u64, Box<str>)>,
    keys_bytes: usize,
}

impl PackBuilder {
    /// Adds a message.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.resize(self.bytes.len().max(HEAD), 0);
        write_text(&mut self.bytes, text);
        self.count += 1;
    }

    /// Adds a message with a key of its source's.
    pub fn push_keyed(&mut self, key: &str, text: &[u8]) {
        self.keys.push((self.count, key.into()));
        self.keys_bytes += key.len();
        self.push(text);
    }

    /// How many messages it has.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the generator should begin another pack. The messages of a pack share its fixed
    /// cost, so it should have many. With some hundreds it ends where it would not fill the
    /// allocator's next size class.
    pub fn is_full(&self) -> bool {
        let bytes = self.bytes.len() + self.keys_bytes;
        self.count >= MAX_PACK_MESSAGES
            || bytes >= MAX_PACK_BYTES
            || (self.count >= MANY_MESSAGES && bytes >= CLASS_BYTES)
    }

    /// The finished pack, whose first message is number `first`. The builder is empty then, and expects
    /// as many bytes again.
    pub fn finish(&mut self, at_ms: u64, origin: &str, first: u64) -> Vec<u8> {
        let next = Vec::with_capacity(self.bytes.len());
        let mut pack = std::mem::replace(&mut self.bytes, next);
        pack.resize(pack.len().max(HEAD), 0);
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let [a, b] = count.to_be_bytes();
        // An array of three, an unsigned number of eight bytes, an array with a count of two.
        pack[..2].copy_from_slice(&[0x93, 0xcf]);
        pack[2..10].copy_from_slice(&at_ms.to_be_bytes());
        pack[10..HEAD].copy_from_slice(&[0xdc, a, b]);
        if self.keys.is_empty() {
            write_text(&mut pack, origin.as_bytes());
        } else {
            self.write_keys(&mut pack, origin, first);
        }
        self.count = 0;
        self.keys_bytes = 0;
        pack
    }

    /// A key for each message, if the source gave one to some.
    fn write_keys(&mut self, to: &mut Vec<u8>, origin: &str, first: u64) {
        let count = u32::try_from(self.count).unwrap_or(u32::MAX);
        write(to, |to| rmp::encode::write_array_len(to, count));
        let mut keys = self.keys.drain(..).peekable();
        for place in 0..self.count {
            match keys.next_if(|(at, _)| *at == place) {
                Some((_, key)) => write_text(to, key.as_bytes()),
                None => {
                    let key = Key::numbered(origin, first + place).to_string();
                    write_text(to, key.as_bytes());
                }
            }
        }
    }
}

/// A decoded pack, which borrows its texts.
#[derive(Debug, PartialEq, Eq)]
pub struct Pack<'a> {
    /// When it was made, on Redis's clock.
    pub at_ms: u64,
    /// The texts in order.
    pub texts: Vec<&'a [u8]>,
    /// What the keys of its messages are made of.
    pub keys: PackKeys<'a>,
}

/// What the keys of a pack's messages are made of.
#[derive(Debug, PartialEq, Eq)]
pub enum PackKeys<'a> {
    /// The random name of the reign in which it was made; the sequence number follows.
    Origin(&'a str),
    /// The key of each message.
    Each(Vec<&'a str>),
}

impl<'a> Pack<'a> {
    /// Reads a pack. Other bytes are an error, never a panic. It allocates no more memory than the
    /// bytes justify.
    pub fn parse(mut bytes: &'a [u8]) -> Result<Self, Error> {
        read(&mut bytes).ok_or_else(|| Error::Answer {
            call: "claim",
            answer: "bytes that are not a pack".to_owned(),
        })
    }
}

/// A decoded pack that lanes share: its bytes, and where in them each text is.
#[derive(Debug, Default)]
pub struct OwnedPack {
    bytes: Vec<u8>,
    contents: Option<Contents>,
}

#[derive(Debug)]
struct Contents {
    at_ms: u64,
    /// Offset and length of each text.
    texts: Vec<(usize, usize)>,
    keys: OwnedKeys,
}

#[derive(Debug)]
enum OwnedKeys {
    Origin(String),
    Each(Vec<Box<str>>),
}

impl OwnedPack {
    /// Reads a pack. Other bytes are kept as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        let contents = Pack::parse(&bytes).ok().map(|pack| Contents {
            at_ms: pack.at_ms,
            texts: pack
                .texts
                .iter()
                .map(|text| (text.as_ptr().addr() - bytes.as_ptr().addr(), text.len()))
                .collect(),
            keys: match pack.keys {
                PackKeys::Origin(origin) => OwnedKeys::Origin(origin.to_owned()),
                PackKeys::Each(keys) => OwnedKeys::Each(keys.into_iter().map(Box::from).collect()),
            },
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

    /// The key of message `seq`, which has the place `at`, counted from 0. It is empty if the pack cannot
    /// be read.
    pub fn key(&self, at: u64, seq: u64) -> Key<'_> {
        let keys = self.contents.as_ref().map(|contents| &contents.keys);
        match keys {
            Some(OwnedKeys::Origin(origin)) => Key::numbered(origin, seq),
            Some(OwnedKeys::Each(keys)) => {
                let key = usize::try_from(at).ok().and_then(|at| keys.get(at));
                Key::given(key.map_or("", |key| key))
            }
            None => Key::given(""),
        }
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
    if rmp::decode::read_array_len(bytes).ok()? != 3 {
        return None;
    }
    let at_ms = rmp::decode::read_int(bytes).ok()?;
    let count = rmp::decode::read_array_len(bytes).ok()? as usize;
    // No range can name a message of an empty pack.
    if count == 0 {
        return None;
    }
    // Each text takes at least a byte, so a lying length cannot reserve more.
    let mut texts = Vec::with_capacity(count.min(bytes.len()));
    for _ in 0..count {
        texts.push(read_text(bytes)?);
    }
    let keys = match rmp::decode::read_array_len(&mut &**bytes) {
        Ok(_) => PackKeys::Each(read_keys(bytes, texts.len())?),
        Err(_) => PackKeys::Origin(read_word(bytes)?),
    };
    bytes.is_empty().then_some(Pack { at_ms, texts, keys })
}

/// One key for each of `count` messages.
fn read_keys<'a>(bytes: &mut &'a [u8], count: usize) -> Option<Vec<&'a str>> {
    let length = rmp::decode::read_array_len(bytes).ok()?;
    (length as usize == count).then_some(())?;
    (0..count).map(|_| read_word(bytes)).collect()
}

fn read_word<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    str::from_utf8(read_text(bytes)?).ok()
}

/// Appends a msgpack string. Texts may be any bytes: `cmsgpack` makes no difference either.
pub(crate) fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    write(to, |to| {
        rmp::encode::write_str_len(to, u32::try_from(text.len()).unwrap_or(u32::MAX))
    });
    to.extend_from_slice(text);
}

/// Reads a msgpack string (or binary) from the front.
pub(crate) fn read_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = read_text_len(bytes)?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

/// Like [`read_text`], of bytes whose end is missing: as much of the text as there is.
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
        builder.finish(1_700_000_000_123, "k3v9x0a7qm", 1)
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
                texts,
                keys: PackKeys::Origin("k3v9x0a7qm"),
            }
        );
        assert_eq!(
            OwnedPack::new(bytes).key(4, 11).to_string(),
            "k3v9x0a7qm-11"
        );
    }

    #[test]
    fn a_pack_has_the_keys_that_its_source_gave_and_made_ones_for_the_rest() {
        let mut builder = PackBuilder::default();
        builder.push(b"one");
        builder.push_keyed("order-2", b"two");
        builder.push(b"three");
        let bytes = builder.finish(7, "k3v9x0a7qm", 41);
        let pack = Pack::parse(&bytes).unwrap();
        let keys = vec!["k3v9x0a7qm-41", "order-2", "k3v9x0a7qm-43"];
        assert_eq!(pack.texts, [&b"one"[..], b"two", b"three"]);
        assert_eq!(pack.keys, PackKeys::Each(keys.clone()));
        for cut in 0..bytes.len() {
            assert!(Pack::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        let owned = OwnedPack::new(bytes);
        let of = |at| owned.key(at, 41 + at).to_string();
        assert_eq!([of(0), of(1), of(2)].to_vec(), keys);
        // The builder has forgotten them.
        builder.push(b"four");
        let next = OwnedPack::new(builder.finish(7, "k3v9x0a7qm", 44));
        assert_eq!(next.key(0, 44).to_string(), "k3v9x0a7qm-44");
    }

    #[test]
    fn a_pack_with_fewer_keys_than_texts_is_an_error() {
        let mut builder = PackBuilder::default();
        builder.push_keyed("a", b"one");
        let mut bytes = builder.finish(7, "k3v9x0a7qm", 1);
        let keys_at = bytes.len() - 3;
        assert_eq!(bytes[keys_at..], [0x91, 0xa1, b'a']);
        bytes.truncate(keys_at);
        bytes.push(0x90);
        assert!(Pack::parse(&bytes).is_err());
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
        assert!(Pack::parse(&[0x93, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
        assert!(Pack::parse(b"garbage").is_err());
    }

    #[test]
    fn a_pack_without_messages_is_an_error() {
        assert!(Pack::parse(&pack_of(&[])).is_err());
        // The same with an empty array of keys.
        assert!(Pack::parse(&[0x93, 0x01, 0x90, 0x90]).is_err());
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
