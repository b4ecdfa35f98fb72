//! Which partitions the lanes of a node have to look at.
//!
//! A partition is *quiet* while the node is in its `idle`: then messages that come ring. It is *loud*
//! after it rang, and whenever the node may not be in its `idle`: at the start, after a lost connection,
//! and after a lane left it while messages waited. A lane that is free claims in the loud partitions, one
//! after the other, and sleeps when all are quiet.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_protocol::Ring;
use tokio::sync::oneshot;

/// The partitions of a node.
#[derive(Default)]
pub(crate) struct RungPartitions(Mutex<State>);

#[derive(Default)]
struct State {
    is_loud: Vec<bool>,
    /// Where the next lane begins to look, so that no partition has to wait for another.
    next: usize,
    /// Lanes that sleep, the one that fell asleep first in front.
    sleepers: VecDeque<oneshot::Sender<Ring>>,
}

/// What a lane that has nothing to do does next.
pub(crate) enum Look {
    /// It claims in this partition.
    At(usize),
    /// It sleeps until a ring names a partition to work in.
    Sleep(oneshot::Receiver<Ring>),
}

impl RungPartitions {
    /// All partitions are loud.
    pub(crate) fn new(count: usize) -> Self {
        Self(Mutex::new(State {
            is_loud: vec![true; count],
            ..State::default()
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a lane that has nothing to do does next. A partition at which it looks is quiet from here on:
    /// its claim puts the node into `idle`, or the lane says that it is loud.
    pub(crate) fn look(&self) -> Look {
        let mut state = self.state();
        if let Some(partition) = state.take_loud() {
            return Look::At(partition);
        }
        let (wake, woken) = oneshot::channel();
        state.sleepers.retain(|sleeper| !sleeper.is_closed());
        state.sleepers.push_back(wake);
        Look::Sleep(woken)
    }

    /// A partition rings: wakes a lane for it. Returns the ring if no lane sleeps: then the partition is
    /// loud.
    pub(crate) fn ring(&self, mut ring: Ring) -> Option<Ring> {
        let mut state = self.state();
        while let Some(sleeper) = state.sleepers.pop_front() {
            match sleeper.send(ring) {
                Ok(()) => return None,
                Err(unheard) => ring = unheard,
            }
        }
        state.is_loud[ring.partition] = true;
        Some(ring)
    }

    /// A lane left this partition, or the node may not be in its `idle`. A lane that sleeps looks at it.
    pub(crate) fn set_loud(&self, partition: usize) {
        self.ring(Ring {
            partition,
            handed: None,
        });
    }

    /// The node may be in no `idle`.
    pub(crate) fn set_all_loud(&self) {
        let count = self.state().is_loud.len();
        (0..count).for_each(|partition| self.set_loud(partition));
    }

    /// If a lane sleeps, it looks at a partition, each in its turn: a ring may have been lost.
    pub(crate) fn look_anyway(&self) {
        if self.sleepers() > 0 {
            let mut state = self.state();
            let partition = state.next;
            state.next = (partition + 1) % state.is_loud.len().max(1);
            drop(state);
            self.set_loud(partition);
        }
    }

    /// Whether another partition than this one is loud.
    pub(crate) fn is_another_loud(&self, partition: usize) -> bool {
        let state = self.state();
        let mut loud = state.is_loud.iter().enumerate();
        loud.any(|(index, is_loud)| *is_loud && index != partition)
    }

    /// How many lanes sleep.
    pub(crate) fn sleepers(&self) -> usize {
        let mut state = self.state();
        state.sleepers.retain(|sleeper| !sleeper.is_closed());
        state.sleepers.len()
    }
}

impl State {
    /// The next loud partition, which is quiet from here on.
    fn take_loud(&mut self) -> Option<usize> {
        let count = self.is_loud.len();
        let mut order = (0..count).map(|step| (self.next + step) % count);
        let partition = order.find(|partition| self.is_loud[*partition])?;
        self.is_loud[partition] = false;
        self.next = (partition + 1) % count;
        Some(partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(rung: &RungPartitions) -> Option<usize> {
        match rung.look() {
            Look::At(partition) => Some(partition),
            Look::Sleep(_) => None,
        }
    }

    #[test]
    fn a_lane_looks_at_each_loud_partition_once_and_then_sleeps() {
        let rung = RungPartitions::new(3);
        assert_eq!(
            [0; 4].map(|_| look(&rung)),
            [Some(0), Some(1), Some(2), None]
        );
        rung.set_loud(2);
        rung.set_loud(0);
        assert!(rung.is_another_loud(2) && rung.is_another_loud(0));
        assert_eq!([0; 3].map(|_| look(&rung)), [Some(0), Some(2), None]);
        assert!(!rung.is_another_loud(1));
    }

    #[test]
    fn a_ring_wakes_one_lane_and_is_kept_if_none_sleeps() {
        let rung = RungPartitions::new(2);
        let _ = [look(&rung), look(&rung)];
        let sleep = || match rung.look() {
            Look::Sleep(woken) => woken,
            Look::At(partition) => panic!("{partition} is loud"),
        };
        let (mut first, mut second) = (sleep(), sleep());
        assert_eq!(rung.sleepers(), 2);
        let ring = |partition| Ring {
            partition,
            handed: None,
        };
        assert_eq!(rung.ring(ring(1)), None);
        assert_eq!(
            (first.try_recv().ok(), second.try_recv().ok()),
            (Some(ring(1)), None)
        );
        drop(second);
        let unheard = rung.ring(ring(0));
        assert_eq!(unheard, Some(ring(0)), "the second lane sleeps no more");
        assert_eq!(rung.sleepers(), 0);
        assert_eq!(look(&rung), Some(0));
    }
}
