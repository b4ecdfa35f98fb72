//! The keys of the live demo: a press becomes an order, and whoever carries it out answers on
//! a board.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What each key does: a word or two for the view's last line, then the rest.
pub(super) const HELP: [(char, &str); 8] = [
    ('k', "kill generator: with -9; another takes over"),
    ('w', "worker: kill -9 the selected one, else any"),
    ('p', "pause: SIGSTOP the selected node; again, SIGCONT"),
    ('+', "add: start a node"),
    ('-', "stop: end the newest worker in good order"),
    (
        'f',
        "fast: full speed, or back; restarts the nodes one by one",
    ),
    ('r', "Redis: kill it with -9 and start it again on its data"),
    ('g', "errors: getErrors; prints and removes failed messages"),
];

/// Something to do to the fleet. Nodes are those that were selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    KillGenerator,
    KillWorker(Option<String>),
    Pause(Option<String>),
    Start,
    Stop,
    FullSpeed,
    RestartRedis,
    GetErrors,
}

impl Order {
    fn of(key: char, selected: Option<&str>) -> Option<Self> {
        let selected = selected.map(str::to_owned);
        Some(match key {
            'k' => Self::KillGenerator,
            'w' => Self::KillWorker(selected),
            'p' => Self::Pause(selected),
            '+' => Self::Start,
            '-' => Self::Stop,
            'f' => Self::FullSpeed,
            'r' => Self::RestartRedis,
            'g' => Self::GetErrors,
            _ => return None,
        })
    }
}

/// A title and lines.
type Window = (String, Vec<String>);

/// What the view and the one who carries out orders tell each other beside the orders.
#[derive(Default)]
pub(super) struct Board {
    notice: Mutex<Option<String>>,
    window: Mutex<Option<Window>>,
    leaving: AtomicBool,
}

impl Board {
    /// Says what happened, in one line.
    pub(super) fn say(&self, notice: String) {
        *lock(&self.notice) = Some(notice);
    }

    /// Opens a window.
    pub(super) fn show(&self, title: String, lines: Vec<String>) {
        *lock(&self.window) = Some((title, lines));
    }

    /// Ends every wait: the user has left.
    pub(super) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether the user has left.
    pub(super) fn is_left(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The keys, as the view knows them.
pub(super) struct Keys {
    pub(super) orders: SyncSender<Order>,
    pub(super) board: Arc<Board>,
}

impl baton_top::Keys for Keys {
    fn help(&self) -> Vec<(char, &'static str)> {
        HELP.to_vec()
    }

    fn press(&mut self, key: char, selected: Option<&str>) {
        let Some(order) = Order::of(key, selected) else {
            return;
        };
        match self.orders.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.board.say(format!("too much at once: no {key}")),
            Err(TrySendError::Disconnected(_)) => {
                self.board
                    .say("nobody carries out orders any more".to_owned());
            }
        }
    }

    fn notice(&self) -> Option<String> {
        lock(&self.board.notice).clone()
    }

    fn window(&mut self) -> Option<Window> {
        lock(&self.board.window).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_the_help_names_is_an_order_and_no_other() {
        let orders: Vec<char> = (' '..='~')
            .filter(|key| Order::of(*key, None).is_some())
            .collect();
        let mut named = HELP.map(|(key, _)| key);
        named.sort_unstable();
        assert_eq!(orders, named);
    }
}
