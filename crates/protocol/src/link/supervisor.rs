//! Replaces the connections of a [`Link`](super::Link) when they break, and reports why.
//!
//! A pair of connections is *proven* when a call has succeeded on it and it has lived for a
//! second, or when [`PROVEN_CALLS`] calls have succeeded on it. The supervisor replaces a proven
//! pair at once when it breaks. It replaces an unproven pair after a backoff: a server that accepts
//! every client and then refuses must not be flooded with connections, nor the log with lines.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use super::backoff::Backoff;
use super::logged_reasons::LoggedReasons;
use super::pool::ServerPair;
use super::{ConnectionPair, LinkEvent, LinkState, Shared, State};
use crate::Error;

/// Pauses between attempts to connect: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Max pause after an unproven pair broke. It is shorter than after a failed attempt: where
/// connections are cut again and again, each new pair still gets some work done.
const MAX_PAUSE_AFTER_BREAK: Duration = Duration::from_millis(250);
/// How long a pair must live before it is proven. The shortest time after which a server closes
/// idle connections is a second (its setting `timeout`).
const PROVEN_AFTER: Duration = Duration::from_secs(1);
/// Successful calls that prove a pair which has lived for less.
const PROVEN_CALLS: u64 = 16;

pub(super) struct Supervisor<O> {
    shared: Arc<Shared>,
    events: mpsc::UnboundedReceiver<LinkEvent>,
    observe: O,
    backoff: Backoff,
    logged: LoggedReasons,
    /// The number of the newest pair.
    last_number: u64,
    /// Whether the server did not execute the last call about this process's presence.
    rejecting: bool,
}

