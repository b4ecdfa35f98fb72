//! When messages are due.
//!
//! A schedule has a tick every interval. It counts in steady time (see
//! [`crate::node::clock`]), which does not jump when Redis's clock is set: the time between a tick
//! and now has really passed.

use std::time::Duration;

use super::batch::LeftOut;
use super::missed::{Missed, ON_TIME};

/// How many messages are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Due {
    /// To be made now.
    pub(crate) count: u64,
    /// Left out, because the generator makes up for a limited time only.
    pub(crate) left_out: u64,
}

/// The ticks of one generator. All times are steady ones in ms.
#[derive(Debug)]
pub(crate) struct Schedule {
    /// 0 is full speed: there are no ticks.
    interval: i64,
    missed: Missed,
    /// The next tick; none before the first.
    next: Option<i64>,
}

impl Schedule {
    /// A schedule whose first tick is the first call of [`Schedule::due`].
    pub(crate) fn new(interval: Duration, missed: Missed) -> Self {
        Self {
            interval: i64::try_from(interval.as_millis()).unwrap_or(i64::MAX),
            missed,
            next: None,
        }
    }

    /// Decides what becomes of missed ticks.
    pub(crate) fn set_missed(&mut self, missed: Missed) {
        self.missed = missed;
    }

    /// Goes on where another generator stood; begins anew if that is not known.
    pub(crate) fn resume(&mut self, next: Option<i64>) {
        self.next = next.filter(|_| self.interval > 0);
    }

    /// Begins anew with the next call of [`Schedule::due`]: no tick is missed until then.
    pub(crate) fn begin_anew(&mut self) {
        self.next = None;
    }

    /// The next tick; none at full speed and before the first.
    pub(crate) fn next(&self) -> Option<i64> {
        self.next
    }

    /// What is due now. Skips what is left out. What is due stays due until [`Schedule::advance`].
    pub(crate) fn due(&mut self, now: i64) -> Due {
        if self.interval == 0 {
            return Due {
                count: u64::MAX,
                left_out: 0,
            };
        }
        // A tick further ahead than one interval comes from a schedule with a longer one, or from
        // before the clock was set back, unseen by this node.
        let latest = now.saturating_add(self.interval);
        let next = self.next.unwrap_or(now).min(latest);
        self.next = Some(next);
        let late = now.saturating_sub(next);
        if late < 0 {
            return Due::default();
        }
        let missed = late / self.interval;
        let (made_up, counted) = match self.missed {
            Missed::CatchUp { at_most } => {
                let max = i64::try_from(at_most.as_millis()).unwrap_or(i64::MAX);
                (missed.min(max / self.interval), true)
            }
            Missed::Skip => (0, false),
            Missed::Last => {
                let on_time = ON_TIME.as_millis() as i64;
                (missed.min(on_time / self.interval), false)
            }
        };
        let passed_over = missed - made_up;
        self.next = Some(next.saturating_add(passed_over * self.interval));
        Due {
            count: (made_up as u64) + 1,
            left_out: if counted { passed_over as u64 } else { 0 },
        }
    }

