//! The whole text of a failed message: snapshots have only the beginning.

use std::time::Duration;

use baton::inspect::{FailedCursor, FailedPreview};
use baton::{Error, FailedMessage, Inspector};

/// The search reads so many messages at a time, and so many in all. It begins with the newest,
/// because others may have failed since the snapshot.
const PAGE: u64 = 32;
const MAX_SEARCHED: u64 = 1024;
/// The search gives up after this time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The result of reading the text.
#[derive(Debug)]
pub(crate) enum FullText {
    /// The text.
    Text(Vec<u8>),
    /// The message is no longer among the newest: it was drained or settled, or many others failed
    /// since.
    Gone,
    /// Why it could not be read.
    Trouble(String),
}

/// Reads the text; fails without a connection.
pub(crate) async fn read(inspector: Option<Inspector>, preview: &FailedPreview) -> FullText {
    let Some(inspector) = inspector else {
        return FullText::Trouble("not connected".to_owned());
    };
    match tokio::time::timeout(TIMEOUT, find(&inspector, preview)).await {
        Ok(Ok(Some(text))) => FullText::Text(text),
        Ok(Ok(None)) => FullText::Gone,
        Ok(Err(error)) => FullText::Trouble(error.to_string()),
        Err(_) => FullText::Trouble("no answer".to_owned()),
    }
}

async fn find(inspector: &Inspector, preview: &FailedPreview) -> Result<Option<Vec<u8>>, Error> {
    // The message is among the newest of its partition.
    let partitions = inspector.each_partition();
    let index = preview.partition.unwrap_or_default();
    let Some(inspector) = usize::try_from(index)
        .ok()
        .and_then(|at| partitions.get(at))
    else {
        return Ok(None);
    };
    let (mut next, mut searched) = (Some(FailedCursor::NEWEST), 0);
    while let Some(cursor) = next.filter(|_| searched < MAX_SEARCHED) {
        let page = inspector.failed_messages(cursor, PAGE).await?;
        for failed in page.messages {
            if is_same(&failed.message, preview) {
                return Ok(Some(failed.message.text));
            }
            searched += 1;
        }
        next = page.next;
    }
    Ok(None)
}

/// Whether this is the message of the preview. Bytes that never were a message have no number, so
/// this compares the texts, too.
fn is_same(failed: &FailedMessage, preview: &FailedPreview) -> bool {
    let text = String::from_utf8_lossy(&failed.text);
    (failed.seq, failed.at_ms, &failed.node) == (preview.seq, preview.at_ms, &preview.node)
        && (preview.seq > 0 || text.starts_with(preview.text.trim_end_matches('\u{fffd}')))
}
