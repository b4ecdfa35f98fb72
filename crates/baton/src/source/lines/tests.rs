//! Cursors and fingerprints.

#![allow(clippy::unwrap_used)]

use super::line_cursor::{Fingerprint, LineCursor, PRINT_BYTES};
use crate::source::SourceError;

#[test]
fn a_cursor_is_read_as_it_was_written_and_anything_else_is_refused() {
    let cursor = LineCursor {
        offset: 1042,
        lines: 17,
        digest: u64::MAX - 1,
    };
    assert_eq!(LineCursor::parse(cursor.to_string().as_bytes()), Ok(cursor));
    for wrong in ["", "1", "1 2", "1 2 g", "-1 2 3", "1 2 3 4", "1  3"] {
        let error = LineCursor::parse(wrong.as_bytes()).unwrap_err();
        assert!(matches!(error, SourceError::Fatal(_)), "{wrong}: {error}");
    }
}

#[test]
fn a_fingerprint_is_that_of_the_bytes_however_they_came() {
    let text: Vec<u8> = (0..3 * PRINT_BYTES).map(|n| (n % 251) as u8).collect();
    for end in [1, 100, PRINT_BYTES, PRINT_BYTES + 1, text.len()] {
        let part = end.min(PRINT_BYTES);
        let whole = Fingerprint::new(
            end as u64,
            text[..part].to_vec(),
            text[end - part..end].to_vec(),
        );
        for piece in [1, 7, PRINT_BYTES, PRINT_BYTES + 1, text.len()] {
            let mut print = Fingerprint::default();
            for bytes in text[..end].chunks(piece) {
                print.add(bytes);
            }
            assert_eq!(print, whole, "{end} {piece}");
            assert_eq!(print.digest(), whole.digest());
        }
    }
}

#[test]
fn another_first_or_last_byte_is_another_digest() {
    let digest = |first: &[u8], last: &[u8]| {
        let mut print = Fingerprint::default();
        for bytes in [first, &[b'x'; 2 * PRINT_BYTES], last] {
            print.add(bytes);
        }
        print.digest()
    };
    assert_eq!(digest(b"a", b"b"), digest(b"a", b"b"));
    assert_ne!(digest(b"a", b"b"), digest(b"c", b"b"));
    assert_ne!(digest(b"a", b"b"), digest(b"a", b"c"));
}