    /// What was left out, in words for people.
    pub(crate) fn left_out(&self, due: Due) -> LeftOut {
        let at_most = match self.missed {
            Missed::CatchUp { at_most } => at_most,
            Missed::Skip | Missed::Last => Duration::ZERO,
        };
        let interval = u64::try_from(self.interval).unwrap_or_default();
        LeftOut {
            count: due.left_out,
            of_ms: interval.saturating_mul(due.left_out),
            at_most_ms: u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Passes over the ticks of messages that were made.
    pub(crate) fn advance(&mut self, count: u64) {
        let by = i64::try_from(count).unwrap_or(i64::MAX);
        let by = by.saturating_mul(self.interval);
        self.next = self.next.map(|next| next.saturating_add(by));
    }

    /// How long until the next tick; none at full speed.
    pub(crate) fn wait(&self, now: i64) -> Option<Duration> {
        let next = self.next.filter(|_| self.interval > 0)?;
        let left = next.saturating_sub(now).max(0);
        Some(Duration::from_millis(left as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;
    const SECOND: i64 = 1_000;
    const MINUTE: i64 = 60 * SECOND;
    const DAY: i64 = 24 * 60 * MINUTE;

    fn schedule(interval_ms: u64, missed: Missed) -> Schedule {
        Schedule::new(Duration::from_millis(interval_ms), missed)
    }

    /// A schedule with a tick every second, the next one so long ago.
    fn late(by: i64, missed: Missed) -> Schedule {
        let mut schedule = schedule(1_000, missed);
        schedule.resume(Some(NOW - by));
        schedule
    }

    fn due(count: u64, left_out: u64) -> Due {
        Due { count, left_out }
    }

    #[test]
    fn the_first_message_is_due_at_once_and_the_others_at_their_ticks() {
        let mut schedule = schedule(1_000, Missed::default());
        assert_eq!(schedule.due(NOW), due(1, 0));
        schedule.advance(1);
        assert_eq!(schedule.due(NOW + 999), due(0, 0));
        let left = schedule.wait(NOW + 999);
        assert_eq!(left, Some(Duration::from_millis(1)));
        assert_eq!(schedule.due(NOW + 1_000), due(1, 0));
    }

    #[test]
    fn missed_ticks_are_made_up_for_and_stay_due_until_they_are_made() {
        let mut schedule = late(5 * SECOND, Missed::default());
        assert_eq!(schedule.due(NOW), due(6, 0));
        schedule.advance(4);
        assert_eq!(schedule.due(NOW), due(2, 0));
        schedule.advance(2);
        assert_eq!(schedule.due(NOW), due(0, 0));
        assert_eq!(schedule.next(), Some(NOW + SECOND));
    }

    #[test]
    fn no_more_than_the_bound_is_made_up_for_and_the_rest_is_counted_once() {
        let mut schedule = late(DAY, Missed::default());
        assert_eq!(schedule.due(NOW), due(601, 86_400 - 600));
        assert_eq!(schedule.due(NOW), due(601, 0));
        schedule.advance(601);
        assert_eq!(schedule.due(NOW), due(0, 0));
        assert_eq!(schedule.next(), Some(NOW + SECOND), "the beat is kept");
    }

    #[test]
    fn another_bound_holds_as_stated() {
        for (at_most, made) in [(0, 1), (999, 1), (1_000, 2), (1_800_000, 1_801)] {
            let at_most = Duration::from_millis(at_most);
            let mut schedule = late(DAY, Missed::CatchUp { at_most });
            assert_eq!(schedule.due(NOW), due(made, 86_401 - made), "{at_most:?}");
        }
    }

    #[test]
    fn skipped_ticks_are_left_out_without_a_word() {
        let mut schedule = late(DAY + 300, Missed::Skip);
        assert_eq!(schedule.due(NOW), due(1, 0));
        schedule.advance(1);
        assert_eq!(schedule.next(), Some(NOW + 700), "the beat is kept");
    }

    #[test]
    fn of_missed_ticks_the_last_is_made_and_those_that_are_on_time() {
        let hourly = |late: i64| {
            let mut schedule = schedule(3_600_000, Missed::Last);
            schedule.resume(Some(NOW - late));
            schedule
        };
        for late in [0, SECOND, DAY, 30 * DAY + 40 * MINUTE] {
            assert_eq!(hourly(late).due(NOW), due(1, 0), "{late}");
        }
        // Every second: a takeover of three seconds misses nothing.
        assert_eq!(late(3 * SECOND, Missed::Last).due(NOW), due(4, 0));
        let mut every_second = late(DAY + 300, Missed::Last);
        assert_eq!(every_second.due(NOW), due(6, 0));
        every_second.advance(6);
        assert_eq!(every_second.next(), Some(NOW + 700), "the beat is kept");
    }

    #[test]
    fn a_tick_further_ahead_than_one_interval_is_drawn_near() {
        for ahead in [2 * SECOND, DAY, i64::MAX - NOW] {
            let mut schedule = late(-ahead, Missed::default());
            assert_eq!(schedule.due(NOW), due(0, 0));
            assert_eq!(schedule.next(), Some(NOW + SECOND), "{ahead}");
        }
        let mut near = late(-700, Missed::default());
        assert_eq!(near.due(NOW), due(0, 0));
        assert_eq!(near.next(), Some(NOW + 700));
    }

    #[test]
    fn time_before_a_new_beginning_is_not_missed() {
        let mut schedule = late(0, Missed::default());
        assert_eq!(schedule.due(NOW), due(1, 0));
        schedule.advance(1);
        schedule.begin_anew();
        assert_eq!(schedule.next(), None);
        assert_eq!(schedule.due(NOW + DAY), due(1, 0));
    }

    #[test]
    fn full_speed_has_no_ticks() {
        let mut schedule = schedule(0, Missed::default());
        schedule.resume(Some(NOW));
        assert_eq!(schedule.due(NOW), due(u64::MAX, 0));
        schedule.advance(1_000);
        assert_eq!((schedule.next(), schedule.wait(NOW)), (None, None));
    }

    #[test]
    fn no_number_overflows() {
        for next in [1, i64::MAX] {
            for now in [0, NOW, i64::MAX] {
                for interval in [1, u64::MAX] {
                    let mut schedule = schedule(interval, Missed::default());
                    schedule.resume(Some(next));
                    let count = schedule.due(now).count;
                    schedule.advance(count);
                    schedule.advance(u64::MAX);
                    schedule.due(now);
                }
            }
        }
    }
}
