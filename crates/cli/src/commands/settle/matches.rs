//! The failed messages that match a filter.

use std::fmt::Write as _;

use baton::inspect::FailedId;
use baton::{Error, FailedMessage, Inspector};
use baton_print::thousands;
use baton_protocol::text::{self, Excerpt, Shortened};

use crate::failed_filter::FailedFilter;
use crate::failed_walk::FailedWalk;

/// How many of the messages are listed.
const MAX_EXAMPLES: usize = 5;
/// Max characters of a text in the list.
const MAX_CHARS: usize = 60;

/// Messages that match, the oldest first.
pub(super) struct Matches {
    pub(super) ids: Vec<FailedId>,
    /// The first of them, a line each.
    examples: Vec<String>,
}

impl Matches {
    /// Finds them. It keeps no more than the ids and some lines.
    pub(super) async fn find(inspector: &Inspector, filter: &FailedFilter) -> Result<Self, Error> {
        let (mut ids, mut examples) = (Vec::new(), Vec::new());
        let mut walk = FailedWalk::start(inspector).await?;
        while let Some(page) = walk.next_page().await? {
            for failed in page.iter().filter(|failed| filter.matches(&failed.message)) {
                ids.push(failed.id);
                if examples.len() < MAX_EXAMPLES {
                    examples.push(example(&failed.message));
                }
            }
        }
        Ok(Self { ids, examples })
    }

    /// How many there are, in words.
    pub(super) fn count(&self) -> String {
        match self.ids.len() {
            1 => "1 failed message".to_owned(),
            count => format!("{} failed messages", thousands(count as u64)),
        }
    }

    /// How many match, and the first of them.
    pub(super) fn describe(&self) -> String {
        let mut words = match self.ids.len() {
            0 => return "baton: no failed message matches".to_owned(),
            1 => format!("baton: {} matches:", self.count()),
            _ => format!("baton: {} match:", self.count()),
        };
        for example in &self.examples {
            // Writing to a string cannot fail.
            let _ = write!(words, "\n  {example}");
        }
        match self.ids.len() - self.examples.len() {
            0 => {}
            more => {
                let _ = write!(words, "\n  and {} more", thousands(more as u64));
            }
        }
        words
    }
}

/// A message in one line.
fn example(failed: &FailedMessage) -> String {
    let seq = match failed.seq {
        0 => "-".to_owned(),
        seq => format!("#{}", text::number(failed.partition, seq)),
    };
    let at = text::moment(failed.at_ms).unwrap_or_else(|| "-".to_owned());
    let reason = Shortened {
        bytes: failed.reason.as_bytes(),
        max_chars: MAX_CHARS,
    };
    let text = Excerpt {
        bytes: &failed.text,
        max_chars: MAX_CHARS,
    };
    format!("{seq}  {at}  {reason}  {text}")
}
