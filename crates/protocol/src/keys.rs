//! Every key name of the protocol is built here and nowhere else.
//!
//! All keys of one slot share a hash tag, so that each script touches a single slot of a
//! Redis Cluster. A fleet of one partition has the tag `{fleet:0}`. A fleet of several has its control
//! keys under that tag, and the keys of each partition under a tag of its own, see [`Keys::of_partition`].
//! No key has a time to live, because an expiring queue is a lost queue. The exceptions are a staged
//! pack and a staged record, which are not part of the fleet yet, and the key of a confirmation.

use crate::encoding::effects::local_key;
use crate::slot::{SLOTS, slot};
use crate::{Error, Setting};

/// Max length of a fleet's name.
const MAX_FLEET_NAME_BYTES: usize = 64;

/// A fleet's name: letters, digits, `.`, `_` and `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetName(String);

impl FleetName {
    /// Checks a name. Braces and colons are not allowed: they would change the hash tag.
    pub fn new(name: &str) -> Result<Self, Error> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() || name.len() > MAX_FLEET_NAME_BYTES || !name.chars().all(allowed) {
            let problem = format!(
                "a fleet's name has 1 to {MAX_FLEET_NAME_BYTES} letters, digits, '.', '_' or '-', not {name:?}"
            );
            return Err(Error::setting(Setting::Fleet, problem));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for FleetName {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::new(name)
    }
}

impl std::fmt::Display for FleetName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The key names of one fleet.
#[derive(Debug, Clone)]
pub struct Keys {
    /// HASH, the lease: `node`, `epoch`, `until`, `since`, and `run`, the server's run id.
    pub generator: String,
    /// HASH: node → run id of the server it is connected to, and a JSON object about the node.
    pub nodes: String,
    /// ZSET: node → when it joined; the order in which standbys take over.
    pub joined: String,
    /// ZSET: node → its last beat.
    pub seen: String,
    /// HASH: `protocol`, the version that the fleet speaks, and `partitions`, how many it has.
    pub meta: String,
    /// LIST of takeovers of the lease, newest first.
    pub takeovers: String,
    /// HASH: `node` and `epoch` that may publish, `last` sequence number, `cursor` of the
    /// source, `born`, a random name that this data keeps for ever, `known`, the highest number that
    /// a node knew and this data lacks, and since when an operator has paused the fleet:
    /// `generator_paused`, `workers_paused`.
    pub fence: String,
    /// LIST of ranges that wait for a worker.
    pub queue: String,
    /// Prefix of the packs' keys, each a STRING; the pack's first sequence number follows.
    pub pack: String,
    /// Prefix of the keys of staged packs, each a STRING; a node and its number of the pack follow.
    pub staged: String,
    /// HASH of packs that are for other partitions, which could not be reached.
    pub parked: String,
    /// HASH: first sequence number of a split pack → how many of its messages have not ended.
    pub left: String,
    /// ZSET: node with an idle lane, an `@` and the server's run id → since when (ms), and how many
    /// messages its lane wants.
    pub idle: String,
    /// HASH: slot → its claim.
    pub claims: String,
    /// ZSET: slot → deadline of its claim.
    pub deadlines: String,
    /// HASH: slot → the claim it ended last.
    pub workers: String,
    /// ZSET: range of one message → when its next attempt is due.
    pub delayed: String,
    /// HASH: sequence number of a message that was tried before and has not ended → its note.
    pub notes: String,
    /// HASH: id → record of a failed message, or the stub of a long one.
    pub errors: String,
    /// Prefix of the keys of long records, each a HASH of one field; an id follows.
    pub record: String,
    /// Prefix of the keys of staged records, each such a HASH; a node and its number of the record follow.
    pub staged_record: String,
    /// HASH: id → slot of the drain that claimed the record.
    pub errors_held: String,
    /// HASH: `last`, the highest id, and `free`, a hint: no lower id has a record that a drain
    /// could claim.
    pub errors_ids: String,
    /// HASH of counters: `done`, `failed`, `foreign`, `retried`, `dropped`, `void`.
    pub stats: String,
    /// LIST of what was published and what ended; only an audited fleet has it.
    pub ledger: String,
    /// STRING: written before a `WAIT` for replicas; it expires.
    pub(crate) confirm: String,
    /// A joining node tries its permissions on this key, and deletes it again.
    pub(crate) preflight: String,
    /// Prefix of a node's presence channel; its name follows. Nothing is published there.
    pub presence: String,
    /// Prefix of the channel on which a node is called to beat at once; its name follows.
    pub(crate) calls: String,
}

/// The hash tag of a fleet's control keys, and of its only partition if it has one.
fn control_tag(fleet: &FleetName) -> String {
    format!("{fleet}:0")
}

/// The hash tag of partition `index` of `count`: `fleet:index.k`, with the smallest k whose slot lies
/// near the middle of the partition's share of all slots. The servers of a cluster have one stretch of
/// slots each, so each of them gets as many partitions as any other, or one more.
fn partition_tag(fleet: &FleetName, index: u32, count: u32) -> String {
    if count == 1 {
        return control_tag(fleet);
    }
    let tag = |k: u32| format!("{fleet}:{index}.{k}");
    // In eighths of a share: the fourth and the fifth are the middle.
    let eighth = |k: u32| u32::from(slot(tag(k).as_bytes())) * count * 8 / SLOTS;
    let is_in_the_middle = |k: &u32| [3, 4].contains(&eighth(*k).wrapping_sub(index * 8));
    tag((0..).find(is_in_the_middle).unwrap_or_default())
}

/// How many spare keys keep the number of partitions.
pub(crate) const SPARES: u32 = 2;

/// The hash tag of a spare key: `fleet:spare.k`, with the smallest k whose slot lies as far from the control
/// keys and from the other spare keys as can be, give or take 32 slots. So of three masters each has one.
fn spare_tag(fleet: &FleetName, nth: u32) -> String {
    let slot_of = |tag: &str| u32::from(slot(tag.as_bytes()));
    let first = slot_of(&control_tag(fleet)) + (nth + 1) * SLOTS / (SPARES + 1);
    let tag = |k: u32| format!("{fleet}:spare.{k}");
    let is_there = |k: &u32| (slot_of(&tag(*k)) + SLOTS - first % SLOTS) % SLOTS < 32;
    tag((0..).find(is_there).unwrap_or_default())
}

impl Keys {
    /// The names for a fleet of one partition, and the control keys of any fleet.
    pub fn new(fleet: &FleetName) -> Self {
        Self::tagged(&control_tag(fleet))
    }

