//! What a cell has to reach.

use super::cell::{Cell, Persistence};

/// A goal of a cell, and whether it is met.
#[derive(Debug, PartialEq)]
pub(super) struct Goal {
    pub(super) what: String,
    pub(super) measured: String,
    pub(super) words: String,
    pub(super) met: bool,
}

/// Every goal of a cell.
pub(super) fn of(cell: &Cell) -> Vec<Goal> {
    let ratio = cell.ratio().median;
    let min_ratio = min_ratio(cell);
    let mut goals = vec![Goal {
        what: "ours ÷ unsafe queue".to_owned(),
        measured: format!("{ratio:.2}"),
        words: format!("≥ {min_ratio:.1}"),
        met: ratio >= min_ratio,
    }];
    if let Some(max) = max_redis_us(cell) {
        let [ours, ..] = cell.redis_us();
        goals.push(Goal {
            what: "Redis CPU per message".to_owned(),
            measured: format!("{ours:.2} µs"),
            words: format!("≤ {max:.2} µs"),
            met: ours <= max,
        });
    }
    if let (256, [Some(share), _]) = (cell.text_bytes, cell.aof_share()) {
        goals.push(Goal {
            what: "append-only bytes ÷ text".to_owned(),
            measured: format!("{share:.2}"),
            words: "≤ 1.5".to_owned(),
            met: share <= 1.5,
        });
    }
    goals
}

/// The least ratio of the rates: bytes alone decide beyond 4 KiB, and Valkey is to be faster at the
/// usual size.
pub(super) fn min_ratio(cell: &Cell) -> f64 {
    match cell.text_bytes {
        64 if is_usual(cell) && cell.server.starts_with("Valkey") => 1.5,
        0..=4096 => 1.0,
        _ => 0.9,
    }
}

/// The most processor time of the server per message.
fn max_redis_us(cell: &Cell) -> Option<f64> {
    if cell.text_bytes != 64 || !is_usual(cell) {
        return None;
    }
    match cell.server.as_str() {
        server if server.starts_with("Redis 7.0.") => Some(0.25),
        server if server.starts_with("Valkey") => Some(0.2),
        _ => None,
    }
}

/// The settings of `baton bench` without flags.
fn is_usual(cell: &Cell) -> bool {
    cell.persistence == Persistence::None && cell.workers == 2
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::cell;
    use super::*;

    #[test]
    fn the_goal_depends_on_server_text_and_workers() {
        let least = |server, text, workers| min_ratio(&cell(server, text, workers));
        assert_eq!(least("Valkey 9.1.2", 64, 2), 1.5);
        assert_eq!(least("Valkey 9.1.2", 64, 1), 1.0);
        assert_eq!(least("Redis 7.0.15", 64, 2), 1.0);
        assert_eq!(least("Redis 7.0.15", 4096, 2), 1.0);
        assert_eq!(least("Redis 7.0.15", 16 << 10, 2), 0.9);
    }

    #[test]
    fn a_goal_is_missed_by_a_cell_that_is_too_slow_or_writes_too_much() {
        let verdicts = |cell: &Cell| of(cell).iter().map(|goal| goal.met).collect::<Vec<_>>();
        // The ratio of the sample is 1.25, its Redis CPU 0.3 µs, its file 1.6 × the text.
        assert_eq!(verdicts(&cell("Redis 7.0.15", 64, 2)), [true, false]);
        assert_eq!(verdicts(&cell("Valkey 9.1.2", 64, 2)), [false, false]);
        let mut everysec = cell("Redis 8.2.3", 256, 2);
        everysec.persistence = Persistence::Everysec;
        assert_eq!(verdicts(&everysec), [true, false]);
    }
}
