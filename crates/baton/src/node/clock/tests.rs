use super::*;

/// Redis's clock when the node's own began, on a day of 2023.
const EPOCH: i64 = 1_700_000_000_000;
const DAY: i64 = 24 * 3600 * 1000;

/// A node that beats every 500 ms with a round trip of 2 ms, and a Redis whose clock can be set.
struct Twin {
    readings: Readings,
    own: i64,
    ahead: i64,
}

impl Twin {
    fn new() -> Self {
        let mut twin = Self {
            readings: Readings::default(),
            own: 0,
            ahead: EPOCH,
        };
        assert_eq!(twin.beats(3), [0_i64; 0]);
        twin
    }

    /// Beats so often, and returns the steps that were seen.
    fn beats(&mut self, count: usize) -> Vec<i64> {
        let beat = |_| {
            self.own += 500;
            let now = (self.own + self.ahead) as u64;
            self.readings.read(now, self.own - 1, self.own + 1)
        };
        (0..count).filter_map(beat).collect()
    }

    fn steady(&self) -> i64 {
        self.readings.steady_ms(self.own)
    }

    fn redis(&self) -> i64 {
        self.own + self.ahead
    }
}

#[test]
fn a_step_moves_redis_s_time_and_leaves_steady_time_alone() {
    for jump in [DAY, -DAY, 60_000, -60_000, 400, -400] {
        let mut twin = Twin::new();
        twin.ahead += jump;
        let seen = twin.beats(3);
        assert_eq!(seen.len(), 1, "{jump}: {seen:?}");
        assert!(seen[0].abs_diff(jump) <= 2, "{jump}: {seen:?}");
        let now = twin.readings.now_ms(twin.own);
        assert!(now.abs_diff(twin.redis()) <= 2, "{jump}");
        let undisturbed = twin.own + EPOCH;
        assert!(twin.steady().abs_diff(undisturbed) <= 4, "{jump}");
        // And back again, as a fault that is lifted.
        twin.ahead -= jump;
        assert_eq!(twin.beats(3).len(), 1, "{jump}");
        assert!(twin.steady().abs_diff(twin.own + EPOCH) <= 6, "{jump}");
    }
}

#[test]
fn a_long_round_trip_is_no_step_wherever_in_it_redis_looked_at_its_clock() {
    for at in [0, 1_000, 59_999] {
        let mut twin = Twin::new();
        let sent = twin.own;
        twin.own += 60_000;
        let now = (sent + at + twin.ahead) as u64;
        assert_eq!(twin.readings.read(now, sent, twin.own), None, "{at}");
        let estimate = twin.readings.now_ms(twin.own);
        assert!(estimate.abs_diff(twin.redis()) <= 2, "{at}");
        assert_eq!(twin.beats(3), [0_i64; 0], "{at}");
    }
}

#[test]
fn a_first_reading_after_a_long_round_trip_becomes_exact_and_is_no_step() {
    let mut readings = Readings::default();
    // Redis looked at its clock at the very end of three seconds.
    assert_eq!(readings.read((EPOCH + 3_000) as u64, 0, 3_000), None);
    let next = readings.read((EPOCH + 3_500) as u64, 3_499, 3_501);
    assert_eq!(next, None);
    assert!(readings.now_ms(4_000).abs_diff(EPOCH + 4_000) <= 2);
}

#[test]
fn a_step_within_a_long_round_trip_that_cannot_be_told_from_it_moves_little() {
    let mut twin = Twin::new();
    let sent = twin.own;
    twin.own += 2_000;
    twin.ahead += DAY;
    let now = (sent + 1_000 + twin.ahead) as u64;
    let jump = twin.readings.read(now, sent, twin.own).unwrap();
    assert!(jump.abs_diff(DAY) <= 1_001, "{jump}");
}

#[test]
fn drift_is_followed_and_is_no_step() {
    let mut twin = Twin::new();
    for _ in 0..1_000 {
        // A fifth of a percent fast: four times what NTP allows itself.
        twin.ahead += 1;
        assert_eq!(twin.beats(1), [0_i64; 0]);
    }
    assert!(twin.readings.now_ms(twin.own).abs_diff(twin.redis()) <= 3);
}

#[test]
fn a_cursor_survives_its_way_through_redis() {
    let twin = Twin::new();
    let due = twin.steady() + 123;
    let cursor = twin.readings.cursor(Some(due), twin.own);
    assert_eq!(TickCursor::parse(&cursor.to_string()), Some(cursor));
    assert_eq!(twin.readings.steady(cursor, twin.own), Some(due));
    let anew = twin.readings.cursor(None, twin.own);
    assert_eq!(anew.to_string(), "0");
    assert_eq!(twin.readings.steady(anew, twin.own), None);
}

#[test]
fn a_cursor_from_either_side_of_a_step_means_the_same_tick() {
    for (jump, interval) in [
        (DAY, 500),
        (-DAY, 500),
        (60_000, 3_600_000),
        (-60_000, 3_600_000),
        (-60_000, 20),
    ] {
        let mut twin = Twin::new();
        let due = twin.steady() + interval;
        // One generator has not noticed the step when it writes its cursor, another has.
        let before = twin.readings.cursor(Some(due), twin.own);
        twin.ahead += jump;
        assert_eq!(twin.beats(1).len(), 1);
        let after = twin.readings.cursor(Some(due), twin.own);
        twin.beats(4);
        for cursor in [before, after] {
            let read = twin.readings.steady(cursor, twin.own).unwrap();
            assert!(read.abs_diff(due) <= 4, "{jump}, {interval}: {cursor}");
        }
    }
}

#[test]
fn a_cursor_from_before_several_steps_is_found_again() {
    let mut twin = Twin::new();
    let due = twin.steady() + 500;
    let cursor = twin.readings.cursor(Some(due), twin.own);
    for jump in [DAY, -DAY / 2, DAY / 4] {
        twin.ahead += jump;
        assert_eq!(twin.beats(2).len(), 1);
    }
    let read = twin.readings.steady(cursor, twin.own).unwrap();
    assert!(read.abs_diff(due) <= 8, "{}", read - due);
}

#[test]
fn garbage_is_no_cursor() {
    for text in [
        "",
        " ",
        "-1",
        "1.5",
        "1 ",
        "1 2 3",
        "a",
        "1e9",
        "99999999999999999999",
        "0x1",
    ] {
        assert_eq!(TickCursor::parse(text), None, "{text:?}");
    }
    let plain = TickCursor {
        due_ms: 10,
        known_ms: 0,
    };
    assert_eq!(TickCursor::parse("10"), Some(plain));
}