    /// The names of partition `index` of `count`. The channels are those of the fleet: a node is present
    /// at a server for all partitions there.
    pub fn of_partition(fleet: &FleetName, index: u32, count: u32) -> Self {
        Self::with_channels_of(fleet, &partition_tag(fleet, index, count))
    }

    fn with_channels_of(fleet: &FleetName, tag: &str) -> Self {
        let control = Self::new(fleet);
        Self {
            presence: control.presence,
            calls: control.calls,
            ..Self::tagged(tag)
        }
    }

    /// The names under the tag of a spare key. Of these, only `meta` is kept.
    pub fn spare(fleet: &FleetName, nth: u32) -> Self {
        Self::with_channels_of(fleet, &spare_tag(fleet, nth))
    }

    /// All spare keys of a fleet in a cluster.
    pub fn spares(fleet: &FleetName) -> impl Iterator<Item = Self> {
        (0..SPARES).map(|nth| Self::spare(fleet, nth))
    }

    /// One hash tag, so that a cluster keeps all of them on one server.
    fn tagged(tag: &str) -> Self {
        let key = |name: &str| format!("baton:{{{tag}}}:{name}");
        Self {
            generator: key("generator"),
            nodes: key("nodes"),
            joined: key("joined"),
            seen: key("seen"),
            meta: key("meta"),
            takeovers: key("takeovers"),
            fence: key("fence"),
            queue: key("queue"),
            pack: key("pack:"),
            staged: key("staged:"),
            parked: key("parked"),
            left: key("left"),
            idle: key("idle"),
            claims: key("claims"),
            deadlines: key("deadlines"),
            workers: key("workers"),
            delayed: key("delayed"),
            notes: key("notes"),
            errors: key("errors"),
            record: key("record:"),
            staged_record: key("staged_record:"),
            errors_held: key("errors_held"),
            errors_ids: key("errors_ids"),
            stats: key("stats"),
            ledger: key("ledger"),
            confirm: key("confirm"),
            preflight: key("preflight"),
            presence: key("presence:"),
            calls: key("call:"),
        }
    }

    /// The key that a name means in this partition, see [`Effects::local`](crate::Effects::local).
    pub fn local(&self, name: &str) -> String {
        let key = local_key(name.as_bytes(), self.tag());
        String::from_utf8_lossy(&key).into_owned()
    }