impl<O: Fn(LinkState) + Send + 'static> Supervisor<O> {
    pub(super) fn new(
        shared: Arc<Shared>,
        events: mpsc::UnboundedReceiver<LinkEvent>,
        observe: O,
    ) -> Self {
        Self {
            shared,
            events,
            observe,
            backoff: Backoff::new(BACKOFF.0, BACKOFF.1),
            logged: LoggedReasons::default(),
            last_number: 0,
            rejecting: false,
        }
    }

    pub(super) async fn run(mut self) {
        let down = match &*self.shared.state.borrow() {
            State::Down(why) => Some(Arc::clone(why)),
            State::Up(_) => None,
        };
        if let Some(why) = down {
            self.report(&why);
            let pair = self.reconnect(Instant::now(), None).await;
            self.set_up(pair);
        }
        loop {
            let quiet = self.logged.is_empty() || self.rejecting;
            let proven_at = self.pair().map(|pair| pair.since + PROVEN_AFTER);
            let check_at = proven_at.map(|at| at.max(Instant::now() + BACKOFF.0));
            let locator = Arc::clone(&self.shared.connector.locator);
            let event = tokio::select! {
                event = self.events.recv() => event,
                () = locator.moved.notified() => {
                    self.follow().await;
                    continue;
                }
                () = sleep_until(check_at.unwrap_or_else(Instant::now)), if !quiet => {
                    if self.pair().is_some_and(|pair| is_proven(&pair)) {
                        self.report_regained();
                    }
                    continue;
                }
            };
            match event {
                None => return,
                Some(LinkEvent::Broken { id, why, idle }) => {
                    let Some(pair) = self.pair().filter(|pair| pair.server.has(id)) else {
                        continue;
                    };
                    let data = &pair.server.data;
                    let aged = data.since.elapsed() > PROVEN_AFTER;
                    let closed_idle = idle && id == data.id && aged;
                    if closed_idle && self.renew_data(&pair).await {
                        continue;
                    }
                    self.replace(pair, why).await;
                }
                Some(LinkEvent::Moved { number, why }) => {
                    if let Some(pair) = self.pair().filter(|pair| pair.number == number) {
                        self.replace(pair, why).await;
                    }
                }
                Some(LinkEvent::Rejecting(why)) => {
                    self.rejecting = true;
                    self.report(&why);
                }
                Some(LinkEvent::Accepting) => {
                    self.rejecting = false;
                    self.report_regained();
                }
            }
        }
    }

    /// A Sentinel has promoted a server: unless the link leads there, it is replaced.
    async fn follow(&mut self) {
        let locator = &self.shared.connector.locator;
        let Some(pair) = self
            .pair()
            .filter(|pair| !locator.leads_to(&pair.server.found))
        else {
            return;
        };
        // The old server may hang: nothing waits for its answers.
        pair.ended.end();
        self.replace(pair, "the Sentinels promoted another server".to_owned())
            .await;
    }

    /// The connections while the link is up.
    fn pair(&self) -> Option<Arc<ConnectionPair>> {
        match &*self.shared.state.borrow() {
            State::Up(pair) => Some(Arc::clone(pair)),
            State::Down(_) => None,
        }
    }

    /// The link uses these connections from now on.
    fn set_up(&mut self, server: Arc<ServerPair>) {
        self.last_number += 1;
        let pair = ConnectionPair::new(self.last_number, server);
        self.shared.state.send_replace(State::Up(Arc::new(pair)));
    }

    /// Replaces a data connection that the server closed while no call waited. Servers with a
    /// setting `timeout` do so, and spare subscribers: nothing is logged. Returns whether it
    /// succeeded.
    async fn renew_data(&mut self, pair: &ConnectionPair) -> bool {
        self.set_down("the server closed an idle connection");
        let Ok(renewed) = self.shared.connector.renew(&pair.server).await else {
            return false;
        };
        // It is as proven as before, and what blocks on the server goes on.
        let renewed = ConnectionPair {
            server: renewed,
            ..pair.clone()
        };
        self.shared.state.send_replace(State::Up(Arc::new(renewed)));
        true
    }

    /// Replaces both connections; tries until it succeeds.
    async fn replace(&mut self, broken: Arc<ConnectionPair>, why: String) {
        let (proven, lost) = (is_proven(&broken), Instant::now());
        self.rejecting = false;
        self.set_down(&why);
        self.report(&why);
        if proven {
            self.backoff.reset();
        } else {
            sleep(self.backoff.pause().min(MAX_PAUSE_AFTER_BREAK)).await;
        }
        // The old pair stays until the first attempt is over. So a node that lost only its data
        // connection stays present, and keeps its lease.
        let (ended, run_id) = (Arc::clone(&broken.ended), broken.server.info.run_id.clone());
        let pair = self.reconnect(lost, Some(broken)).await;
        if pair.info.run_id != run_id {
            ended.end();
        }
        self.set_up(pair);
        if proven {
            self.report_regained();
        }
    }

    /// Connects; tries until it succeeds. The connections before were lost at `lost`; they stay until the
    /// first attempt is over.
    async fn reconnect(
        &mut self,
        lost: Instant,
        mut broken: Option<Arc<ConnectionPair>>,
    ) -> Arc<ServerPair> {
        loop {
            let connector = &self.shared.connector;
            let attempt = tokio::select! {
                attempt = connector.reconnect() => attempt,
                // The old server may hang: nothing waits for it.
                () = connector.locator.moved.notified() => {
                    self.backoff.reset();
                    continue;
                }
            };
            broken.take();
            match attempt {
                Ok(pair) => return pair,
                Err(error) => {
                    let why = reason(error);
                    self.set_down(&why);
                    self.report(&why);
                }
            }
            let pause = self.backoff.pause();
            let locator = &self.shared.connector.locator;
            let pause = locator.shortened(pause, lost.elapsed());
            tokio::select! {
                () = sleep(pause) => {}
                () = self.shared.connector.locator.moved.notified() => self.backoff.reset(),
            }
        }
    }

    fn set_down(&self, why: &str) {
        self.shared.state.send_replace(State::Down(Arc::from(why)));
    }

    fn report(&mut self, why: &str) {
        if self.logged.is_new(why) {
            (self.observe)(LinkState::Lost(why.to_owned()));
        }
    }

    fn report_regained(&mut self) {
        if !self.logged.is_empty() {
            self.logged.clear();
            (self.observe)(LinkState::Regained);
        }
    }
}

fn is_proven(pair: &ConnectionPair) -> bool {
    match pair.answered.load(Ordering::Relaxed) {
        0 => false,
        answered => answered >= PROVEN_CALLS || pair.since.elapsed() >= PROVEN_AFTER,
    }
}

/// Why there is no connection, without the preamble of the error.
pub(super) fn reason(error: Error) -> String {
    match error {
        Error::Unavailable(why) | Error::Refused(why) => why,
        error => error.to_string(),
    }
}
