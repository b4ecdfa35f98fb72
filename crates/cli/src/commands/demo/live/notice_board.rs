//! What the operator of the fleet tells the view, and whether the user has left it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A title and lines.
pub(super) type Window = (String, Vec<String>);

/// Shared by the view and the operator.
#[derive(Default)]
pub(super) struct NoticeBoard {
    notice: Mutex<Option<String>>,
    window: Mutex<Option<Window>>,
    left: AtomicBool,
}

impl NoticeBoard {
    /// Posts a line about what happened.
    pub(super) fn post(&self, notice: String) {
        *lock(&self.notice) = Some(notice);
    }

    /// The line that was posted last.
    pub(super) fn notice(&self) -> Option<String> {
        lock(&self.notice).clone()
    }

    /// Opens a window in the view.
    pub(super) fn open_window(&self, title: String, lines: Vec<String>) {
        *lock(&self.window) = Some((title, lines));
    }

    /// A window that the view has not opened yet.
    pub(super) fn take_window(&self) -> Option<Window> {
        lock(&self.window).take()
    }

    /// Tells the operator that the user has left the view. This ends all its waits.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Whether the user has left the view.
    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
