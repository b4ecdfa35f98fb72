//! What `baton run` generates and how it handles it: random text, pretended work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton::{Effects, Handler, Message, Rejected, Source};
use rand::Rng;
use rand::rngs::SmallRng;
use tokio::time::Instant;

use crate::args::RunArgs;

/// How many words there are: one for each value of a byte.
const WORDS: usize = 256;
/// Fewest and most words of a message.
const WORDS_PER_TEXT: (u64, u64) = (3, 12);
/// The most that one sleep may take too long and that is made up for.
const MOST_OVERSLEPT: Duration = Duration::from_millis(5);

/// Random readable text: three to twelve words, about 60 bytes on average; or words up to a
/// given size.
pub(crate) struct RandomText {
    size: Option<usize>,
    words: [Word; WORDS],
    rng: SmallRng,
}

/// A word and a space behind it, and how many bytes that is. Copying a fixed size is several
/// times as fast as copying just as much as is needed.
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
            let (fewest, most) = WORDS_PER_TEXT;
            let count = fewest + (self.rng.next_u64() >> 32) % (most - fewest + 1);
            self.append_words(text, |word, _| word < count);
            // The space behind the last word.
            text.pop();
            return;
        };
        let end = text.len() + size;
        self.append_words(text, |_, length| length < end);
        text.truncate(end);
    }

    /// Appends words while `more` wants more than so many words and so long a text.
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

impl Source for RandomText {
    async fn generate(&mut self, _seq: u64, text: &mut Vec<u8>) {
        self.append(text);
    }
}

/// Pretends to work: takes its time, and finds some messages faulty by chance.
pub(crate) struct PretendedWork {
    /// Time that every message takes.
    pub(crate) work: Duration,
    /// Time that every character of its text takes.
    pub(crate) work_per_char: Duration,
    /// Probability of a rejection.
    pub(crate) error_rate: f64,
    /// Nanoseconds that were slept too long and have not been made up for.
    overslept: AtomicU64,
}

impl PretendedWork {
    /// The work that flags ask for.
    pub(crate) fn new(args: &RunArgs) -> Self {
        Self {
            work: args.work,
            work_per_char: args.work_per_char,
            error_rate: args.error_rate,
            overslept: AtomicU64::new(0),
        }
    }

    /// Sleeps for a time that is right on average. The clock ticks in milliseconds: what one
    /// message sleeps too long, others sleep less.
    async fn sleep(&self, time: Duration) {
        let time_ns = time.as_nanos() as u64;
        let less = |owed: u64| Some(owed - owed.min(time_ns));
        let order = Ordering::Relaxed;
        let owed = self.overslept.fetch_update(order, order, less);
        let made_up = Duration::from_nanos(owed.unwrap_or_default().min(time_ns));
        let rest = time - made_up;
        if rest.is_zero() {
            return;
        }
        let began = Instant::now();
        tokio::time::sleep(rest).await;
        // A process that was stopped has not slept too long.
        let over = began.elapsed().saturating_sub(rest).min(MOST_OVERSLEPT);
        self.overslept.fetch_add(over.as_nanos() as u64, order);
    }

    fn time(&self, text: &[u8]) -> Duration {
        if self.work_per_char.is_zero() {
            return self.work;
        }
        // A character begins with a byte that continues no other.
        let chars = text.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        let chars = u32::try_from(chars).unwrap_or(u32::MAX);
        self.work
            .saturating_add(self.work_per_char.saturating_mul(chars))
    }
}

impl Handler for PretendedWork {
    async fn handle(&self, message: Message<'_>, _: &mut Effects) -> Result<(), Rejected> {
        let time = self.time(message.text);
        if !time.is_zero() {
            self.sleep(time).await;
        }
        if self.error_rate > 0.0 && rand::random_bool(self.error_rate) {
            let percent = (self.error_rate * 1e6).round() / 1e4;
            return Err(format!("found faulty by chance ({percent} %)").into());
        }
        Ok(())
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
            let said: Vec<&str> = std::str::from_utf8(&text).unwrap().split(' ').collect();
            assert!(said.iter().all(|word| words.contains(word)), "{said:?}");
            counts.insert(said.len());
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

    #[test]
    fn handling_takes_longer_for_longer_texts() {
        let handler = PretendedWork {
            work: Duration::from_millis(10),
            work_per_char: Duration::from_millis(2),
            error_rate: 0.0,
            overslept: AtomicU64::new(0),
        };
        assert_eq!(handler.time("grün".as_bytes()), Duration::from_millis(18));
        assert_eq!(handler.time(b""), Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_slept_too_long_is_made_up_for() {
        let handler = PretendedWork {
            work: Duration::from_micros(500),
            work_per_char: Duration::ZERO,
            error_rate: 0.0,
            overslept: AtomicU64::new(0),
        };
        let began = Instant::now();
        for _ in 0..200 {
            handler.sleep(handler.work).await;
        }
        // Each sleep alone takes a ms at least; together they take what they should, and what
        // the last one took too long.
        let owed = Duration::from_nanos(handler.overslept.load(Ordering::Relaxed));
        assert_eq!(began.elapsed(), Duration::from_millis(100) + owed);
        assert!(owed <= Duration::from_millis(2), "{owed:?}");
    }

    #[tokio::test]
    async fn the_error_rate_is_the_share_of_rejected_messages() {
        let message = Message::new(1, b"x");
        for (error_rate, expected) in [(0.0, 0..=0), (1.0, 1000..=1000), (0.3, 200..=400)] {
            let handler = PretendedWork {
                work: Duration::ZERO,
                work_per_char: Duration::ZERO,
                error_rate,
                overslept: AtomicU64::new(0),
            };
            let mut rejected = 0;
            for _ in 0..1000 {
                let outcome = handler.handle(message, &mut Effects::default()).await;
                rejected += u32::from(outcome.is_err());
            }
            assert!(expected.contains(&rejected), "{error_rate}: {rejected}");
        }
    }
}
