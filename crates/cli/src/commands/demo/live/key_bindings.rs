//! The keys of the live demo: each press becomes an order for the operator.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};

use super::notice_board::{NoticeBoard, Window};

/// What each key does: a word or two for the view's last line, then the whole sentence.
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

/// An order for the operator. A name is that of the node that the user selected.
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

/// Sends orders to the operator, and passes its notices to the view.
pub(super) struct KeyBindings {
    pub(super) orders: SyncSender<Order>,
    pub(super) board: Arc<NoticeBoard>,
}

impl baton_top::Keys for KeyBindings {
    fn help(&self) -> Vec<(char, &'static str)> {
        HELP.to_vec()
    }

    fn press(&mut self, key: char, selected: Option<&str>) {
        let Some(order) = Order::of(key, selected) else {
            return;
        };
        match self.orders.try_send(order) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.board.post(format!("too much at once: no {key}")),
            Err(TrySendError::Disconnected(_)) => {
                self.board.post("the fleet's operator has ended".to_owned());
            }
        }
    }

    fn notice(&self) -> Option<String> {
        self.board.notice()
    }

    fn window(&mut self) -> Option<Window> {
        self.board.take_window()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_help_is_an_order_and_no_other_key_is() {
        let orders: Vec<char> = (' '..='~')
            .filter(|key| Order::of(*key, None).is_some())
            .collect();
        let mut named = HELP.map(|(key, _)| key);
        named.sort_unstable();
        assert_eq!(orders, named);
    }
}
