//! A failed message in full: readings have only the beginnings of the newest ones.

use std::time::Duration;

use baton::inspect::FailedGlance;
use baton::{Error, FailedMessage, Inspector};

/// Records that are asked for at once, and in all. They are looked for from the end of the
/// store: newer ones may have come since the reading.
const AT_ONCE: u64 = 32;
const MOST: u64 = 1024;
/// Longest wait for all of it.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of reading it.
#[derive(Debug)]
pub(crate) enum Full {
    /// Its text.
    Text(Vec<u8>),
    /// It is not among the newest any more: drained, retried, or overtaken by many others.
    Gone,
    /// Redis did not give it.
    Trouble(String),
}

/// Reads it; without a connection there is nothing to read it with.
pub(crate) async fn read(inspector: Option<Inspector>, glance: &FailedGlance) -> Full {
    let Some(inspector) = inspector else {
        return Full::Trouble("not connected".to_owned());
    };
    match tokio::time::timeout(PATIENCE, find(&inspector, glance)).await {
        Ok(Ok(Some(text))) => Full::Text(text),
        Ok(Ok(None)) => Full::Gone,
        Ok(Err(error)) => Full::Trouble(error.to_string()),
        Err(_) => Full::Trouble("no answer".to_owned()),
    }
}

async fn find(inspector: &Inspector, glance: &FailedGlance) -> Result<Option<Vec<u8>>, Error> {
    let (mut before, mut looked) = (None, 0);
    while looked < MOST {
        let page = inspector.failed_messages(before, AT_ONCE).await?;
        for failed in page.messages {
            if is_same(&failed.message, glance) {
                return Ok(Some(failed.message.text));
            }
            looked += 1;
        }
        if page.next.is_none() {
            break;
        }
        before = page.next;
    }
    Ok(None)
}

/// Whether this is what the glance saw the beginning of. Bytes that never were a message have
/// no number, so the texts are compared too.
fn is_same(failed: &FailedMessage, glance: &FailedGlance) -> bool {
    let text = String::from_utf8_lossy(&failed.text);
    (failed.seq, failed.at_ms, &failed.node) == (glance.seq, glance.at_ms, &glance.node)
        && (glance.seq > 0 || text.starts_with(glance.text.trim_end_matches('\u{fffd}')))
}
