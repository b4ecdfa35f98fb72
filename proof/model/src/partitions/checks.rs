//! The properties: what must hold in every state, and which events some step must show.

use std::sync::atomic::{AtomicU32, Ordering};

use stateright::{Model, Property};

use super::actions::Action;
use super::history::Violation;
use super::{Events, Fleet, Partition, Scenario, property};
use crate::explore::{Reported, source};
use crate::state::Seq;

/// Higher epochs are not explored: only a flaw could lead there.
const MAX_EPOCH: u64 = 9;

/// A scenario, ready to be explored.
#[derive(Debug, Default)]
pub struct Explored {
    scenario: Scenario,
    /// The events of all steps so far, also of those that lead to a state which is known already.
    seen: AtomicU32,
}

impl Model for Explored {
    type State = Fleet;
    type Action = Action;

    fn init_states(&self) -> Vec<Fleet> {
        vec![Fleet::new(&self.scenario)]
    }

    fn actions(&self, fleet: &Fleet, actions: &mut Vec<Action>) {
        fleet.actions(&self.scenario, actions);
    }

    fn next_state(&self, fleet: &Fleet, action: Action) -> Option<Fleet> {
        let mut next = fleet.clone();
        next.apply(&action);
        self.seen.fetch_or(next.events.bits(), Ordering::Relaxed);
        (next != *fleet).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(property::ONE_GENERATOR, |_, fleet: &Fleet| {
                fleet.never(Violation::OlderPublished)
            }),
            Property::always(property::ONE_PUBLISHER, |_, fleet: &Fleet| {
                fleet.never(Violation::TwoPublishers)
            }),
            Property::always(property::GAPLESS, |_, fleet: &Fleet| {
                fleet.partitions.iter().all(Partition::is_gapless)
            }),
            Property::always(property::NO_ROW_TWICE, |_, fleet: &Fleet| {
                let rows = fleet.rows();
                rows.windows(2).all(|pair| pair[0] != pair[1])
            }),
            Property::always(property::NO_ROW_MISSING, |_, fleet: &Fleet| {
                let rows = fleet.rows();
                let before = [0].iter().chain(&rows);
                before.zip(&rows).all(|(before, row)| *row <= before + 1)
            }),
            Property::always(property::NEWEST_POSITION, |_, fleet: &Fleet| {
                fleet.never(Violation::OpenedElsewhere)
            }),
            Property::always(property::TRUE_COUNT, |_, fleet: &Fleet| {
                fleet.has_true_count()
            }),
            Property::always(property::TRUE_ANSWERS, |_, fleet: &Fleet| {
                fleet.never(Violation::BelievedUntrue)
            }),
            Property::always(property::CONFIRMED_STAYS, |_, fleet: &Fleet| {
                fleet.rows().len() as u64 >= fleet.history.acknowledged
            }),
            Property::always(property::ONE_ROW_PER_NUMBER, |_, fleet: &Fleet| {
                fleet.never(Violation::NumberGivenAgain)
            }),
            Property::always(property::OWN_NUMBERS, |_, fleet: &Fleet| {
                fleet.never(Violation::WrongNumber)
            }),
        ];
        if self.scenario.check_liveness {
            properties.push(Property::always(
                property::LIVENESS,
                |model: &Self, fleet: &Fleet| fleet.everything_is_published(&model.scenario),
            ));
        }
        properties
    }

    fn within_boundary(&self, fleet: &Fleet) -> bool {
        fleet.control.epoch() <= MAX_EPOCH
    }
}

impl Reported for Explored {
    fn describe(fleet: &Fleet, action: &Action) -> String {
        fleet.describe(action)
    }

    fn violation(fleet: &Fleet) -> Option<String> {
        let violation = fleet.history.violation;
        violation.map(|violation| format!("{violation:?}"))
    }

    fn unseen(&self) -> Vec<&'static str> {
        let seen = self.seen.load(Ordering::Relaxed);
        let faults = &self.scenario.faults;
        let mut unseen = Vec::new();
        let mut sometimes = |when: bool, name: &'static str, event: Events| {
            if when && event.bits() & seen == 0 {
                unseen.push(name);
            }
        };
        let repeats = faults.lost_replies + faults.duplicates > 0;
        let stale = faults.lease_ends + faults.lapses + faults.crashes > 0;
        sometimes(true, "both partitions get rows", Events::BOTH_HAVE_ROWS);
        sometimes(true, "a pack arrives before the one before it", Events::GAP);
        sometimes(stale, "takeover", Events::TAKEOVER);
        sometimes(
            stale,
            "a sealed partition refuses an older generator's pack",
            Events::STALE_REFUSED,
        );
        sometimes(
            stale,
            "between two seals, the other partition accepts an older generator's pack",
            Events::OLD_ACCEPTED,
        );
        sometimes(
            faults.lease_ends > 0,
            "between two seals, the older generator changes its partition",
            Events::OLD_CHANGES,
        );
        sometimes(
            stale,
            "the newest pack is there, and no node heard so",
            Events::UNHEARD_WAS_THERE,
        );
        sometimes(
            repeats,
            "a repeated publish is answered already",
            Events::ALREADY,
        );
        let crashes = faults.crashes > 0;
        sometimes(
            crashes,
            "a generator dies between two seals, and another one opens its source",
            Events::AFTER_HALF_SEAL,
        );
        sometimes(
            crashes,
            "a dead node's seal arrives late, and counts",
            Events::LATE_SEAL_OF_DEAD,
        );
        sometimes(stale, "a seal is refused", Events::SEAL_REFUSED);
        sometimes(
            faults.empty_batches > 0,
            "a cursor is stored alone",
            Events::CURSOR_ALONE,
        );
        sometimes(
            faults.control_failovers > 0,
            "two nodes seal a partition each under one epoch",
            Events::ONE_EPOCH,
        );
        sometimes(
            faults.failovers > 0,
            "a partition forgets something",
            Events::FORGOT,
        );
        let parks = faults.stalls > 0;
        sometimes(
            parks,
            "rows go to the other partition while packs are parked",
            Events::ROWS_ELSEWHERE,
        );
        sometimes(
            parks && stale,
            "a successor publishes a parked pack",
            Events::PARKED_PUBLISHED,
        );
        sometimes(
            parks && stale,
            "a successor finds a parked pack that its partition has",
            Events::PARKED_WAS_THERE,
        );
        sometimes(
            parks && stale,
            "a late park is refused",
            Events::PARK_REFUSED,
        );
        sometimes(
            parks && stale,
            "a late removal of a parked pack is refused",
            Events::UNPARK_REFUSED,
        );
        sometimes(
            faults.lapses > 0,
            "a node sends again what it keeps of its reign before",
            Events::KEPT_SENT_AGAIN,
        );
        unseen
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

impl Fleet {
    fn never(&self, violation: Violation) -> bool {
        self.history.violation != Some(violation)
    }

    /// The rows that the partitions have or, from the copies that wait in another one, will have; sorted.
    pub(super) fn rows(&self) -> Vec<Seq> {
        let rows = self.partitions.iter().flat_map(|it| it.rows());
        let waiting = self.waiting().flat_map(|parcel| &parcel.texts);
        let mut rows: Vec<Seq> = rows.chain(waiting.map(|it| source::row_of(*it))).collect();
        rows.sort_unstable();
        rows
    }

    /// Whether the newest position is that behind all rows.
    fn has_true_count(&self) -> bool {
        let stored = self.partitions.iter().map(|it| it.position().made);
        let made = stored.chain(self.waiting().map(|parcel| parcel.after.made));
        made.max().map(|made| made.messages) == Some(self.rows().len() as u64)
    }
}
