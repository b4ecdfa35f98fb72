//! Packs that a generator keeps for other partitions, and removes.

use baton_model::call::{Call, Parking};
use baton_model::state::{Node, ParcelField};

use super::Chooser;

/// The partitions that they are for: all but the one of this test.
const PARTITIONS: [usize; 3] = [1, 2, 1023];
/// So few first numbers that some come again.
const FIRSTS: [u64; 4] = [1, 2, 1000, 1 << 40];

impl Chooser<'_> {
    /// Keeps or removes packs; mostly as the generator of the fence.
    pub(super) fn park(&mut self, present: &[Node]) -> Call {
        let state = self.scene.state;
        let fence = &state.fence;
        let sealed = fence.node.filter(|node| state.is_present(*node));
        let any = self.one(present);
        let wrong_epochs = [fence.epoch + 1, fence.epoch.saturating_sub(1)];
        Call::Park {
            node: self.usually(sealed.unwrap_or(any), &[any]),
            epoch: self.usually(fence.epoch, &wrong_epochs),
            parking: match self.mostly(3) {
                true => self.keep(),
                false => self.remove(),
            },
        }
    }

    fn keep(&mut self) -> Parking {
        let count = self.one(&[1, 2, 3, 1, 2, 1, 2, 0]);
        let packs = (0..count).map(|_| (self.field(), self.texts(1).start));
        Parking::Keep(packs.collect())
    }

    /// Some of what is parked; sometimes also, or only, what may not be there.
    fn remove(&mut self) -> Parking {
        let parked: Vec<ParcelField> = self.scene.state.parked.keys().copied().collect();
        let (start, count) = (self.pick(), self.one(&[1, 2, 3, 1, 2, 1, 2, 0]));
        let fields = parked.iter().cycle().skip(start % parked.len().max(1));
        let mut fields: Vec<ParcelField> = fields.take(count).copied().collect();
        if !self.mostly(4) {
            fields.push(self.field());
        }
        Parking::Remove(fields)
    }

    fn field(&mut self) -> ParcelField {
        (self.one(&PARTITIONS), self.one(&FIRSTS))
    }
}
