//! The word with which a bench starts its copies: one line on stdin. When stdin ends, the
//! bench is gone, and so is the copy.

use tokio::sync::watch;

/// Hears the word on a thread of its own.
pub(super) fn hear() -> watch::Receiver<Option<String>> {
    let (said, hear) = watch::channel(None);
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lines();
        if let Some(Ok(word)) = lines.next() {
            said.send_replace(Some(word));
        }
        while let Some(Ok(_)) = lines.next() {}
        std::process::exit(1);
    });
    hear
}
