//! The open connections, and which of them the server closes when there are too many.
//!
//! A client that sends its request byte by byte, or does not read its answer, costs the server
//! only a place; but some hundreds of them would take all places. So a connection can lose its
//! place while the server waits for its client. The server always accepts a newcomer. If there is
//! no room, it evicts a connection of the client with the most connections that the server waits
//! for: the one it has waited for longest. A request that arrives whole is safe within
//! milliseconds. Other limits bound the slow work of the server to fewer connections than there are
//! places: event streams, turns at the errors store, wrong tokens.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// All open connections.
pub(crate) struct Connections {
    max: usize,
    open: Mutex<Open>,
    /// Notified when a connection ends, or when the server begins to wait for its client.
    changed: Notify,
}

#[derive(Default)]
struct Open {
    last: u64,
    places: BTreeMap<u64, State>,
}

struct State {
    client: IpAddr,
    /// Since when the server has waited for the client; none while the server is at work.
    waiting: Option<Instant>,
    /// Whether the server waits for the client to read its answer.
    stalled: bool,
    evicted: Arc<Notify>,
}

/// The place of a connection. Dropping it frees the place.
pub(crate) struct Place {
    connections: Arc<Connections>,
    id: u64,
    evicted: Arc<Notify>,
}

impl Connections {
    /// At most `max` places.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Finds a place for a connection from this address. Evicts another connection if it has to.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Arc<Place> {
        loop {
            let changed = self.changed.notified();
            if let Some(place) = self.try_admit(address) {
                return place;
            }
            // The server is at work for every open connection.
            changed.await;
        }
    }

    fn try_admit(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Place>> {
        let mut open = self.lock();
        if open.places.len() >= self.max && !open.evict() {
            return None;
        }
        open.last += 1;
        let id = open.last;
        let evicted = Arc::new(Notify::new());
        open.places.insert(
            id,
            State {
                client: client(address),
                waiting: Some(Instant::now()),
                stalled: false,
                evicted: Arc::clone(&evicted),
            },
        );
        Some(Arc::new(Place {
            connections: Arc::clone(self),
            id,
            evicted,
        }))
    }

    /// Evicts one connection that the server waits for; false if there is none.
    pub(crate) fn evict(&self) -> bool {
        self.lock().evict()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn evict(&mut self) -> bool {
        let mut clients: HashMap<IpAddr, (usize, Instant, u64)> = HashMap::new();
        for (id, state) in &self.places {
            let Some(since) = state.waiting else {
                continue;
            };
            let (count, oldest, victim) = clients.entry(state.client).or_insert((0, since, *id));
            *count += 1;
            if since < *oldest {
                (*oldest, *victim) = (since, *id);
            }
        }
        let busiest = clients
            .into_values()
            .max_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        let Some(state) = busiest.and_then(|(_, _, victim)| self.places.remove(&victim)) else {
            return false;
        };
        state.evicted.notify_one();
        true
    }
}

impl Place {
    /// Resolves when this connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Notes that a whole request has arrived and the server is at work. False if the connection
    /// was evicted before; the server must not begin the request then.
    #[must_use]
    pub(crate) fn at_work(&self) -> bool {
        self.change(|state| (state.waiting, state.stalled) = (None, false))
    }

    /// Notes that the answer is complete and the server waits for the next request.
    pub(crate) fn answered(&self) {
        self.change(|state| (state.waiting, state.stalled) = (Some(Instant::now()), false));
        self.connections.changed.notify_waiters();
    }

    /// Notes that the client has stopped reading its answer, or reads again.
    pub(crate) fn stalled(&self, stalled: bool) {
        let mut began = false;
        self.change(|state| match (stalled, state.waiting) {
            (true, None) => {
                (state.waiting, state.stalled) = (Some(Instant::now()), true);
                began = true;
            }
            (false, Some(_)) if state.stalled => (state.waiting, state.stalled) = (None, false),
            _ => {}
        });
        if began {
            self.connections.changed.notify_waiters();
        }
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> bool {
        let mut open = self.connections.lock();
        open.places.get_mut(&self.id).map(change).is_some()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().places.remove(&self.id);
        self.connections.changed.notify_waiters();
    }
}

/// What counts as one client: an IPv4 address, or the /64 network from which an IPv6 host can choose
/// its address.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = u128::from(v6) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;
    use tokio::time::advance;

    use super::*;

    const ONE: &str = "10.0.0.1";
    const OTHER: &str = "10.0.0.2";

    async fn admit(connections: &Arc<Connections>, address: &str) -> Arc<Place> {
        advance(Duration::from_millis(1)).await;
        connections.admit(address.parse().unwrap()).await
    }

    fn is_evicted(place: &Place) -> bool {
        place.evicted().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_awaited_connection_of_the_busiest_client_is_evicted() {
        let connections = Connections::new(4);
        let alone = admit(&connections, OTHER).await;
        let busy = admit(&connections, ONE).await;
        let first = admit(&connections, ONE).await;
        let second = admit(&connections, ONE).await;
        assert!(busy.at_work());
        let newcomer = admit(&connections, OTHER).await;
        assert!(is_evicted(&first) && !first.at_work());
        let evicted = [&alone, &busy, &second, &newcomer].map(|place| is_evicted(place));
        assert_eq!(evicted, [false; 4]);
        // Now the other client has more connections that the server waits for.
        let _next = admit(&connections, ONE).await;
        assert!(is_evicted(&alone));
    }

    #[tokio::test(start_paused = true)]
    async fn the_server_never_interrupts_work_and_newcomers_wait_for_its_end() {
        let connections = Connections::new(2);
        let (one, other) = (
            admit(&connections, ONE).await,
            admit(&connections, ONE).await,
        );
        assert!(one.at_work() && other.at_work());
        let address = OTHER.parse().unwrap();
        assert!(connections.admit(address).now_or_never().is_none());
        let (newcomer, ()) = tokio::join!(connections.admit(address), async { one.answered() });
        assert!(is_evicted(&one) && !is_evicted(&other));
        // A client that stops reading can be evicted; once it reads again, it cannot.
        assert!(newcomer.at_work());
        other.stalled(true);
        other.stalled(false);
        assert!(connections.admit(address).now_or_never().is_none());
        other.stalled(true);
        assert!(connections.admit(address).now_or_never().is_some());
        assert!(is_evicted(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn a_place_is_free_when_its_connection_ends() {
        let connections = Connections::new(1);
        let only = admit(&connections, ONE).await;
        assert!(only.at_work());
        assert!(!connections.evict());
        drop(only);
        let next = admit(&connections, ONE).await;
        assert!(connections.evict() && is_evicted(&next));
    }

    #[test]
    fn an_ipv6_host_is_one_client_whatever_address_it_chooses() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::3"), of("2001:db8:1:2:ffff::4"));
        assert_ne!(of("2001:db8:1:2::3"), of("2001:db8:1:3::3"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }
}
