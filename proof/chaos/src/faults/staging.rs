//! Staged packs and records vanish: a publish that names one must find out, and its generator sends it again; so
//! must a commit, and its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;

use super::pause::{Pause, Whom};
use super::{Fault, Note};
use crate::arena::{Arena, FLEET};
use crate::rng::Rng;

/// Pause between two searches for staged packs.
const PAUSE: Duration = Duration::from_millis(1);
/// How long packs vanish after the fleet has resumed.
const AFTER: Duration = Duration::from_millis(400);
/// Longest wait for the server, which another fault may have stopped.
const TIMEOUT: Duration = Duration::from_millis(200);

/// Pauses every node, so that many messages are due afterwards and fill the queue: the generator
/// leaves packs staged until there is room. Deletes them meanwhile.
pub(super) struct Vanish {
    all: Pause,
    over: Arc<AtomicBool>,
    deleting: Option<JoinHandle<u64>>,
}

impl Vanish {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            all: Pause::new(Whom::All, rng),
            over: Arc::default(),
            deleting: None,
        }
    }
}

impl Fault for Vanish {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let client = redis::Client::open(arena.observer.url())?;
        let over = Arc::clone(&self.over);
        let delete = move || {
            let mut deleted = 0;
            while !over.load(Ordering::Relaxed) {
                deleted += delete_staged(&client).unwrap_or_default();
                std::thread::sleep(PAUSE);
            }
            deleted
        };
        self.deleting = Some(std::thread::spawn(delete));
        self.all.inject(arena, note)
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let resumed = self.all.lift(arena, note);
        std::thread::sleep(AFTER);
        self.over.store(true, Ordering::Relaxed);
        if let Some(deleting) = self.deleting.take() {
            let deleted = deleting.join().unwrap_or_default();
            note.text = format!("{deleted} staged packs and records deleted");
        }
        resumed
    }
}

fn delete_staged(client: &redis::Client) -> Result<u64> {
    let mut redis = client.get_connection_with_timeout(TIMEOUT)?;
    redis.set_read_timeout(Some(TIMEOUT))?;
    // Of every partition.
    let pattern = format!("baton:{{{FLEET}:*}}:staged*");
    let staged: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut redis)?;
    match staged.is_empty() {
        true => Ok(0),
        false => Ok(redis::cmd("DEL").arg(staged).query(&mut redis)?),
    }
}
