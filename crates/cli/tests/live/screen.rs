//! What a terminal would show: just enough of one for what the view writes.

use std::iter::Peekable;
use std::str::Chars;

/// The characters on the screen.
pub(crate) struct Screen {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// Bytes of an escape sequence or a character that has not come to its end.
    rest: Vec<u8>,
}

impl Screen {
    pub(crate) fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows: vec![vec![' '; columns]; rows],
            row: 0,
            column: 0,
            rest: Vec::new(),
        }
    }

    /// The rows, one per line.
    pub(crate) fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>());
        rows.collect::<Vec<_>>().join("\n")
    }

    /// Takes the next bytes that the program wrote.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.rest);
        let whole = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap(),
        };
        let mut taken = 0;
        let mut chars = whole.chars().peekable();
        while chars.peek().is_some() && self.next(&mut chars).is_some() {
            let left: usize = chars.clone().map(char::len_utf8).sum();
            taken = whole.len() - left;
        }
        self.rest = bytes[taken..].to_vec();
    }

    /// Takes one character or one escape sequence; none if there is more to come.
    fn next(&mut self, chars: &mut Peekable<Chars<'_>>) -> Option<()> {
        match chars.next()? {
            '\x1b' => {
                // Only sequences of this form come with more than one character.
                if chars.next()? == '[' {
                    let mut numbers = String::new();
                    let verb = loop {
                        match chars.next()? {
                            c @ '\x40'..='\x7e' => break c,
                            c => numbers.push(c),
                        }
                    };
                    self.obey(verb, &numbers);
                }
            }
            '\r' => self.column = 0,
            '\n' => self.row = (self.row + 1).min(self.rows.len() - 1),
            c => {
                if let Some(cell) = self.rows[self.row].get_mut(self.column) {
                    *cell = c;
                }
                self.column += 1;
            }
        }
        Some(())
    }

    fn obey(&mut self, verb: char, numbers: &str) {
        let mut numbers = numbers.split(';').map(|n| n.parse().unwrap_or(1));
        match verb {
            'H' => {
                let row: usize = numbers.next().unwrap_or(1);
                self.row = (row - 1).min(self.rows.len() - 1);
                self.column = numbers.next().unwrap_or(1) - 1;
            }
            'J' => self.rows.iter_mut().for_each(|row| row.fill(' ')),
            // Colours and modes do not change what can be read.
            _ => {}
        }
    }
}

#[test]
fn a_screen_shows_what_was_written_where_also_in_pieces() {
    let mut screen = Screen::new(2, 8);
    for piece in [
        "gone\x1b[2J\x1b[2;3Hgr",
        "\x1b[1",
        "mün\x1b[1;1H",
        "a\x1b[0mb",
    ] {
        screen.take(piece.as_bytes());
    }
    assert_eq!(screen.text(), "ab      \n  grün  ");
    screen.take(&"é".as_bytes()[..1]);
    screen.take(&"é".as_bytes()[1..]);
    assert_eq!(screen.text(), "abé     \n  grün  ");
}
