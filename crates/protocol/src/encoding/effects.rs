//! Effects: changes in Redis that a handler stages and the commit writes.

/// Changes in Redis that happen in the very step that commits the message, or not at all. The
/// commit checks all of them before it writes the first. If one cannot work (its key has another
/// type, say), the commit writes none, and the message fails with the reason.
///
/// One message may use only one of these methods on a key. If its handler rejects it, its effects
/// are dropped.
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

impl Effects {
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
