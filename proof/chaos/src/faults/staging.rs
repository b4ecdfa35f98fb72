//! Staged packs vanish: a publish that names one must find out, and its generator sends it again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;

use super::{Fault, Note};
use crate::arena::{Arena, FLEET};

/// Pause between two searches for staged packs.
const PAUSE: Duration = Duration::from_millis(1);

/// Deletes every staged pack for a while.
#[derive(Default)]
pub(super) struct Vanish {
    over: Arc<AtomicBool>,
    deleting: Option<JoinHandle<u64>>,
}

impl Fault for Vanish {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let client = redis::Client::open(arena.observer.url())?;
        let over = Arc::clone(&self.over);
        let delete = move || {
            let mut deleted = 0;
            while !over.load(Ordering::Relaxed) {
                // Another fault may have stopped the server.
                deleted += delete_staged(&client).unwrap_or_default();
                std::thread::sleep(PAUSE);
            }
            deleted
        };
        self.deleting = Some(std::thread::spawn(delete));
        Ok(())
    }

    fn lift(&mut self, _arena: &mut Arena, note: &mut Note) -> Result<()> {
        self.over.store(true, Ordering::Relaxed);
        if let Some(deleting) = self.deleting.take() {
            let deleted = deleting.join().unwrap_or_default();
            note.text = format!("{deleted} staged packs deleted");
        }
        Ok(())
    }
}

fn delete_staged(client: &redis::Client) -> Result<u64> {
    let mut redis = client.get_connection_with_timeout(Duration::from_millis(200))?;
    redis.set_read_timeout(Some(Duration::from_millis(200)))?;
    let pattern = format!("baton:{{{FLEET}:0}}:staged:*");
    let staged: Vec<String> = redis::cmd("KEYS").arg(pattern).query(&mut redis)?;
    match staged.is_empty() {
        true => Ok(0),
        false => Ok(redis::cmd("DEL").arg(staged).query(&mut redis)?),
    }
}
