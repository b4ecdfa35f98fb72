//! Searches of the errors store. The page remembers which messages a search has found and bounds
//! an action by them: an action never touches a message that failed later.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use baton::inspect::{FailedCursor, FailedId};
use baton::{Error, FailedMessage, Inspector};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::message::{MessageJson, beginning, place};
use crate::access::secret;

/// A search reads at most this many records, and about this many bytes.
const MAX_RECORDS: u64 = 100_000;
const MAX_BYTES: usize = 64 << 20;
/// One step of a search reads at most this many records.
const MAX_PAGE_RECORDS: u64 = 500;
/// A search lists at most this many reasons.
const MAX_REASONS: usize = 200;
/// The page remembers this many searches.
const MAX_REMEMBERED: usize = 16;

/// What to search for.
pub(super) struct Search {
    /// Occurs somewhere in text, reason, node or sequence number, in upper or lower case.
    pub(super) text: String,
    /// Exactly this reason, as far as a list has it.
    pub(super) reason: Option<String>,
    /// How many messages to list.
    pub(super) limit: usize,
}

/// What a search has found, as JSON.
#[derive(Serialize)]
pub(super) struct SearchResult {
    /// Records in the store.
    total: u64,
    /// Records that match.
    matching: u64,
    /// Whether the search has read the whole store, and not only its newest part.
    complete: bool,
    /// The reasons of the messages with this text, the most frequent first.
    groups: Vec<ReasonCount>,
    /// The newest messages that match.
    messages: Vec<MessageJson>,
}

#[derive(Serialize)]
struct ReasonCount {
    reason: String,
    count: u64,
}

/// Some of the messages that a search has found.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Choice {
    /// All messages.
    All,
    /// The message at this place.
    Id(String),
    /// All messages with this reason.
    Reason(String),
}

/// The messages that a search has found, newest first in each partition.
pub(super) struct Matches(Vec<Match>);

struct Match {
    id: FailedId,
    reason_hash: u64,
}

impl Matches {
    /// The chosen messages, oldest first in each partition.
    pub(super) fn choose(&self, choice: &Choice) -> Vec<FailedId> {
        let is_chosen: Box<dyn Fn(&Match) -> bool> = match choice {
            Choice::All => Box::new(|_| true),
            Choice::Id(id) => Box::new(move |found| place(found.id) == *id),
            Choice::Reason(reason) => {
                let hash = xxh3_64(beginning(reason).as_bytes());
                Box::new(move |found| found.reason_hash == hash)
            }
        };
        let chosen = self.0.iter().rev().filter(|found| is_chosen(found));
        chosen.map(|found| found.id).collect()
    }
}

/// The matches of the latest searches, each under a secret name.
#[derive(Default)]
pub(super) struct RecentSearches(Mutex<VecDeque<(String, Arc<Matches>)>>);

impl RecentSearches {
    /// Remembers the matches of a search, and returns their name.
    pub(super) fn remember(&self, matches: Matches) -> String {
        let name = secret();
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= MAX_REMEMBERED {
            recent.pop_front();
        }
        recent.push_back((name.clone(), Arc::new(matches)));
        name
    }

    /// The matches with this name; none if later searches have displaced them.
    pub(super) fn recall(&self, name: &str) -> Option<Arc<Matches>> {
        let recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = recent.iter().find(|(known, _)| known == name);
        found.map(|(_, matches)| Arc::clone(matches))
    }
}

impl Search {
    /// Searches the store, from the newest message, until its end or the limits.
    pub(super) async fn run(
        &self,
        inspector: &Inspector,
    ) -> Result<(Matches, SearchResult), Error> {
        let total = inspector.failed_count().await?;
        let mut collected = Collected::new(self);
        let (mut records, mut bytes) = (MAX_RECORDS, MAX_BYTES);
        let mut next = Some(FailedCursor::NEWEST);
        while let Some(cursor) = next.filter(|_| records > 0 && bytes > 0) {
            let max = records.min(MAX_PAGE_RECORDS);
            let page = inspector.failed_messages(cursor, max).await?;
            next = page.next;
            for failed in page.messages {
                records = records.saturating_sub(1);
                bytes = bytes.saturating_sub(failed.bytes);
                collected.add(failed.id, &failed.message);
            }
        }
        collected.sort();
        let Collected {
            matches, messages, ..
        } = collected;
        let result = SearchResult {
            total,
            matching: matches.len() as u64,
            complete: next.is_none(),
            groups: most_frequent(collected.reasons),
            messages,
        };
        Ok((Matches(matches), result))
    }
}

/// What a search has found so far.
struct Collected<'a> {
    text: String,
    reason: Option<&'a str>,
    limit: usize,
    reasons: HashMap<String, u64>,
    matches: Vec<Match>,
    messages: Vec<MessageJson>,
}

