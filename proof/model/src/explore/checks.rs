//! The properties: what must hold in every state, and which events some step must show.

use std::sync::atomic::{AtomicU64, Ordering};

use stateright::{Model, Property};

use super::actions::Action;
use super::history::Message;
use super::{Events, Reported, Scenario, SourceKind, World, source};
use crate::state::{Body, Pack, Range, Seq};

/// A scenario, ready to be explored.
#[derive(Debug, Default)]
pub struct Explored {
    scenario: Scenario,
    /// The events of all steps so far, also of those that lead to a state which is known already.
    seen: AtomicU64,
}

impl Model for Explored {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.scenario)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.actions(&self.scenario, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.apply(&action);
        self.seen.fetch_or(next.events.bits(), Ordering::Relaxed);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(
                "every message is in exactly one place",
                |_, world: &World| world.one_place(),
            ),
            Property::always("every step and every answer is true", |_, world: &World| {
                world.history.violation.is_none()
            }),
            Property::always(
                "messages are the rows of the source, in order",
                |_, world: &World| world.is_row_by_row(),
            ),
            Property::always(
                "no older generator or opening of its source publishes after a newer one",
                |_, world: &World| world.fence_held(),
            ),
            Property::always(
                "a failed message is in errors, or drained",
                |_, world: &World| world.failed_in_one_place(),
            ),
            Property::always("what is held is held by one drain", |_, world: &World| {
                world.held_by_one()
            }),
            Property::always("the books balance", |_, world: &World| world.is_balanced()),
            Property::always("what a node was told is not lost", |_, world: &World| {
                world.has_confirmed()
            }),
            Property::always("the counters are true", |_, world: &World| world.counted()),
            Property::always(
                "texts and keys live as long as their messages",
                |_, world: &World| world.texts_kept(),
            ),
            Property::always(
                "no pack outlives its messages, and each knows how many are left",
                |_, world: &World| world.packs_counted(),
            ),
            Property::always(
                "attempts are counted, and noted until the message ends",
                |_, world: &World| world.attempts_known(),
            ),
            Property::always("only an operator ends a pause", |_, world: &World| {
                let paused = &world.redis.fence.paused;
                let paused = (paused.generator.is_some(), paused.workers.is_some());
                world.history.paused == paused
            }),
            Property::always(
                "the cursor belongs to the pack that ends with the last number",
                |_, world: &World| {
                    let fence = &world.redis.fence;
                    match world.source {
                        SourceKind::NoCursor => fence.cursor == 0,
                        _ => source::rows_before(fence.cursor) + world.redis.void == fence.last,
                    }
                },
            ),
        ];
        if self.scenario.check_liveness {
            properties.push(Property::always(
                "left alone, everything ends",
                |model: &Self, world: &World| world.everything_ends(&model.scenario),
            ));
        }
        properties
    }
}

impl Explored {
    /// A scenario of which nothing is explored yet.
    pub(super) fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            ..Self::default()
        }
    }
}

impl Reported for Explored {
    fn describe(world: &World, action: &Action) -> String {
        world.describe(action)
    }

    fn violation(world: &World) -> Option<String> {
        let violation = world.history.violation;
        violation.map(|violation| format!("{violation:?}"))
    }

