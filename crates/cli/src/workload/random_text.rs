//! A source of random readable texts.

use rand::Rng;
use rand::rngs::SmallRng;

/// How many words `words.txt` has: one for each value of a byte.
const WORDS: usize = 256;
/// Min and max words of a text.
const WORDS_PER_TEXT: (u64, u64) = (3, 12);

/// Random readable texts: three to twelve words, about 60 bytes on average; or words up to a
/// given size.
pub(crate) struct RandomText {
    size: Option<usize>,
    words: [Word; WORDS],
    rng: SmallRng,
}

/// A word, a space behind it, and the length of both. The array has a fixed size because copying
/// all of it is several times as fast as copying only the word.
#[derive(Clone, Copy)]
struct Word {
    bytes: [u8; 16],
    length: usize,
}

impl Word {
    fn new(word: &str) -> Self {
        let mut bytes = [b' '; 16];
        let length = word.len().min(bytes.len() - 1);
        bytes[..length].copy_from_slice(&word.as_bytes()[..length]);
        Self {
            bytes,
            length: length + 1,
        }
    }
}

impl RandomText {
    /// Texts of three to twelve words.
    pub(crate) fn new() -> Self {
        let mut lines = include_str!("words.txt").lines();
        Self {
            size: None,
            words: std::array::from_fn(|_| Word::new(lines.next().unwrap_or_default())),
            rng: rand::make_rng(),
        }
    }

    /// Texts of exactly so many bytes; the last word may be cut off.
    pub(crate) fn sized(size: usize) -> Self {
        Self {
            size: Some(size),
            ..Self::new()
        }
    }

    /// Appends one text.
    pub(crate) fn append(&mut self, text: &mut Vec<u8>) {
        let Some(size) = self.size else {
            let (min, max) = WORDS_PER_TEXT;
            let count = min + (self.rng.next_u64() >> 32) % (max - min + 1);
            self.append_words(text, |word, _| word < count);
            // The last word has a space behind it.
            text.pop();
            return;
        };
        let end = text.len() + size;
        self.append_words(text, |_, length| length < end);
        text.truncate(end);
    }

    /// Appends words while `more` says so. `more` gets the number of words and the length of the
    /// text.
    fn append_words(&mut self, text: &mut Vec<u8>, more: impl Fn(u64, usize) -> bool) {
        let mut random = 0;
        let mut count = 0;
        while more(count, text.len()) {
            // Eight words from one random number.
            if count % 8 == 0 {
                random = self.rng.next_u64();
            }
            let word = &self.words[usize::from(random.to_le_bytes()[0])];
            let end = text.len() + word.length;
            text.extend_from_slice(&word.bytes);
            text.truncate(end);
            random >>= 8;
            count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_words_of_our_list_and_about_64_bytes_long() {
        let words: Vec<&str> = include_str!("words.txt").lines().collect();
        assert_eq!(words.len(), WORDS);
        let mut source = RandomText::new();
        let mut text = Vec::new();
        let (mut bytes, mut counts) = (0, std::collections::BTreeSet::new());
        for _ in 0..10_000 {
            text.clear();
            source.append(&mut text);
            bytes += text.len();
            let used: Vec<&str> = std::str::from_utf8(&text).unwrap().split(' ').collect();
            assert!(used.iter().all(|word| words.contains(word)), "{used:?}");
            counts.insert(used.len());
        }
        assert!((56..=70).contains(&(bytes / 10_000)), "{}", bytes / 10_000);
        assert_eq!(counts, (3..=12).collect());
    }

    #[test]
    fn a_sized_text_has_exactly_that_size() {
        for size in [0, 1, 16, 64, 1 << 20] {
            let mut text = Vec::new();
            RandomText::sized(size).append(&mut text);
            assert_eq!(text.len(), size);
        }
    }
}
