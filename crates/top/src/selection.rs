//! The selected row of a list, and the rows that are on the screen.

/// A selection that stays on the same item while rows come, go and move.
#[derive(Debug)]
pub(crate) struct Selection<K> {
    key: Option<K>,
    at: usize,
    top: usize,
}

impl<K> Default for Selection<K> {
    fn default() -> Self {
        Self {
            key: None,
            at: 0,
            top: 0,
        }
    }
}

impl<K: PartialEq> Selection<K> {
    /// The selected item.
    pub(crate) fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// The selected row.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Finds the selected item among new rows. If it is gone, selects the row in its place.
    pub(crate) fn follow(&mut self, rows: usize, key: impl Fn(usize) -> K) {
        let same = |at: &usize| Some(key(*at)) == self.key;
        // Its old row comes first, because two rows may have the same key.
        let found = Some(self.at).filter(|at| *at < rows && same(at));
        let found = found.or_else(|| (0..rows).find(same));
        self.select(found.unwrap_or(self.at), rows, key);
    }

    /// Moves the selection by so many rows, at most to the first or last.
    pub(crate) fn step(&mut self, by: isize, rows: usize, key: impl Fn(usize) -> K) {
        self.select(self.at.saturating_add_signed(by), rows, key);
    }

    fn select(&mut self, at: usize, rows: usize, key: impl Fn(usize) -> K) {
        self.at = at.min(rows.saturating_sub(1));
        self.key = (rows > 0).then(|| key(self.at));
    }

    /// The rows that fit on so many lines, the selected one among them.
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

    fn following(selection: &mut Selection<char>, rows: &str) {
        let rows: Vec<char> = rows.chars().collect();
        selection.follow(rows.len(), |at| rows[at]);
    }

    #[test]
    fn the_selection_stays_on_the_same_item_when_rows_move() {
        let mut selection = Selection::default();
        following(&mut selection, "abc");
        assert_eq!(selection.key(), Some(&'a'));
        selection.step(1, 3, |at| ['a', 'b', 'c'][at]);
        following(&mut selection, "cba");
        assert_eq!((selection.key(), selection.at()), (Some(&'b'), 1));
        following(&mut selection, "xyzb");
        assert_eq!((selection.key(), selection.at()), (Some(&'b'), 3));
        following(&mut selection, "xy");
        assert_eq!((selection.key(), selection.at()), (Some(&'y'), 1));
        following(&mut selection, "");
        assert_eq!((selection.key(), selection.at()), (None, 0));
    }

    #[test]
    fn the_selection_moves_past_equal_rows() {
        let mut selection = Selection::default();
        following(&mut selection, "aaab");
        for at in [1, 2, 3] {
            selection.step(1, 4, |at| ['a', 'a', 'a', 'b'][at]);
            following(&mut selection, "aaab");
            assert_eq!(selection.at(), at);
        }
    }

    #[test]
    fn the_selected_row_is_always_on_the_screen() {
        let mut selection = Selection::default();
        following(&mut selection, "abcdefgh");
        let key = |at: usize| b"abcdefgh"[at] as char;
        assert_eq!(selection.visible(8, 3), 0..3);
        selection.step(4, 8, key);
        assert_eq!(selection.visible(8, 3), 2..5);
        selection.step(-1, 8, key);
        assert_eq!(selection.visible(8, 3), 2..5);
        selection.step(isize::MIN, 8, key);
        assert_eq!(selection.visible(8, 3), 0..3);
        selection.step(isize::MAX, 8, key);
        assert_eq!(selection.visible(8, 3), 5..8);
        assert_eq!(selection.visible(8, 20), 0..8);
        assert_eq!(selection.visible(8, 0), 8..8);
    }
}
