//! What a server says about another one, in a line of `CLUSTER NODES`.

use std::ops::RangeInclusive;

/// What one server says about one server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) port: u16,
    flags: Vec<String>,
    /// The id of its master, if it is a replica.
    pub(super) master: Option<String>,
    /// Grows with each promotion, and with each move of a slot to it.
    pub(super) epoch: u64,
    pub(super) is_connected: bool,
    pub(super) slots: Vec<RangeInclusive<u16>>,
    /// Whether a slot is on its way, to it or from it.
    pub(super) is_moving: bool,
}

impl Seen {
    /// Reads a line:
    /// `id ip:port@busport flags master-or-dash ping pong epoch connected slot first-last [slot->-id] …`.
    pub(super) fn read(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, address, flags, master, _, _, epoch, link, slots @ ..] = &words[..] else {
            return None;
        };
        let port = address.split('@').next()?.rsplit(':').next()?;
        let (moving, slots): (Vec<&str>, Vec<&str>) =
            slots.iter().partition(|word| word.starts_with('['));
        let slots = slots.into_iter().filter_map(|word| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        Some(Self {
            id: (*id).to_owned(),
            port: port.parse().ok()?,
            flags: flags.split(',').map(str::to_owned).collect(),
            master: (*master != "-").then(|| (*master).to_owned()),
            epoch: epoch.parse().ok()?,
            is_connected: *link == "connected",
            slots: slots.collect(),
            is_moving: !moving.is_empty(),
        })
    }

    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|has| has == flag)
    }

    pub(super) fn owns(&self, slot: u16) -> bool {
        self.has_flag("master") && self.slots.iter().any(|range| range.contains(&slot))
    }

    /// How many slots it has.
    pub(super) fn count_slots(&self) -> usize {
        self.slots.iter().map(ExactSizeIterator::len).sum()
    }

    pub(super) fn has_slots(&self) -> bool {
        self.count_slots() > 0
    }

    /// The first flag that means trouble, such as `fail?` and `handshake`.
    pub(super) fn trouble(&self) -> Option<&str> {
        let mut flags = self.flags.iter().map(String::as_str);
        flags.find(|flag| !["myself", "master", "slave"].contains(flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_the_role_the_slots_and_what_is_on_its_way() {
        let master = "a1 127.0.0.1:7001@17001,host,shard-id=9 myself,master - 0 0 4 connected \
                      0-99 200 [300->-b2]";
        let seen = Seen::read(master).unwrap();
        assert_eq!((seen.id.as_str(), seen.port, seen.epoch), ("a1", 7001, 4));
        assert!(seen.owns(0) && seen.owns(99) && seen.owns(200));
        assert!(!seen.owns(100) && !seen.owns(300));
        assert_eq!(seen.count_slots(), 101);
        assert!(seen.is_moving && seen.is_connected && seen.master.is_none());
        assert_eq!(seen.trouble(), None);
        let replica = "b2 127.0.0.1:7002@17002 slave,fail? a1 1 2 4 disconnected";
        let seen = Seen::read(replica).unwrap();
        assert_eq!(seen.master.as_deref(), Some("a1"));
        assert_eq!(seen.trouble(), Some("fail?"));
        assert!(!seen.is_connected && !seen.is_moving && !seen.has_slots());
        for line in ["", "vars currentEpoch 6 lastVoteEpoch 0"] {
            assert_eq!(Seen::read(line), None);
        }
    }
}
