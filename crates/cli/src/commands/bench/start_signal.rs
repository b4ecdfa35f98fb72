//! The signal with which a bench starts its copies: one line on stdin. When stdin ends, the bench
//! is gone, and the copy exits.

use tokio::sync::watch;

/// Waits for the line on a thread of its own.
pub(super) fn listen() -> watch::Receiver<Option<String>> {
    let (sender, line) = watch::channel(None);
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lines();
        if let Some(Ok(first)) = lines.next() {
            sender.send_replace(Some(first));
        }
        while let Some(Ok(_)) = lines.next() {}
        std::process::exit(1);
    });
    line
}
