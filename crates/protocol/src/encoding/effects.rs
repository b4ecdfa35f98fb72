//! Effects: changes in Redis that a handler stages and the commit writes.

use std::borrow::Cow;

/// Changes in Redis that happen in the very step that commits the message, or not at all. The
/// commit checks all of them before it writes the first. If one cannot work (its key has another
/// type, say), the commit writes none, and the message fails with the reason.
///
/// One message may use only one of these methods on a key. If its handler rejects it, its effects
/// are dropped.
///
/// In a cluster, all keys of a message must lie in the slot of its partition. A key whose name has `{}` does:
/// the commit puts the partition's hash tag there, see [`Effects::local`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effects {
    pub(crate) staged: Vec<Effect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Effect {
    pub(crate) verb: &'static str,
    pub(crate) key: Vec<u8>,
    pub(crate) args: Vec<Vec<u8>>,
}

/// None.
impl From<()> for Effects {
    fn from((): ()) -> Self {
        Self::default()
    }
}

/// What stands in the name of a key for the hash tag of the message's partition.
const ANY_TAG: &str = "{}";

/// The key that a name means in the partition with this hash tag.
pub(crate) fn local_key<'a>(name: &'a [u8], tag: &str) -> Cow<'a, [u8]> {
    let mark = ANY_TAG.as_bytes();
    match name.windows(mark.len()).position(|part| part == mark) {
        None => name.into(),
        Some(at) => {
            let (before, rest) = name.split_at(at);
            let tag = format!("{{{tag}}}");
            [before, tag.as_bytes(), &rest[mark.len()..]]
                .concat()
                .into()
        }
    }
}

impl Effects {
    /// The name of a key that each partition has for itself: `name:{}`. The commit puts the hash tag of the
    /// message's partition between the braces, so in a cluster the key lies where its message does.
    /// `Inspector::local_keys` lists the keys of all partitions, to read or to add them up.
    pub fn local(name: &str) -> String {
        format!("{name}:{ANY_TAG}")
    }

    /// Sets a string.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.stage("SET", key, &[value.as_ref()]);
    }

    /// Deletes a key.
    pub fn del(&mut self, key: impl AsRef<[u8]>) {
        self.stage("DEL", key, &[]);
    }

    /// Adds to a counter. Counters stay within ±2^53.
    pub fn incr_by(&mut self, key: impl AsRef<[u8]>, by: i64) {
        self.stage("INCRBY", key, &[by.to_string().as_bytes()]);
    }

    /// Sets a field of a hash.
    pub fn hset(
        &mut self,
        key: impl AsRef<[u8]>,
        field: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) {
        self.stage("HSET", key, &[field.as_ref(), value.as_ref()]);
    }

    /// Adds to a counter in a hash. Counters stay within ±2^53.
    pub fn hincr_by(&mut self, key: impl AsRef<[u8]>, field: impl AsRef<[u8]>, by: i64) {
        self.stage("HINCRBY", key, &[field.as_ref(), by.to_string().as_bytes()]);
    }

    /// Appends to a list.
    pub fn rpush(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.stage("RPUSH", key, &[value.as_ref()]);
    }

    /// Adds to a set.
    pub fn sadd(&mut self, key: impl AsRef<[u8]>, member: impl AsRef<[u8]>) {
        self.stage("SADD", key, &[member.as_ref()]);
    }

    /// Sets a member's score in a sorted set.
    pub fn zadd(&mut self, key: impl AsRef<[u8]>, score: i64, member: impl AsRef<[u8]>) {
        self.stage(
            "ZADD",
            key,
            &[score.to_string().as_bytes(), member.as_ref()],
        );
    }

    /// How many are staged.
    pub fn len(&self) -> usize {
        self.staged.len()
    }

    /// Whether none is staged.
    pub fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    fn stage(&mut self, verb: &'static str, key: impl AsRef<[u8]>, args: &[&[u8]]) {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        self.staged.push(Effect {
            verb,
            key: key.as_ref().to_vec(),
            args,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_key_has_the_tag_of_its_partition_and_others_stay() {
        let key = |name: &str| String::from_utf8(local_key(name.as_bytes(), "f:3.1").into_owned());
        assert_eq!(key(&Effects::local("total")).unwrap(), "total:{f:3.1}");
        assert_eq!(key("a{}b").unwrap(), "a{f:3.1}b");
        for name in ["total", "total:{user}", "{", ""] {
            assert_eq!(key(name).unwrap(), name);
        }
    }
}