    fn unseen(&self) -> Vec<&'static str> {
        let seen = self.seen.load(Ordering::Relaxed);
        let (scenario, faults) = (&self.scenario, &self.scenario.faults);
        let generates = scenario.generators > 0;
        let works = scenario.workers > 0;
        let loses = faults.failovers > 0;
        let kills = works && faults.crashes > 2 && faults.long_waits > 0;
        let expires = works && (faults.crashes + faults.disconnects + faults.clock_jumps > 0);
        let has_pairs = scenario.rows > 1 && scenario.max_open > 1;
        let splits = works && (has_pairs || scenario.given.iter().any(|size| *size > 1));
        let mut unseen = Vec::new();
        macro_rules! sometimes {
            ($when:expr, $name:literal, $event:ident) => {
                if $when && Events::$event.bits() & seen == 0 {
                    unseen.push($name);
                }
            };
        }
        sometimes!(generates, "sealed", SEALED);
        sometimes!(scenario.generators > 1, "takeover", TAKEOVER);
        sometimes!(scenario.generators > 1, "fenced", FENCED);
        sometimes!(
            faults.lost_replies + faults.duplicates > 0,
            "already",
            ALREADY
        );
        let finds_gap = loses && scenario.rows > 1 || scenario.rows > 2;
        sometimes!(generates && finds_gap, "gap", GAP);
        let forgets = generates && loses && !scenario.confirms;
        sometimes!(forgets && scenario.rows > 1, "opened again", REOPENED);
        sometimes!(forgets, "a node knows what the server forgot", KNOWN);
        sometimes!(
            forgets && scenario.rows > 1,
            "a kept pack is sent again",
            SENT_AGAIN
        );
        sometimes!(
            forgets && scenario.source != SourceKind::Replays,
            "numbers are void",
            VOIDED
        );
        sometimes!(
            scenario.generators > 1 && loses && faults.lease_ends > 0,
            "the holder comes back within the wait",
            HOLDER_BACK
        );
        sometimes!(scenario.confirms, "confirmed", CONFIRMED_BEFORE);
        sometimes!(
            scenario.confirms,
            "confirmed after a failover",
            CONFIRMED_AFTER
        );
        sometimes!(
            scenario.confirms,
            "a failover prevents a confirmation",
            UNCONFIRMED
        );
        sometimes!(
            faults.empty_batches > 0,
            "a cursor is stored alone",
            CURSOR_ALONE
        );
        sometimes!(faults.declines > 0, "the lease is given up", GIVEN_UP);
        let pauses = faults.pauses > 0;
        sometimes!(
            pauses && generates,
            "a paused generator is refused",
            PAUSED_PUBLISH
        );
        sometimes!(
            pauses && scenario.generators > 1,
            "a successor is paused, too",
            PAUSED_TAKEOVER
        );
        sometimes!(
            pauses && works,
            "a paused worker gets nothing",
            PAUSED_CLAIM
        );
        sometimes!(
            pauses && works,
            "a message ends while the workers are paused",
            PAUSED_END
        );
        sometimes!(expires, "lost", LOST);
        sometimes!(generates && scenario.max_open < scenario.rows, "full", FULL);
        sometimes!(
            faults.splits + faults.expiries > 0,
            "a staged pack is missing",
            UNSTAGED
        );
        sometimes!(splits, "split", SPLIT);
        sometimes!(splits && scenario.want > 1, "partial", PARTIAL);
        sometimes!(kills, "poison", POISON);
        sometimes!(kills, "a range is postponed", POSTPONED);
        sometimes!(
            kills && faults.disconnects > 0,
            "a suspect comes back and is cleared",
            CLEARED
        );
        sometimes!(scenario.drains > 0, "drained", DRAINED);
        let settles = faults.settles > 0;
        sometimes!(settles, "dropped", DROPPED);
        sometimes!(settles, "retried", RETRIED);
        sometimes!(settles, "retried in its pack", RETRIED_IN_PACK);
        sometimes!(settles, "missing", MISSING);
        let tries_again = scenario.attempts > 1;
        let has_packs = tries_again && scenario.given.iter().any(|size| *size > 1);
        let attempts = scenario.attempts;
        sometimes!(has_packs, "delayed in its pack", DELAYED_IN_PACK);
        sometimes!(tries_again, "delayed in a pack of its own", DELAYED_ALONE);
        sometimes!(attempts > 2, "delayed again", DELAYED_AGAIN);
        sometimes!(tries_again, "done after a delay", DONE_LATER);
        sometimes!(tries_again, "failed after its last attempt", FAILED_LAST);
        sometimes!(tries_again && kills, "poison after a delay", POISON_LATER);
        sometimes!(scenario.shrinking, "a claim was shrunk", SHRUNK);
        let hands_over = scenario.hands_over;
        sometimes!(hands_over, "a pack was handed over", HANDED);
        sometimes!(
            hands_over && scenario.rows > scenario.want,
            "a part of a pack was handed over",
            HANDED_PART
        );
        sometimes!(
            hands_over && faults.disconnects > 0,
            "a node gives back what it was never told of",
            HANDED_UNHEARD
        );
        unseen
    }
}

impl World {
    /// Each number up to the last is in exactly one of: queue, claims, delayed, ended, void.
    fn one_place(&self) -> bool {
        let last = self.redis.fence.last;
        let mut places = vec![0u8; last as usize];
        for range in self.redis.open() {
            for seq in range.first..=range.last {
                match places.get_mut(seq as usize - 1) {
                    Some(count) => *count += 1,
                    None => return false,
                }
            }
        }
        let messages = &self.history.messages;
        messages.len() as Seq == last
            && places.iter().zip(messages).all(|(count, message)| {
                let ended = message.end.is_some() || message.is_void;
                *count + u8::from(ended) == 1
            })
    }

    /// The sum that every reader of a fleet can check.
    fn is_balanced(&self) -> bool {
        let redis = &self.redis;
        let open: u64 = redis.open().map(|range| range.size()).sum();
        redis.fence.last + redis.retried == redis.done + redis.failed + open + redis.void
    }

