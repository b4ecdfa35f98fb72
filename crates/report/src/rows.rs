//! Bars in rows: stretches of time that follow each other share a row.

/// Packs stretches, each from a moment to another, into rows. Returns the row of each stretch, and
/// how many rows there are.
///
/// Stretches in one row never overlap. They keep `gap` apart as far as the rows allow: as many as
/// there are stretches at a time, and `spare` ones.
pub fn pack(stretches: &[(f64, f64)], gap: f64, spare: usize) -> (Vec<usize>, usize) {
    let at_once = |at: f64| {
        let meets = |(from, to): &&(f64, f64)| *from <= at && at < *to;
        stretches.iter().filter(meets).count()
    };
    let crowd = stretches.iter().map(|(from, _)| at_once(*from)).max();
    let enough = crowd.unwrap_or(0) + spare;
    let mut order: Vec<usize> = (0..stretches.len()).collect();
    order.sort_by(|a, b| stretches[*a].0.total_cmp(&stretches[*b].0));
    let mut row_of = vec![0; stretches.len()];
    let mut ends: Vec<f64> = Vec::new();
    for index in order {
        let (from, to) = stretches[index];
        let roomy = ends.iter().position(|end| *end + gap <= from);
        let first_free = ends.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let row = match (roomy, first_free) {
            (Some(row), _) => row,
            (None, Some((row, end))) if ends.len() >= enough && *end <= from => row,
            _ => ends.len(),
        };
        ends.resize(ends.len().max(row + 1), to);
        ends[row] = to;
        row_of[index] = row;
    }
    (row_of, ends.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_follow_each_other_share_a_row_and_leave_a_gap() {
        let starts = (0..20).map(|index| f64::from(index) * 2.0);
        let mut stretches: Vec<(f64, f64)> = starts.map(|at| (at, at + 2.0)).collect();
        stretches.push((0.0, 40.0));
        let (row_of, rows) = pack(&stretches, 0.5, 1);
        assert_eq!(rows, 3);
        assert!(row_of[..20].windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn no_two_stretches_of_a_row_overlap_even_if_all_are_replaced_at_once() {
        let starts = (0..30).map(|index| f64::from(index / 5) * 3.0);
        let stretches: Vec<(f64, f64)> = starts.map(|at| (at, at + 3.0)).collect();
        let (row_of, rows) = pack(&stretches, 0.5, 1);
        assert_eq!(rows, 6);
        for (a, one) in stretches.iter().enumerate() {
            for (b, other) in stretches.iter().enumerate().skip(a + 1) {
                let apart = one.1 <= other.0 || other.1 <= one.0;
                assert!(row_of[a] != row_of[b] || apart, "{a} and {b}");
            }
        }
    }
}
