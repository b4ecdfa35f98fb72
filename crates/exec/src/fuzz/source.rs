//! The output of a source: which messages and cursors it makes.

use baton::fuzz::{batch, made};

use crate::source::fuzz::{Format, JsonLine, MAX_UNCOVERED, MessageReader, Stopped};

/// Longest complaint about a line, in characters.
const COMPLAINT_CHARS: usize = 400;

/// What a source made, in the order in which it was made.
#[derive(Debug, Default, PartialEq, Eq)]
struct Made {
    texts: Vec<Vec<u8>>,
    /// How many messages each cursor covers.
    cursors: Vec<(usize, Vec<u8>)>,
}

/// All that a source prints. The first byte says in which format, the second the size of the pieces in
/// which the rest comes, the third how many messages fit into a batch.
pub fn source(data: &[u8]) {
    let [format, piece, limit, printed @ ..] = data else {
        return;
    };
    let pieces = printed.chunks(usize::from(*piece).max(1));
    match format & 1 {
        0 => {
            let limit = u64::from(*limit).max(1);
            let (made, is_well) = read(Format::Lines, pieces, limit);
            assert!(is_well && made.texts == lines(printed));
            assert!(made.cursors.iter().all(|(_, cursor)| cursor.is_empty()));
        }
        _ => {
            // Each group fits: what happens else depends on the fleet.
            let (made, is_well) = read(Format::Json, pieces, MAX_UNCOVERED as u64);
            let (expected, expected_well) = expected(printed);
            assert_eq!(is_well, expected_well);
            assert_eq!(made.texts, expected.texts);
            // Of the cursors of one batch Redis gets the last.
            let is_one = |cursor| expected.cursors.contains(cursor);
            assert!(made.cursors.iter().all(is_one));
            assert_eq!(made.cursors.last(), expected.cursors.last());
        }
    }
}

/// Reads a source as its node does. Whether it did so to the end.
fn read<'a>(
    format: Format,
    mut pieces: impl Iterator<Item = &'a [u8]>,
    limit: u64,
) -> (Made, bool) {
    let (mut reader, mut all) = (MessageReader::new(format), Made::default());
    let mut is_over = false;
    loop {
        let (mut next, mut has_given) = (batch(limit), false);
        let taken = loop {
            match reader.take(&mut next, &mut has_given) {
                Ok(Stopped::NeedsMore) => match pieces.next() {
                    Some(piece) => reader.lines.push(piece),
                    None => break Ok(true),
                },
                Ok(Stopped::BatchIsReady) => break Ok(false),
                Err(error) => break Err(error),
            }
        };
        assert!(next.count() <= limit);
        let (texts, cursor) = made(next);
        all.texts.extend(texts);
        all.cursors
            .extend(cursor.map(|cursor| (all.texts.len(), cursor)));
        let is_all = match taken {
            Ok(is_all) => is_all,
            Err(error) => {
                let words = error.to_string();
                assert!(words.chars().count() <= COMPLAINT_CHARS, "{words}");
                assert!(!words.contains(char::is_control), "{words:?}");
                return (all, false);
            }
        };
        if is_all && is_over {
            // Messages that no cursor covers are missed at the end.
            return (all, reader.end().is_ok());
        }
        if is_all {
            is_over = true;
            if let Err(_uncovered) = reader.end() {
                return (all, false);
            }
        }
    }
}

/// The lines of a text. A rest without a newline is one, too.
fn lines(printed: &[u8]) -> Vec<&[u8]> {
    let ended = printed.strip_suffix(b"\n").unwrap_or(printed);
    match printed.is_empty() {
        true => Vec::new(),
        false => ended.split(|byte| *byte == b'\n').collect(),
    }
}

/// What lines of JSON should make: all that a cursor covers, up to the first wrong line.
fn expected(printed: &[u8]) -> (Made, bool) {
    let (mut made, mut uncovered) = (Made::default(), Vec::new());
    for line in lines(printed) {
        let Ok(JsonLine { text, cursor, .. }) = JsonLine::parse(line) else {
            return (made, false);
        };
        uncovered.extend(text);
        if uncovered.len() > MAX_UNCOVERED {
            return (made, false);
        }
        if let Some(cursor) = cursor {
            made.texts.append(&mut uncovered);
            made.cursors.push((made.texts.len(), cursor.into_bytes()));
        }
    }
    (made, uncovered.is_empty())
}