    /// The hash tag: what stands between the braces of every key.
    pub fn tag(&self) -> &str {
        let tag = self.fence.strip_prefix("baton:{");
        tag.and_then(|rest| rest.strip_suffix("}:fence"))
            .unwrap_or_default()
    }

    /// The key of the pack that begins with message `first`.
    pub fn pack_key(&self, first: u64) -> String {
        format!("{}{first}", self.pack)
    }

    /// The key of the long record with this id.
    pub fn record_key(&self, id: u64) -> String {
        format!("{}{id}", self.record)
    }

    /// A pattern, in the words of an ACL, for all keys of the fleet and no others. A fleet's name has
    /// no character that is special in a pattern.
    pub(crate) fn pattern(fleet: &FleetName) -> String {
        format!("baton:{{{fleet}:*")
    }

    /// Every single key that may exist, with the type it must have. Packs and long records are not among them.
    pub fn typed(&self) -> [(&str, &'static str); 21] {
        [
            (&self.generator, "hash"),
            (&self.nodes, "hash"),
            (&self.joined, "zset"),
            (&self.seen, "zset"),
            (&self.meta, "hash"),
            (&self.takeovers, "list"),
            (&self.fence, "hash"),
            (&self.queue, "list"),
            (&self.parked, "hash"),
            (&self.left, "hash"),
            (&self.idle, "zset"),
            (&self.claims, "hash"),
            (&self.deadlines, "zset"),
            (&self.workers, "hash"),
            (&self.delayed, "zset"),
            (&self.notes, "hash"),
            (&self.errors, "hash"),
            (&self.errors_held, "hash"),
            (&self.errors_ids, "hash"),
            (&self.stats, "hash"),
            (&self.ledger, "list"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_change_the_hash_tag_is_refused() {
        for bad in ["", "a b", "a{b", "a}b", "a:b", "ü", "a\n", &"x".repeat(65)] {
            assert!(FleetName::new(bad).is_err(), "{bad:?}");
        }
        assert!(FleetName::new("orders.v2_test-1").is_ok());
    }

    #[test]
    fn the_partitions_of_every_fleet_lie_evenly_over_the_masters_of_a_cluster() {
        let partitions = 16;
        for masters in [3, 6, 8] {
            for name in 0..64 {
                let fleet = FleetName::new(&format!("fleet-{name}")).unwrap();
                let mut shares = vec![0_u32; masters];
                for index in 0..partitions {
                    let keys = Keys::of_partition(&fleet, index, partitions);
                    let slot = usize::from(slot(keys.tag().as_bytes()));
                    // Each master has a stretch of slots, as clusters are made by default.
                    shares[slot * masters / SLOTS as usize] += 1;
                }
                let fair = f64::from(partitions) / masters as f64;
                let fullest = f64::from(*shares.iter().max().unwrap());
                assert!(fullest / fair <= 1.15, "{masters} masters: {shares:?}");
            }
        }
    }

    #[test]
    fn each_partition_has_keys_of_its_own_and_the_channels_of_its_fleet() {
        let fleet = FleetName::new("a").unwrap();
        let [one, two] = [0, 1].map(|index| Keys::of_partition(&fleet, index, 2));
        let control = Keys::new(&fleet);
        assert!(one.fence != two.fence && one.fence != control.fence);
        assert!(one.presence == control.presence && two.calls == control.calls);
        assert_eq!(Keys::of_partition(&fleet, 0, 1).fence, control.fence);
        assert_eq!(control.tag(), "a:0");
    }

    #[test]
    fn of_three_masters_each_has_the_control_keys_or_a_spare_key() {
        for name in 0..64 {
            let fleet = FleetName::new(&format!("fleet-{name}")).unwrap();
            let control = Keys::new(&fleet);
            let all = std::iter::once(control).chain(Keys::spares(&fleet));
            let mut slots: Vec<_> = all
                .map(|keys| i64::from(slot(keys.tag().as_bytes())))
                .collect();
            slots.sort_unstable();
            let [a, b, c] = slots.try_into().unwrap();
            let third = i64::from(SLOTS) / 3;
            for distance in [b - a, c - b, a + i64::from(SLOTS) - c] {
                assert!((distance - third).abs() <= 34, "{name}: {distance}");
            }
        }
    }

    #[test]
    fn no_key_of_one_fleet_is_a_key_of_another() {
        let (a, b) = (FleetName::new("a").unwrap(), FleetName::new("a.0").unwrap());
        let (a, b) = (Keys::new(&a), Keys::new(&b));
        for (key, _) in a.typed() {
            assert!(b.typed().iter().all(|(other, _)| *other != key));
        }
    }
}
