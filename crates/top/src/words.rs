//! Numbers, times and other people's texts, as they are shown. Whatever comes from Redis goes
//! through [`safe`] or [`fit`].

use baton::inspect::{How, Takeover};
use baton_protocol::text::{Escaped, Shortened};
use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::Span;

/// A text from anywhere, such that no terminal obeys it.
pub(crate) fn safe(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}

/// The same in at most so many cells; `…` stands for what does not fit.
pub(crate) fn fit(text: &str, cells: usize) -> String {
    let text = Shortened {
        bytes: text.as_bytes(),
        max_chars: cells,
    }
    .to_string();
    cut(&text, cells)
}

/// A safe text in at most so many cells.
pub(crate) fn cut(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_owned();
    }
    let Some(room) = cells.checked_sub(1) else {
        return String::new();
    };
    let mut used = 0;
    let mut cut = String::new();
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        used += usize::from(grapheme.symbol.cell_width());
        if used > room {
            break;
        }
        cut.push_str(grapheme.symbol);
    }
    cut.push('…');
    cut
}

/// How many cells a safe text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A safe text in lines of at most so many cells, broken between words where that is possible.
/// Nothing of it is left out or moved.
pub(crate) fn wrap(text: &str, cells: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        let wide = usize::from(grapheme.symbol.cell_width());
        // A space at the edge may hang over it: nobody misses it.
        let hangs = grapheme.symbol == " " && used == cells;
        if used + wide > cells && used > 0 && !hangs {
            // A word that is longer than half a line is broken.
            let space = line.rfind(' ').map(|at| at + 1);
            let space = space.filter(|at| width(&line[*at..]) < cells / 2);
            let rest = line.split_off(space.unwrap_or(line.len()));
            lines.push(std::mem::replace(&mut line, rest));
            used = width(&line);
        }
        used += wide;
        line.push_str(grapheme.symbol);
    }
    lines.push(line);
    lines
}

/// A column: its width in cells, and whether its texts end there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) width: usize,
    pub(crate) right: bool,
}

impl Column {
    pub(crate) const fn left(width: usize) -> Self {
        Self {
            width,
            right: false,
        }
    }

    pub(crate) const fn right(width: usize) -> Self {
        Self { width, right: true }
    }
}

/// One row of a table, from texts that are safe; a space between columns.
pub(crate) fn row<'a>(cells: impl IntoIterator<Item = (Column, &'a str)>) -> String {
    let mut row = String::new();
    for (column, text) in cells {
        if !row.is_empty() {
            row.push(' ');
        }
        let text = cut(text, column.width);
        let blank = " ".repeat(column.width.saturating_sub(width(&text)));
        let (first, second) = match column.right {
            true => (&blank, &text),
            false => (&text, &blank),
        };
        row.push_str(first);
        row.push_str(second);
    }
    row
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Messages per second, without the unit.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        ..99.95 => format!("{per_s:.1}"),
        ..999_999.5 => thousands(per_s.round() as u64),
        // No column is wider.
        _ => format!("{:.2}M", per_s / 1e6),
    }
}

/// A time span in the two units that matter.
pub(crate) fn age(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..10 => format!("{}.{} s", s, ms % 1000 / 100),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} m {:02} s", s / 60, s % 60),
        3600..86400 => format!("{} h {:02} m", s / 3600, s / 60 % 60),
        _ => format!("{} d {:02} h", s / 86400, s / 3600 % 24),
    }
}

/// How long a message took.
pub(crate) fn latency(s: Option<f64>) -> String {
    match s {
        None => "–".to_owned(),
        Some(s @ 10.0..) => format!("{s:.0} s"),
        Some(s @ 1.0..) => format!("{s:.1} s"),
        Some(s @ 0.01..) => format!("{:.0} ms", s * 1e3),
        Some(s) => format!("{:.1} ms", s * 1e3),
    }
}

/// Why the lease changed hands, in a word.
pub(crate) fn how(how: How) -> &'static str {
    match how {
        How::First => "first",
        How::Resigned => "resigned",
        How::Gone => "killed",
        How::Expired => "silent",
        How::Raised => "raised",
        _ => "changed",
    }
}

/// How the baton changed hands, in a sentence.
pub(crate) fn sentence(takeover: &Takeover) -> String {
    let node = safe(&takeover.node);
    match takeover.how {
        How::First => format!("{node} was the first to take the baton"),
        How::Raised => format!(
            "{node} went on with the baton under epoch {}",
            takeover.epoch
        ),
        _ => format!(
            "{node} took over from {} after {} ms ({})",
            takeover.from.as_deref().map_or("nobody".to_owned(), safe),
            thousands(takeover.gap_ms),
            how(takeover.how)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_easy_to_read() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(rate(9.94), "9.9");
        assert_eq!(rate(99.96), "100");
        assert_eq!(rate(54_321.5), "54,322");
        assert_eq!(rate(999_999.4), "999,999");
        assert_eq!(rate(1_694_321.0), "1.69M");
        for (ms, shown) in [
            (0, "0.0 s"),
            (9_999, "9.9 s"),
            (59_999, "59 s"),
            (61_000, "1 m 01 s"),
            (3_600_000, "1 h 00 m"),
            (90_000_000, "1 d 01 h"),
        ] {
            assert_eq!(age(ms), shown);
        }
        for (s, shown) in [
            (None, "–"),
            (Some(0.0042), "4.2 ms"),
            (Some(0.25), "250 ms"),
            (Some(2.5), "2.5 s"),
            (Some(60.0), "60 s"),
        ] {
            assert_eq!(latency(s), shown);
        }
    }

    #[test]
    fn a_text_fits_into_its_cells_however_wide_its_characters_are() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(fit("寿司寿司", 5), "寿司…");
        assert_eq!(fit("寿司寿司", 8), "寿司寿司");
        assert_eq!(fit("\x1b[2J", 20), "\\x1b[2J");
        assert_eq!(fit("x", 0), "");
        for cells in 0..12 {
            assert!(width(&fit("a寿\u{202e}司b\n寿", cells)) <= cells);
        }
        let columns = [(Column::right(4), "寿"), (Column::left(4), "abcdef")];
        assert_eq!(row(columns), "  寿 abc…");
    }

    #[test]
    fn wrapping_leaves_nothing_out() {
        let text = "寿司 and e\u{301}clairs ❤\u{fe0f} for everybody";
        for cells in 2..40 {
            let lines = wrap(text, cells);
            assert_eq!(lines.concat(), text);
            assert!(
                lines.iter().all(|line| width(line.trim_end()) <= cells),
                "{lines:?}"
            );
        }
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("one two three", 7), ["one two ", "three"]);
        assert_eq!(wrap("onetwothree", 8), ["onetwoth", "ree"]);
        assert_eq!(wrap("", 8), [""]);
    }
}
