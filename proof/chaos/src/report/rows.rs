//! Which row of the picture each process gets.

use crate::record::{Lane, Role};

/// The rows of a run.
pub(super) struct Rows {
    /// The row of each lane, in the lanes' order.
    pub(super) of: Vec<usize>,
    /// How many there are.
    pub(super) count: usize,
}

/// Packs lives into rows, so that sixty processes, five at a time, fill about five. Drains come
/// below all nodes. A node's life begins at least `gap` seconds after the one before it in its
/// row, as far as one more row than needed allows.
pub(super) fn pack(lanes: &[Lane], gap: f64) -> Rows {
    let mut rows = Rows {
        of: vec![0; lanes.len()],
        count: 0,
    };
    for (drains, spare) in [(false, 1), (true, 0)] {
        let chosen = (0..lanes.len()).filter(|index| is_drain(&lanes[*index]) == drains);
        let mut chosen: Vec<usize> = chosen.collect();
        chosen.sort_by(|a, b| lanes[*a].from_s.total_cmp(&lanes[*b].from_s));
        rows.add(lanes, &chosen, gap, spare);
    }
    rows
}

impl Rows {
    /// Below the rows so far, those of lanes in the order of their births.
    fn add(&mut self, lanes: &[Lane], chosen: &[usize], gap: f64, spare: usize) {
        let most = crowd(lanes, chosen) + spare;
        let mut ends: Vec<f64> = Vec::new();
        for index in chosen {
            let life = &lanes[*index];
            let roomy = ends.iter().position(|end| *end + gap <= life.from_s);
            let longest = ends.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let row = match (roomy, longest) {
                (Some(row), _) => row,
                (None, Some((row, end))) if ends.len() >= most && *end <= life.from_s => row,
                _ => ends.len(),
            };
            if row == ends.len() {
                ends.push(life.to_s);
            }
            ends[row] = life.to_s;
            self.of[*index] = self.count + row;
        }
        self.count += ends.len();
    }
}

fn is_drain(lane: &Lane) -> bool {
    lane.spans.iter().any(|span| span.role == Role::Drain)
}

/// How many of the lanes lived at the same time.
fn crowd(lanes: &[Lane], chosen: &[usize]) -> usize {
    let alive_at = |at: f64| {
        let lives = chosen.iter().map(|index| &lanes[*index]);
        lives
            .filter(|lane| lane.from_s <= at && at < lane.to_s)
            .count()
    };
    let most = chosen.iter().map(|index| alive_at(lanes[*index].from_s));
    most.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{End, Span};

    fn lane(from_s: f64, to_s: f64, role: Role) -> Lane {
        Lane {
            label: String::new(),
            node: String::new(),
            from_s,
            to_s,
            end: End::Killed,
            spans: vec![Span { from_s, to_s, role }],
            ticks: Vec::new(),
        }
    }

    #[test]
    fn lives_that_follow_each_other_share_a_row_and_leave_a_gap() {
        let lives = (0..20).map(|index| f64::from(index) * 2.0);
        let mut lanes: Vec<Lane> = lives.map(|at| lane(at, at + 2.0, Role::Worker)).collect();
        lanes.push(lane(0.0, 40.0, Role::Worker));
        let rows = pack(&lanes, 0.5);
        assert_eq!(rows.count, 3);
        assert!(rows.of[..20].windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn no_two_lives_of_a_row_overlap_even_if_all_are_replaced_at_once() {
        let lanes: Vec<Lane> = (0..30)
            .map(|index| f64::from(index / 5) * 3.0)
            .map(|at| lane(at, at + 3.0, Role::Worker))
            .collect();
        let rows = pack(&lanes, 0.5);
        assert_eq!(rows.count, 6);
        for (a, one) in lanes.iter().enumerate() {
            for (b, other) in lanes.iter().enumerate().skip(a + 1) {
                let apart = one.to_s <= other.from_s || other.to_s <= one.from_s;
                assert!(rows.of[a] != rows.of[b] || apart, "{a} and {b}");
            }
        }
    }

    #[test]
    fn drains_have_rows_of_their_own_below_the_nodes() {
        let lanes = [
            lane(0.0, 1.0, Role::Drain),
            lane(2.0, 9.0, Role::Worker),
            lane(3.0, 9.0, Role::Worker),
        ];
        let rows = pack(&lanes, 0.1);
        assert_eq!((rows.of, rows.count), (vec![2, 0, 1], 3));
    }
}