    /// No row is lost, and none has two numbers, also after a failover that forgets.
    fn is_row_by_row(&self) -> bool {
        let messages = (1..).zip(&self.history.messages);
        let messages = messages.filter(|(_, message)| !message.is_void);
        let mut rows = messages.enumerate().map(|(at, (seq, message))| {
            let row = match self.source {
                SourceKind::NoCursor => seq,
                _ => at as Seq + 1,
            };
            (row, source::row_of(message.text))
        });
        rows.all(|(row, is)| row == is)
    }

    fn fence_held(&self) -> bool {
        let messages = self.history.messages.iter().filter(|m| !m.is_void);
        let messages: Vec<&Message> = messages.collect();
        messages.windows(2).all(|pair| {
            let is_same = (pair[0].epoch, pair[0].node) == (pair[1].epoch, pair[1].node);
            pair[0].epoch < pair[1].epoch || is_same && pair[0].origin <= pair[1].origin
        })
    }

    fn failed_in_one_place(&self) -> bool {
        let kept: Vec<Seq> = self
            .redis
            .errors
            .values()
            .map(|record| record.seq)
            .collect();
        (1..).zip(&self.history.messages).all(|(seq, message)| {
            let copies = kept.iter().filter(|kept| **kept == seq).count();
            match &message.end {
                Some(end) if end.failed => copies + usize::from(end.drained) == 1,
                _ => copies == 0,
            }
        })
    }

    /// Each held record is in the store and in the claim of one drain, and vice versa.
    fn held_by_one(&self) -> bool {
        let redis = &self.redis;
        let claims = redis.claims.iter();
        let claimed = claims.filter_map(|(slot, claim)| match &claim.body {
            Body::Records(ids) => Some((slot, ids)),
            Body::Messages(_) => None,
        });
        let mut claimed: Vec<_> = claimed
            .flat_map(|(slot, ids)| ids.iter().map(|id| (*id, *slot)))
            .collect();
        claimed.sort_unstable();
        claimed
            .iter()
            .copied()
            .eq(redis.held.iter().map(|(id, slot)| (*id, *slot)))
            && redis.held.keys().all(|id| redis.errors.contains_key(id))
    }

    fn counted(&self) -> bool {
        let ends = || self.history.messages.iter().filter_map(|m| m.end.as_ref());
        let failed = ends().filter(|end| end.failed).count() as u64;
        let done = ends().count() as u64 - failed;
        let messages = self.history.messages.iter();
        let retried: u64 = messages.map(|m| m.past.len() as u64).sum();
        let void = self.history.messages.iter().filter(|m| m.is_void).count() as u64;
        let counters = (self.redis.done, self.redis.failed, self.redis.retried);
        // Each retry followed a failure of its own.
        counters == (done, failed + retried, retried)
            && self.redis.void == void
            && self.redis.effects == done
    }

    /// The pack of every message that has not ended is there, and has its text.
    fn texts_kept(&self) -> bool {
        let seqs = |range: Range| (range.first..=range.last).map(move |seq| (range.pack, seq));
        self.redis.open().flat_map(seqs).all(|(first, seq)| {
            let pack = self.redis.packs.get(&first);
            let message = self.history.messages.get(seq as usize - 1);
            pack.zip(message).is_some_and(|(pack, message)| {
                let text = pack.texts.get((seq - first) as usize);
                text == Some(&message.text) && pack.origin == message.origin
            })
        })
    }

    fn packs_counted(&self) -> bool {
        let redis = &self.redis;
        let open = |first: Seq| -> u64 {
            let ranges = redis.open().filter(|range| range.pack == first);
            ranges.map(|range| range.size()).sum()
        };
        let is_right = |(first, pack): (&Seq, &Pack)| {
            let left = redis.left.get(first).copied();
            let left = left.unwrap_or(pack.texts.len() as u64);
            left > 0 && left == open(*first)
        };
        redis.packs.iter().all(is_right)
            && redis
                .left
                .keys()
                .all(|first| redis.packs.contains_key(first))
    }

    fn attempts_known(&self) -> bool {
        let messages = &self.history.messages;
        let is_counted = |range: Range| {
            let first = range.first as usize - 1;
            let mut of_range = messages.iter().skip(first).take(range.size() as usize);
            of_range.all(|message| message.returns == range.returns)
        };
        let tried = (1..).zip(messages);
        let tried = tried.filter_map(|(seq, message)| Some((seq, message.note?)));
        let notes = self.redis.notes.iter().map(|(seq, note)| (*seq, *note));
        self.redis.open().all(is_counted) && notes.eq(tried)
    }
}
