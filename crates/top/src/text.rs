//! Texts in the cells of a terminal. All that comes from Redis goes through [`escape`] or [`fit`].

use baton_protocol::text::{Escaped, Shortened};
use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::Span;

/// Escapes a hostile text, so that no terminal obeys it.
pub(crate) fn escape(text: &str) -> String {
    Escaped(text.as_bytes()).to_string()
}

/// Escapes a text and cuts it to so many cells; `…` stands for what does not fit.
pub(crate) fn fit(text: &str, cells: usize) -> String {
    let text = Shortened {
        bytes: text.as_bytes(),
        max_chars: cells,
    }
    .to_string();
    cut(&text, cells)
}

/// Cuts an escaped text to so many cells.
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

/// How many cells an escaped text takes.
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// Breaks an escaped text into lines of at most so many cells, between words if possible. The lines
/// together are the whole text.
pub(crate) fn wrap(text: &str, cells: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for grapheme in Span::raw(text).styled_graphemes(Style::new()) {
        let wide = usize::from(grapheme.symbol.cell_width());
        // A space may hang over the edge, where it is not visible.
        let hangs = grapheme.symbol == " " && used == cells;
        if used + wide > cells && used > 0 && !hangs {
            // This breaks a word that is longer than half a line.
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

/// A column: its width in cells, and whether its texts are aligned to the right.
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

/// One row of a table, from escaped texts, with a space between columns.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let text = "寿司 and e\u{301}clairs ❤\u{fe0f} for all";
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