impl<'a> Collected<'a> {
    fn new(search: &'a Search) -> Self {
        Self {
            text: search.text.to_lowercase(),
            reason: search.reason.as_deref().map(beginning),
            limit: search.limit,
            reasons: HashMap::new(),
            matches: Vec::new(),
            messages: Vec::new(),
        }
    }

    fn add(&mut self, id: FailedId, failed: &FailedMessage) {
        if !contains(failed, &self.text) {
            return;
        }
        let reason = beginning(&failed.reason);
        match self.reasons.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(self.reasons.insert(reason.to_owned(), 1)),
        }
        if self.reason.is_some_and(|wanted| wanted != reason) {
            return;
        }
        let reason_hash = xxh3_64(reason.as_bytes());
        self.matches.push(Match { id, reason_hash });
        if self.messages.len() < self.limit {
            self.messages.push(MessageJson::brief(id, failed));
        } else if id.partition().is_some() {
            // The pages go from partition to partition; the list has the newest of all.
            let oldest = self.messages.iter_mut().min_by_key(|listed| listed.at_ms);
            if let Some(oldest) = oldest.filter(|oldest| oldest.at_ms < failed.at_ms) {
                *oldest = MessageJson::brief(id, failed);
            }
        }
    }

    /// Puts the messages of several partitions into one order, newest first.
    fn sort(&mut self) {
        if self.matches.iter().any(|one| one.id.partition().is_some()) {
            let listed = &mut self.messages;
            listed.sort_by_key(|listed| std::cmp::Reverse(listed.at_ms));
        }
    }
}

fn most_frequent(reasons: HashMap<String, u64>) -> Vec<ReasonCount> {
    let mut groups: Vec<ReasonCount> = reasons
        .into_iter()
        .map(|(reason, count)| ReasonCount { reason, count })
        .collect();
    groups.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.reason.cmp(&b.reason)));
    groups.truncate(MAX_REASONS);
    groups
}

/// Whether a failed message contains this lower-case text somewhere.
fn contains(failed: &FailedMessage, text: &str) -> bool {
    let has = |field: &str| field.to_lowercase().contains(text);
    text.is_empty()
        || has(&String::from_utf8_lossy(&failed.text))
        || has(&failed.reason)
        || has(&failed.node)
        || (failed.seq != 0 && has(&format!("#{}", failed.seq)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(id: u64, reason: &str) -> Match {
        Match {
            id: format!("{id}-0").parse().unwrap(),
            reason_hash: xxh3_64(reason.as_bytes()),
        }
    }

    #[test]
    fn a_choice_is_among_the_matches_of_its_search() {
        let matches = Matches(vec![found(9, "two"), found(7, "one"), found(3, "two")]);
        let chosen = |choice| -> Vec<u64> {
            let chosen = matches.choose(&choice);
            chosen.iter().map(|id| id.number()).collect()
        };
        assert_eq!(chosen(Choice::All), [3, 7, 9]);
        assert_eq!(chosen(Choice::Id("7".into())), [7]);
        assert_eq!(chosen(Choice::Reason("two".into())), [3, 9]);
        for none in [
            Choice::Id("4".into()),
            Choice::Id("x".into()),
            Choice::Reason("three".into()),
        ] {
            assert!(matches.choose(&none).is_empty(), "{none:?}");
        }
    }

    #[test]
    fn a_place_in_one_partition_is_none_in_another() {
        let found = |id: &str| Match {
            id: id.parse().unwrap(),
            reason_hash: 0,
        };
        let matches = Matches(vec![found("0.7-0"), found("2.7-0"), found("2.8-0")]);
        let chosen = |place: &str| -> Vec<String> {
            let chosen = matches.choose(&Choice::Id(place.to_owned()));
            chosen.iter().map(ToString::to_string).collect()
        };
        assert_eq!(chosen("2.7"), ["2.7-0"]);
        assert_eq!(chosen("7"), [""; 0]);
    }

    #[test]
    fn a_list_has_the_newest_messages_of_all_partitions() {
        let search = Search {
            text: String::new(),
            reason: None,
            limit: 2,
        };
        let mut collected = Collected::new(&search);
        for (id, at_ms) in [
            ("0.9-0", 500),
            ("0.8-0", 300),
            ("1.2-0", 900),
            ("1.1-0", 100),
        ] {
            let mut failed = FailedMessage::default();
            failed.at_ms = at_ms;
            collected.add(id.parse().unwrap(), &failed);
        }
        collected.sort();
        let times: Vec<u64> = collected.messages.iter().map(|one| one.at_ms).collect();
        assert_eq!(times, [900, 500]);
        assert_eq!(collected.matches.len(), 4);
    }

    #[test]
    fn the_oldest_search_is_forgotten() {
        let recent = RecentSearches::default();
        let first = recent.remember(Matches(Vec::new()));
        for _ in 1..MAX_REMEMBERED {
            recent.remember(Matches(Vec::new()));
        }
        assert!(recent.recall(&first).is_some());
        recent.remember(Matches(Vec::new()));
        assert!(recent.recall(&first).is_none());
    }
}
