//! Which row of a list is selected, and which rows are on the screen.

/// A selection that stays on the same thing while rows come, go and move.
#[derive(Debug)]
pub(crate) struct Cursor<K> {
    key: Option<K>,
    at: usize,
    top: usize,
}

impl<K> Default for Cursor<K> {
    fn default() -> Self {
        Self {
            key: None,
            at: 0,
            top: 0,
        }
    }
}

impl<K: PartialEq> Cursor<K> {
    /// What is selected.
    pub(crate) fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// The row that is selected.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The rows are new: finds the selected one again. If it is gone, its place is selected.
    pub(crate) fn follow(&mut self, rows: usize, key: impl Fn(usize) -> K) {
        let same = |at: &usize| Some(key(*at)) == self.key;
        // Where it was comes first: two rows may have the same key.
        let found = Some(self.at).filter(|at| *at < rows && same(at));
        let found = found.or_else(|| (0..rows).find(same));
        self.select(found.unwrap_or(self.at), rows, key);
    }

    /// Selects the row that is so many rows away, or the first or last.
    pub(crate) fn step(&mut self, by: isize, rows: usize, key: impl Fn(usize) -> K) {
        self.select(self.at.saturating_add_signed(by), rows, key);
    }

    fn select(&mut self, at: usize, rows: usize, key: impl Fn(usize) -> K) {
        self.at = at.min(rows.saturating_sub(1));
        self.key = (rows > 0).then(|| key(self.at));
    }

    /// The rows to show on so many lines, the selected one among them.
    pub(crate) fn visible(&mut self, rows: usize, lines: usize) -> std::ops::Range<usize> {
        let lowest = (self.at + 1).saturating_sub(lines);
        self.top = self.top.clamp(lowest, self.at.max(lowest));
        self.top = self.top.min(rows.saturating_sub(lines));
        self.top..rows.min(self.top + lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(cursor: &mut Cursor<char>, rows: &str) {
        let rows: Vec<char> = rows.chars().collect();
        cursor.follow(rows.len(), |at| rows[at]);
    }

    #[test]
    fn the_selection_stays_on_the_same_thing_when_rows_move() {
        let mut cursor = Cursor::default();
        following(&mut cursor, "abc");
        assert_eq!(cursor.key(), Some(&'a'));
        cursor.step(1, 3, |at| ['a', 'b', 'c'][at]);
        following(&mut cursor, "cba");
        assert_eq!((cursor.key(), cursor.at()), (Some(&'b'), 1));
        following(&mut cursor, "xyzb");
        assert_eq!((cursor.key(), cursor.at()), (Some(&'b'), 3));
        following(&mut cursor, "xy");
        assert_eq!((cursor.key(), cursor.at()), (Some(&'y'), 1));
        following(&mut cursor, "");
        assert_eq!((cursor.key(), cursor.at()), (None, 0));
    }

    #[test]
    fn the_selection_moves_past_rows_that_are_the_same() {
        let mut cursor = Cursor::default();
        following(&mut cursor, "aaab");
        for at in [1, 2, 3] {
            cursor.step(1, 4, |at| ['a', 'a', 'a', 'b'][at]);
            following(&mut cursor, "aaab");
            assert_eq!(cursor.at(), at);
        }
    }

    #[test]
    fn the_selected_row_is_always_on_the_screen() {
        let mut cursor = Cursor::default();
        following(&mut cursor, "abcdefgh");
        let key = |at: usize| b"abcdefgh"[at] as char;
        assert_eq!(cursor.visible(8, 3), 0..3);
        cursor.step(4, 8, key);
        assert_eq!(cursor.visible(8, 3), 2..5);
        cursor.step(-1, 8, key);
        assert_eq!(cursor.visible(8, 3), 2..5);
        cursor.step(isize::MIN, 8, key);
        assert_eq!(cursor.visible(8, 3), 0..3);
        cursor.step(isize::MAX, 8, key);
        assert_eq!(cursor.visible(8, 3), 5..8);
        assert_eq!(cursor.visible(8, 20), 0..8);
        assert_eq!(cursor.visible(8, 0), 8..8);
    }
}
