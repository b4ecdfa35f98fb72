//! Keeps the connections of a [`Link`](super::Link) up, and says in the log why they are not.
//!
//! A pair of connections has *proven* itself when a call has succeeded on it and it has lived for
//! a second, or when so many calls have succeeded that it was worth its while. A proven pair that
//! breaks is replaced at once. One that was never proven is replaced after a pause that grows each
//! time: a server that lets every client in and then refuses must not be flooded with
//! connections, nor the log with lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::{Backoff, LoggedReasons};
use super::{LinkState, News, Shared, State, Up};
use crate::Error;

/// Pauses between attempts to connect: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Longest pause after a pair that was made and broke before it had proven itself. Shorter than
/// after an attempt that failed: where connections are cut again and again, each new one still
/// gets some work done.
const LONGEST_AFTER_BREAK: Duration = Duration::from_millis(250);
/// How long a pair must live before it is proven. A server closes idle connections after a
/// second at the earliest (its setting `timeout`).
const PROVEN_AFTER: Duration = Duration::from_secs(1);

/// How many successful calls prove a pair that lives for less.
const PROVEN_CALLS: u64 = 16;

pub(super) struct Supervisor<O> {
    shared: Arc<Shared>,
    news: mpsc::UnboundedReceiver<News>,
    observe: O,
    backoff: Backoff,
    logged: LoggedReasons,
    /// Number of the next connection.
    next_id: u64,
    /// Whether the last call about this process's presence was refused by a server that may
    /// accept it later.
    unwilling: bool,
}

impl<O: Fn(LinkState) + Send + 'static> Supervisor<O> {
    pub(super) fn new(
        shared: Arc<Shared>,
        news: mpsc::UnboundedReceiver<News>,
        observe: O,
        next_id: u64,
    ) -> Self {
        Self {
            shared,
            news,
            observe,
            backoff: Backoff::new(BACKOFF.0, BACKOFF.1),
            logged: LoggedReasons::default(),
            next_id,
            unwilling: false,
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            let quiet = self.logged.is_empty() || self.unwilling;
            let proven_at = self.up().map(|up| up.since + PROVEN_AFTER);
            let check_at = proven_at.map(|at| at.max(Instant::now() + BACKOFF.0));
            let news = tokio::select! {
                news = self.news.recv() => news,
                () = sleep_until(check_at.unwrap_or_else(Instant::now)), if !quiet => {
                    if self.up().is_some_and(|up| is_proven(&up)) {
                        self.say_regained();
                    }
                    continue;
                }
            };
            match news {
                None => return,
                Some(News::Broke { id, why, idle }) => {
                    let Some(up) = self.up().filter(|up| up.has(id)) else {
                        continue;
                    };
                    let aged = up.data.since.elapsed() > PROVEN_AFTER;
                    let closed_idle = idle && id == up.data.id && aged;
                    if closed_idle && self.renew_data(&up).await.is_some() {
                        continue;
                    }
                    self.replace(up, why).await;
                }
                Some(News::Unwilling(why)) => {
                    self.unwilling = true;
                    self.say(&why);
                }
                Some(News::Willing) => {
                    self.unwilling = false;
                    self.say_regained();
                }
            }
        }
    }

    fn up(&self) -> Option<Up> {
        match &*self.shared.state.borrow() {
            State::Up(up) => Some(up.clone()),
            State::Down(_) => None,
        }
    }

    fn new_id(&mut self) -> u64 {
        self.next_id += 2;
        self.next_id
    }

    /// Replaces a data connection that the server closed while no call was under way. Servers do
    /// so by their setting `timeout`, which spares subscribers: it is no loss to speak of.
    async fn renew_data(&mut self, up: &Up) -> Option<()> {
        self.set_down("the server closed an idle connection");
        let id = self.new_id();
        let renewed = self.shared.connector.renew(id, up).await.ok()?;
        self.shared.state.send_replace(State::Up(renewed));
        Some(())
    }

    /// Replaces both connections, however long it takes.
    async fn replace(&mut self, broken: Up, why: String) {
        let proven = is_proven(&broken);
        self.unwilling = false;
        self.set_down(&why);
        self.say(&why);
        if proven {
            self.backoff.reset();
        } else {
            sleep(self.backoff.pause().min(LONGEST_AFTER_BREAK)).await;
        }
        // What still works of the old pair stays until the first attempt is over: a node that
        // lost its data connection alone is not absent for a moment, and keeps its lease.
        let mut broken = Some(broken);
        let up = loop {
            let id = self.new_id();
            let attempt = self.shared.connector.reconnect(id).await;
            broken.take();
            match attempt {
                Ok(up) => break up,
                Err(error) => {
                    let why = words(error);
                    self.set_down(&why);
                    self.say(&why);
                }
            }
            sleep(self.backoff.pause()).await;
        };
        self.shared.state.send_replace(State::Up(up));
        if proven {
            self.say_regained();
        }
    }

    fn set_down(&self, why: &str) {
        self.shared.state.send_replace(State::Down(Arc::from(why)));
    }

    fn say(&mut self, why: &str) {
        if self.logged.is_new(why) {
            (self.observe)(LinkState::Lost(why.to_owned()));
        }
    }

    fn say_regained(&mut self) {
        if !self.logged.is_empty() {
            self.logged.clear();
            (self.observe)(LinkState::Regained);
        }
    }
}

fn is_proven(up: &Up) -> bool {
    match up.answered.load(Ordering::Relaxed) {
        0 => false,
        answered => answered >= PROVEN_CALLS || up.since.elapsed() >= PROVEN_AFTER,
    }
}

/// Why there is no connection, without the preamble that a caller's error has.
fn words(error: Error) -> String {
    match error {
        Error::Unavailable(why) | Error::Refused(why) => why,
        error => error.to_string(),
    }
}
