//! Which nodes sleep, and which of them a message wakes.

use super::Script;
use super::claim::Wanted;
use super::queue::Publish;
use crate::call::{Handed, HandedPack, Reply, Ring, Staging};
use crate::flaw::Flaw;
use crate::state::{Body, Claim, Idle, Pack, Range, Sleeper, Slot};

/// Max nodes that one ring wakes.
const MAX_RUNG_NODES: usize = 16;
/// Max bytes of a pack that comes along to a node that gets a part of it.
pub(super) const SMALL_PACK_BYTES: u64 = 1024;
/// Max bytes of a pack that comes along to a lane that slept and gets all of it.
pub(super) const WAKING_PACK_BYTES: u64 = 16 << 10;

impl Script<'_> {
    /// The lane's node is idle, unless the lane holds another claim. A generator is not idle: its lanes
    /// do not sleep.
    pub(super) fn fall_asleep(&mut self, call: &Wanted) {
        let node = call.slot.node;
        let works = call.alone && self.state.fence.node != Some(node);
        if works && !self.has(Flaw::EmptyNotIdle) {
            let idle = Idle {
                since: self.now,
                want: call.want.max(1),
            };
            let sleeper = (node, call.run_id);
            self.state.idle.entry(sleeper).or_insert(idle);
        }
    }

    /// A lane gets messages. If it has slept, so many other lanes of its node wait to sleep.
    pub(super) fn wake_up(&mut self, call: &Wanted) {
        match call.sleepers {
            Some(0) => drop(self.state.idle.remove(&(call.slot.node, call.run_id))),
            Some(_) => self.fall_asleep(call),
            None => {}
        }
    }

    /// The node that is idle longest; of two, the one whose lane wants less.
    fn longest_idle(&self) -> Option<Sleeper> {
        let idle = self.state.idle.iter();
        let longest = idle.min_by_key(|(sleeper, idle)| (**idle, **sleeper));
        longest.map(|(sleeper, _)| *sleeper)
    }

    /// Publishes on the ring channel of a node. Returns whether the node hears it.
    pub(super) fn ring_node(&mut self, sleeper: Sleeper, handed: Option<Handed>) -> bool {
        let hears = self.state.hears(sleeper);
        if hears {
            let (node, _) = sleeper;
            self.rings.push(Ring { node, handed });
        }
        hears
    }

    /// Wakes the node that is idle longest, and goes on while the nodes are absent. Returns whether
    /// a present node was woken.
    pub(super) fn ring(&mut self) -> bool {
        for _ in 0..MAX_RUNG_NODES {
            let Some(sleeper) = self.longest_idle() else {
                return false;
            };
            self.state.idle.remove(&sleeper);
            if self.ring_node(sleeper, None) || self.has(Flaw::RingTheDead) {
                return true;
            }
        }
        false
    }

    /// A busy node was rung.
    pub(super) fn ring_on(&mut self) -> Reply {
        if !self.state.queue.is_empty() {
            self.ring();
        }
        Reply::Rung
    }

    /// A published range goes to the node that is idle longest, as many messages as its lane wants, if
    /// none wait before it. Returns what no node got.
    pub(super) fn hand_over(&mut self, range: Range, call: &Publish<'_>) -> Option<Range> {
        let Some(sleeper) = self.taker() else {
            return Some(range);
        };
        let idle = self.state.idle.remove(&sleeper);
        let want = idle.map_or(1, |idle| idle.want);
        let taken = Range {
            last: range.last.min(range.first + want - 1),
            ..range
        };
        let number = self.now as u64 * 1000 + call.micros;
        let handed = Handed {
            number,
            range: taken,
            pack: self.handed_pack(taken, call),
        };
        if !self.ring_node(sleeper, Some(handed)) && !self.has(Flaw::HandsToTheAbsent) {
            return Some(range);
        }
        if !self.has(Flaw::HandsUnclaimed) {
            let (node, run_id) = sleeper;
            let (slot, body) = (Slot::handed(node), Body::Messages(taken));
            let claim = Claim {
                number,
                run_id,
                body,
            };
            self.state.claims.insert(slot, claim);
            self.state.deadlines.insert(slot, self.now + call.ttl);
        }
        let rest = Range {
            first: taken.last + 1,
            ..range
        };
        (rest.first <= rest.last && !self.has(Flaw::HandsWithoutRest)).then_some(rest)
    }

    /// The idle node that gets messages at once; none if they wait in the queue.
    fn taker(&self) -> Option<Sleeper> {
        let is_next = self.state.queue.is_empty() || self.has(Flaw::HandsOutOfTurn);
        let is_paused = self.state.fence.paused.workers.is_some();
        let may_take = is_next && (!is_paused || self.has(Flaw::HandsWhilePaused));
        let is_free = |sleeper: &Sleeper| {
            let slot = Slot::handed(sleeper.0);
            !self.state.claims.contains_key(&slot) || self.has(Flaw::HandsOverAnother)
        };
        self.longest_idle().filter(|_| may_take).filter(is_free)
    }

    /// The pack that comes along with a range.
    fn handed_pack(&self, range: Range, call: &Publish<'_>) -> HandedPack {
        let is_whole = range.size() == range.count;
        let comes_along = |pack: &&Pack| match call.staging {
            Staging::Inline => true,
            _ => is_whole && pack.bytes <= WAKING_PACK_BYTES,
        };
        match self.state.packs.get(&range.pack).filter(comes_along) {
            Some(pack) => HandedPack::Sent(pack.clone()),
            None if is_whole => HandedPack::Whole,
            None => HandedPack::Part,
        }
    }
}
