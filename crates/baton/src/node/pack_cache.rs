//! The packs that a node has in memory: it reads each pack once for all its lanes.
//!
//! A lane with a slow handler claims a few messages of a pack at a time, and a node may have
//! thousands of lanes. If each claim brought the pack along, the same texts would travel thousands
//! of times. So a claim on a part of a large pack brings no texts. The first lane that needs the
//! pack reads it, and the others wait for that one answer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_protocol::OwnedPack;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::Error;

/// Max packs in memory.
const MAX_PACKS: usize = 16;
/// How long a pack is kept that no lane asks for.
const UNUSED: Duration = Duration::from_secs(10);

/// Which pack it is. Numbers begin anew when the server loses data, so the first number alone does
/// not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackId {
    /// The server's process that the claim was sent to: another one may lack the last writes.
    pub(crate) run_id: String,
    /// The name of the data, see [`ClaimedPack`](baton_protocol::ClaimedPack).
    pub(crate) born: String,
    /// The first message.
    pub(crate) first: u64,
}

struct Entry {
    id: PackId,
    pack: Arc<OnceCell<Arc<OwnedPack>>>,
    used: Instant,
}

/// The packs of a node, the one that was asked for last at the end.
#[derive(Default)]
pub(crate) struct PackCache {
    entries: Mutex<VecDeque<Entry>>,
}

impl PackCache {
    /// The pack; `read` gets it from Redis unless it is here or on its way. None if Redis does
    /// not have it.
    pub(crate) async fn get(
        &self,
        id: &PackId,
        read: impl Future<Output = Result<Option<Vec<u8>>, Error>>,
    ) -> Result<Option<Arc<OwnedPack>>, Error> {
        let cell = self.cell(id);
        let read = async {
            match read.await {
                Ok(Some(bytes)) => Ok(Arc::new(OwnedPack::new(bytes))),
                Ok(None) => Err(None),
                Err(error) => Err(Some(error)),
            }
        };
        match cell.get_or_try_init(|| read).await {
            Ok(pack) => Ok(Some(Arc::clone(pack))),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    fn cell(&self, id: &PackId) -> Arc<OnceCell<Arc<OwnedPack>>> {
        let mut entries = self.entries();
        let known = entries.iter().position(|entry| entry.id == *id);
        let mut entry = match known.and_then(|at| entries.remove(at)) {
            Some(entry) => entry,
            None => Entry {
                id: id.clone(),
                pack: Arc::default(),
                used: Instant::now(),
            },
        };
        entry.used = Instant::now();
        let cell = Arc::clone(&entry.pack);
        entries.push_back(entry);
        if entries.len() > MAX_PACKS {
            entries.pop_front();
        }
        cell
    }

    /// Drops packs that no lane asked for in a while.
    pub(crate) fn drop_unused(&self) {
        self.entries().retain(|entry| entry.used.elapsed() < UNUSED);
    }

    fn entries(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    fn id(first: u64) -> PackId {
        PackId {
            run_id: "r".to_owned(),
            born: "b".to_owned(),
            first,
        }
    }

    #[tokio::test]
    async fn lanes_that_ask_at_the_same_time_share_one_reading() {
        let (cache, id, readings) = (PackCache::default(), id(1), AtomicU64::new(0));
        let lane = || {
            cache.get(&id, async {
                readings.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(Some(vec![1]))
            })
        };
        let lanes = futures_util::future::join_all((0..100).map(|_| lane())).await;
        assert!(lanes.iter().all(|pack| matches!(pack, Ok(Some(_)))));
        assert_eq!(readings.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_reading_that_fails_is_tried_by_the_next_lane() {
        let (cache, id) = (PackCache::default(), id(1));
        let away = async { Err(Error::Unavailable("away".to_owned())) };
        assert!(cache.get(&id, away).await.is_err());
        assert!(matches!(cache.get(&id, async { Ok(None) }).await, Ok(None)));
        let there = cache.get(&id, async { Ok(Some(vec![1])) }).await;
        assert!(matches!(there, Ok(Some(_))));
    }

    #[tokio::test]
    async fn a_pack_of_other_data_or_of_another_server_process_is_another_pack() {
        let cache = PackCache::default();
        let other_data = PackId {
            born: "c".to_owned(),
            ..id(1)
        };
        let other_process = PackId {
            run_id: "s".to_owned(),
            ..id(1)
        };
        for (byte, id) in (0..).zip([id(1), other_data, other_process]) {
            let pack = cache.get(&id, async { Ok(Some(vec![byte])) }).await;
            assert_eq!(pack.unwrap().unwrap().bytes(), [byte], "{id:?}");
        }
    }

    #[tokio::test]
    async fn few_packs_are_kept_and_none_for_long() {
        let cache = PackCache::default();
        for first in 0..100 {
            let _ = cache.get(&id(first), async { Ok(Some(vec![1])) }).await;
        }
        assert_eq!(cache.entries().len(), MAX_PACKS);
        let long_ago = Instant::now() - UNUSED;
        cache.entries()[3].used = long_ago;
        cache.drop_unused();
        assert_eq!(cache.entries().len(), MAX_PACKS - 1);
    }
}
