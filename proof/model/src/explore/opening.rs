//! How a generator that has sealed goes on: it sends again what it keeps, declares void what no node
//! can send, and opens its source behind that. crates/baton/src/node/outbox.rs does the same.

use super::World;
use super::generator::{Generator, Prepared, Publishing};
use super::source::SourceKind;
use crate::flaw::Flaw;
use crate::state::{Node, Seq};

/// Where a generator opens its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Opening {
    pub(super) epoch: u64,
    /// How often it opened its source under this epoch before.
    pub(super) openings: u64,
    pub(super) cursor: u64,
}

/// The packs of a reign that is over.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kept {
    pub(super) epoch: u64,
    pub(super) packs: Vec<Prepared>,
}

impl World {
    /// Goes on behind the last number. A node knows of numbers up to `known`.
    pub(super) fn open(&mut self, node: Node, opening: Opening, last: Seq, known: Seq) {
        let (flaw, source) = (self.flaw, self.source);
        let client = &mut self.nodes[node as usize];
        let known = known.max(client.known);
        // Under a later epoch, another generator may have reigned in between.
        let kept = client
            .kept
            .take()
            .filter(|kept| kept.epoch + 1 == opening.epoch);
        let mut packs = kept.map(|kept| kept.packs).unwrap_or_default();
        // Another node may know a number that Redis never confirmed to this one. Up to the highest that
        // it confirmed, all numbers are this node's.
        let confirmed = packs.iter().filter(|pack| pack.is_confirmed);
        let confirmed = confirmed.map(Prepared::last).max().unwrap_or(0);
        let sends_all = flaw == Some(Flaw::SendsUnconfirmed);
        packs.retain(|pack| pack.first <= confirmed || pack.first > known || sends_all);
        packs.retain(|pack| pack.first > last);
        let mut sorted = packs.clone();
        sorted.sort_by_key(|pack| pack.first);
        if flaw != Some(Flaw::KeptOutOfOrder) {
            packs = sorted.clone();
        }
        let is_whole = |packs: &[Prepared]| {
            let before = [last].into_iter().chain(packs.iter().map(Prepared::last));
            let mut pairs = before.zip(packs);
            pairs.all(|(before, pack)| pack.first == before + 1)
        };
        // Another generator may have declared numbers void that this node published: then the source
        // makes their rows again.
        let fits = |packs: &[Prepared]| {
            let first = packs.iter().find(|pack| !pack.is_void());
            is_whole(packs) && first.is_none_or(|pack| pack.cursor_before == opening.cursor)
        };
        let has_next = sorted.first().is_some_and(Prepared::has_texts) && fits(&sorted);
        client.gave_up_on = Some(last + 1).filter(|_| has_next);
        if source == SourceKind::MakesOnce && !fits(&packs) || flaw == Some(Flaw::VoidsKept) {
            packs.clear();
        }
        let mut publishing = Publishing::begin(opening, last);
        if source != SourceKind::Replays {
            for pack in packs {
                void_up_to(&mut publishing, pack.first - 1);
                publishing.add(pack);
            }
            if flaw != Some(Flaw::NumbersGivenAgain) {
                void_up_to(&mut publishing, known);
            }
        }
        client.generator = Generator::Publishing(publishing);
    }
}

/// Numbers up to this one that no pack has become void.
fn void_up_to(publishing: &mut Publishing, last: Seq) {
    if publishing.next() <= last {
        publishing.add(Prepared::void(publishing.next(), last));
    }
}
