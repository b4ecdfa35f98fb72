//! Looks at the errors store. What a look has found is remembered, so that an action can be
//! bounded by it: whatever failed later was not seen, and is not touched.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use baton::inspect::FailedId;
use baton::{Error, FailedMessage, Inspector};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::access::secret;
use crate::record::{Shown, short};

/// Most records and bytes of one look.
const MOST: (u64, usize) = (100_000, 64 << 20);
/// Looks that are remembered.
const LOOKS: usize = 16;
/// Most records that are read in one step.
const PAGE_RECORDS: u64 = 500;
/// Most reasons that are listed.
const GROUPS: usize = 200;

/// What is looked for.
pub(crate) struct Wanted {
    /// Somewhere in text, reason, node or number, in any case.
    pub(crate) search: String,
    /// Exactly this reason, as far as a list shows it.
    pub(crate) reason: Option<String>,
    /// How many to show.
    pub(crate) limit: usize,
}

/// What was found.
#[derive(Serialize)]
pub(crate) struct Found {
    /// Records in the store.
    total: u64,
    /// Records that are what was looked for.
    matching: u64,
    /// Whether the whole store was looked through; if not, its newest part was.
    complete: bool,
    /// Reasons of what was searched for, the most frequent first.
    groups: Vec<Group>,
    /// The newest of them.
    messages: Vec<Shown>,
}

#[derive(Serialize)]
struct Group {
    reason: String,
    count: u64,
}

/// Which of a look's records are meant.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    /// All.
    All,
    /// One.
    Id(String),
    /// All with this reason.
    Reason(String),
}

/// The records of a look, newest first.
pub(crate) struct Look(Vec<Entry>);

struct Entry {
    id: FailedId,
    /// Of the reason.
    hash: u64,
}

impl Look {
    /// The records that are meant, oldest first.
    pub(crate) fn chosen(&self, what: &What) -> Vec<FailedId> {
        let is_meant: Box<dyn Fn(&Entry) -> bool> = match what {
            What::All => Box::new(|_| true),
            What::Id(id) => {
                let id = id.parse().ok();
                Box::new(move |entry| Some(entry.id.number()) == id)
            }
            What::Reason(reason) => {
                let hash = xxh3_64(short(reason).as_bytes());
                Box::new(move |entry| entry.hash == hash)
            }
        };
        let entries = self.0.iter().rev().filter(|entry| is_meant(entry));
        entries.map(|entry| entry.id).collect()
    }
}

/// The latest looks.
#[derive(Default)]
pub(crate) struct Looks(Mutex<VecDeque<(String, Arc<Look>)>>);

impl Looks {
    /// Keeps a look, and says under which name.
    pub(crate) fn remember(&self, look: Look) -> String {
        let name = secret();
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.len() >= LOOKS {
            looks.pop_front();
        }
        looks.push_back((name.clone(), Arc::new(look)));
        name
    }

    /// A look that was remembered not too long ago.
    pub(crate) fn recall(&self, name: &str) -> Option<Arc<Look>> {
        let looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = looks.iter().find(|(known, _)| known == name);
        known.map(|(_, look)| Arc::clone(look))
    }
}

/// Looks through the store, or the newest part of it.
pub(crate) async fn look(inspector: &Inspector, wanted: &Wanted) -> Result<(Look, Found), Error> {
    let total = inspector.failed_count().await?;
    let search = wanted.search.to_lowercase();
    let (mut records, mut bytes) = MOST;
    let mut groups: HashMap<String, u64> = HashMap::new();
    let (mut entries, mut messages) = (Vec::new(), Vec::new());
    let (mut next, mut complete) = (None, false);
    while records > 0 && bytes > 0 && !complete {
        let max = records.min(PAGE_RECORDS);
        let page = inspector.failed_messages(next, max).await?;
        next = page.next;
        complete = next.is_none();
        for failed in page.messages {
            records = records.saturating_sub(1);
            bytes = bytes.saturating_sub(failed.bytes);
            let (id, failed) = (failed.id, failed.message);
            if !is_like(&failed, &search) {
                continue;
            }
            let reason = short(&failed.reason);
            match groups.get_mut(reason) {
                Some(count) => *count += 1,
                None => drop(groups.insert(reason.to_owned(), 1)),
            }
            if wanted
                .reason
                .as_ref()
                .is_none_or(|wanted| short(wanted) == reason)
            {
                let hash = xxh3_64(reason.as_bytes());
                entries.push(Entry { id, hash });
                if messages.len() < wanted.limit {
                    messages.push(Shown::briefly(id.number(), &failed));
                }
            }
        }
    }
    let mut groups: Vec<Group> = groups
        .into_iter()
        .map(|(reason, count)| Group { reason, count })
        .collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    groups.truncate(GROUPS);
    let found = Found {
        total,
        matching: entries.len() as u64,
        complete,
        groups,
        messages,
    };
    Ok((Look(entries), found))
}

/// Whether a failed message has these lower-case words somewhere.
fn is_like(failed: &FailedMessage, search: &str) -> bool {
    let has = |text: &str| text.to_lowercase().contains(search);
    search.is_empty()
        || has(&String::from_utf8_lossy(&failed.text))
        || has(&failed.reason)
        || has(&failed.node)
        || (failed.seq != 0 && has(&format!("#{}", failed.seq)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, reason: &str) -> Entry {
        let hash = xxh3_64(reason.as_bytes());
        let id = format!("{id}-0").parse().unwrap();
        Entry { id, hash }
    }

    #[test]
    fn a_choice_is_of_the_look_and_of_nothing_else() {
        let look = Look(vec![entry(9, "two"), entry(7, "one"), entry(3, "two")]);
        let chosen = |what| -> Vec<u64> {
            let chosen = look.chosen(&what);
            chosen.iter().map(|id| id.number()).collect()
        };
        assert_eq!(chosen(What::All), [3, 7, 9]);
        assert_eq!(chosen(What::Id("7".into())), [7]);
        assert_eq!(chosen(What::Reason("two".into())), [3, 9]);
        for none in [
            What::Id("4".into()),
            What::Id("x".into()),
            What::Reason("three".into()),
        ] {
            assert!(look.chosen(&none).is_empty(), "{none:?}");
        }
    }

    #[test]
    fn the_oldest_look_is_forgotten() {
        let looks = Looks::default();
        let first = looks.remember(Look(Vec::new()));
        for _ in 1..LOOKS {
            looks.remember(Look(Vec::new()));
        }
        assert!(looks.recall(&first).is_some());
        looks.remember(Look(Vec::new()));
        assert!(looks.recall(&first).is_none());
    }
}
