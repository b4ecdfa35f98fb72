//! A fleet of several partitions: one [`Store`] for each, and one for the keys that the fleet has once.
//!
//! The lease, the line of standbys and the roster of nodes are the *control* keys. Each partition has a
//! fence, a queue, claims and an errors store of its own, all in one slot. A fleet of one partition has
//! all of it in one place, and then the control store is the store of the partition.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::spares::Spares;
use super::{ClaimedPack, Place, Store, channels, decode};
use crate::bounds::{CLUSTER_PARTITIONS, MAX_PARTITIONS};
use crate::keys::{FleetName, Keys};
use crate::link::{LinkState, LoggedReasons, RingListener, Servers};
use crate::target::Place as TargetPlace;
use crate::{Durability, Error, Range, Setting, Target, new_name};

/// All partitions of a fleet, as one process sees them.
#[derive(Debug, Clone)]
pub struct Partitions {
    control: Store,
    all: Vec<Store>,
    /// Of their number.
    spares: Spares,
    /// Whether no node has stored their number.
    is_new: bool,
}

/// What servers say to a node on its ring channels.
pub struct Rings {
    listener: RingListener,
    /// The key of each partition's queue: that names the partition.
    queues: Vec<String>,
}

/// What a server says to a node with an idle lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ring {
    /// The partition that rings.
    pub partition: usize,
    /// The messages that the server has claimed for this node, if it has; else messages wait in the queue.
    pub handed: Option<Handed>,
}

/// Messages that were claimed for a node in the step that published them, in the slot [`Slot::handed`].
///
/// [`Slot::handed`]: crate::Slot::handed
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handed {
    /// The number of the claim.
    pub number: u64,
    /// The messages.
    pub range: Range,
    /// Their pack, or how [`Store::pack`] finds it.
    pub pack: ClaimedPack,
    /// The server process that claimed them.
    pub run_id: String,
}

impl Rings {
    /// Calls `heard` whenever a server rings for a partition, from now on. It must be quick: a connection waits
    /// for it.
    pub fn listen(self, heard: impl Fn(Ring) + Send + Sync + 'static) {
        let Self { listener, queues } = self;
        listener.listen(move |run_id, text| {
            if let Some(ring) = Ring::read(&queues, run_id, text) {
                heard(ring);
            }
        });
    }
}

impl Ring {
    /// Reads what `ring` or `publish.lua` published; none if another program did. What a server handed
    /// over and this node cannot read is another node's when the claim expires.
    fn read(queues: &[String], run_id: &str, text: &[u8]) -> Option<Self> {
        let mut parts = text.splitn(5, |byte| *byte == b'\n');
        let queue = parts.next()?;
        let is_it = |known: &String| known.as_bytes() == queue;
        let partition = queues.iter().position(is_it)?;
        let mut words = || str::from_utf8(parts.next()?).ok();
        let handed = match (words(), words(), words()) {
            (None, _, _) => None,
            (number, range, born) => Some(Handed {
                number: number?.parse().ok()?,
                range: Range::parse(range?)?,
                pack: ClaimedPack::read(born?, parts.next()?),
                run_id: run_id.to_owned(),
            }),
        };
        Some(Self { partition, handed })
    }
}

impl Partitions {
    /// Connects to all partitions. `node` is the name under which this process is present; `observe` is
    /// called when a connection is lost, and when all are regained. A fleet that is new gets `wanted`
    /// partitions when it joins, see [`Self::decide`]; without a wish, 1, and in a cluster 16.
    pub async fn open(
        target: &Target,
        fleet: &FleetName,
        node: &str,
        wanted: Option<u32>,
        observe: impl Fn(LinkState) + Send + Sync + 'static,
    ) -> Result<(Self, Rings), Error> {
        if let Some(wanted) = wanted {
            check_partitions(target, wanted)?;
        }
        let channels = channels(&Keys::new(fleet), node);
        let servers = Servers::new(target, Some(channels));
        let observer = Arc::new(Observer::new(observe));
        let mut partitions =
            Self::connect(&servers, target, fleet, node, wanted, &observer).await?;
        if is_cluster(target) && partitions.are_several() && partitions.spares.0.is_empty() {
            partitions.spares = Spares::open(&servers, fleet, node).await?;
        }
        let queues = partitions.all.iter().map(|store| store.keys.queue.clone());
        let queues = queues.collect();
        let listener = servers.rings();
        Ok((partitions, Rings { listener, queues }))
    }

    /// Connects to read only, see [`Store::view`].
    pub async fn view(target: &Target, fleet: &FleetName) -> Result<Self, Error> {
        let servers = Servers::new(target, None);
        let observer = Arc::new(Observer::new(|_| {}));
        Self::connect(&servers, target, fleet, &new_name(), None, &observer).await
    }

    async fn connect(
        servers: &Servers,
        target: &Target,
        fleet: &FleetName,
        node: &str,
        wanted: Option<u32>,
        observer: &Arc<Observer>,
    ) -> Result<Self, Error> {
        let keys = Keys::new(fleet);
        let observe = observer.of(0);
        let mut control = Store::at(servers, fleet, node, keys, Place::ONLY, observe).await?;
        let mut stored = control.stored_partitions().await?;
        let (mut default, mut spares) = (1, Spares::default());
        if is_cluster(target) {
            default = CLUSTER_PARTITIONS;
            if stored.is_none() {
                spares = Spares::open(servers, fleet, node).await?;
                stored = spares.partitions().await?;
            }
        }
        let is_new = stored.is_none();
        let count = match (stored, wanted) {
            (Some(stored), Some(wanted)) if stored != wanted => {
                return Err(decode::other_partitions(fleet, stored, wanted));
            }
            (Some(stored), _) => stored,
            (None, wanted) => wanted.unwrap_or(default),
        };
        control.place.count = count;
        if count == 1 {
            return Ok(Self {
                all: vec![control.clone()],
                control,
                spares: Spares::default(),
                is_new,
            });
        }
        servers.share();
        let opened = (0..count).map(async |index| {
            let keys = Keys::of_partition(fleet, index, count);
            let place = Place { index, count };
            let observe = observer.of(index + 1);
            Store::at(servers, fleet, node, keys, place, observe).await
        });
        let all = futures_util::future::try_join_all(opened).await?;
        Ok(Self {
            control,
            all,
            spares,
            is_new,
        })
    }

    /// A client on a connection to a fleet of one partition.
    pub fn only(store: Store) -> Self {
        Self {
            all: vec![store.clone()],
            control: store,
            spares: Spares::default(),
            is_new: false,
        }
    }

    /// The store of the lease and of the nodes. With one partition it is that of the partition, too.
    pub fn control(&self) -> &Store {
        &self.control
    }

    /// The stores of all partitions, in order.
    pub fn all(&self) -> &[Store] {
        &self.all
    }

    /// The stores of the spare keys, which have the number of partitions, too; none outside of a cluster.
    pub fn spares(&self) -> &[Store] {
        &self.spares.0
    }

    /// Whether the fleet has more than one partition.
    pub fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Each store once: those of the partitions, the control store if it is another one, and those of spare keys.
    fn each(&self) -> impl Iterator<Item = &Store> {
        let control = self.are_several().then_some(&self.control);
        control.into_iter().chain(&self.all).chain(self.spares())
    }

    /// Makes sure that a new fleet has the number of partitions that this node takes it to have. False if
    /// another node was faster and decided otherwise: then this one opens them anew.
    pub async fn decide(&self) -> Result<bool, Error> {
        if !self.is_new {
            return Ok(true);
        }
        let count = self.control.partitions();
        match self.control.decide_partitions(count).await {
            Ok(decided) => Ok(decided == Some(count)),
            // The first beat decides: a full server accepts it.
            Err(error) if error.is_transient() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the fleet has decided how many partitions it has: what a client writes into others, no
    /// node will find.
    pub async fn check_decided(&self) -> Result<(), Error> {
        // A new fleet that has several without a wish is the one that a cluster gets.
        if !self.is_new || !self.are_several() {
            return Ok(());
        }
        let (fleet, count) = (self.control.fleet(), self.control.partitions());
        match self.control.stored_partitions().await? {
            Some(stored) if stored == count => Ok(()),
            Some(stored) => Err(decode::other_partitions(fleet, stored, count)),
            None => {
                let problem = format!(
                    "there is no fleet \"{fleet}\" yet: its first node decides how many partitions it has"
                );
                Err(Error::setting(Setting::Partitions, problem))
            }
        }
    }

    /// The same client for the partitions that answer now, and why the others do not, in order. If none
    /// answers, it is the client of all.
    pub async fn within_reach(&self) -> (Self, Vec<(u32, Error)>) {
        if !self.are_several() {
            return (self.clone(), Vec::new());
        }
        // A call about a key: a server answers others also for a slot that it does not serve.
        let asked = self.all.iter().map(Store::errors_len);
        let answers = futures_util::future::join_all(asked).await;
        let (mut reached, mut away) = (self.clone(), Vec::new());
        reached.all.clear();
        for (store, answer) in self.all.iter().zip(answers) {
            match answer {
                Err(error) if error.is_transient() => away.push((store.partition(), error)),
                // Any other error is one that the caller meets with its own call.
                _ => reached.all.push(store.clone()),
            }
        }
        let asked = self.spares().iter().map(Store::stored_partitions);
        let mut answers = futures_util::future::join_all(asked).await.into_iter();
        let answers_now =
            |_: &Store| !matches!(answers.next(), Some(Err(error)) if error.is_transient());
        reached.spares.0.retain(answers_now);
        match reached.all.is_empty() {
            true => (self.clone(), Vec::new()),
            false => (reached, away),
        }
    }

    /// Makes sure that a fleet can run here, see [`Store::preflight`]. Of several partitions, those count
    /// that can be reached: the user has the same rights at all servers of a cluster.
    pub async fn preflight(&self, allow_eviction: bool) -> Result<(), Error> {
        for store in self.each() {
            match store.preflight(allow_eviction).await {
                Err(error) if self.are_several() && error.is_transient() => {}
                checked => checked?,
            }
        }
        Ok(())
    }

    /// Asks for this durability, see [`Store::with_durability`].
    pub async fn with_durability(self, level: Durability) -> Self {
        if self.control.partitions() == 1 {
            let control = self.control.with_durability(level).await;
            return Self::only(control);
        }
        let all = self
            .all
            .into_iter()
            .map(|store| store.with_durability(level));
        Self {
            control: self.control,
            all: futures_util::future::join_all(all).await,
            spares: self.spares,
            is_new: self.is_new,
        }
    }
}

/// Refuses a number of partitions that no fleet can have at this target.
pub fn check_partitions(target: &Target, count: u32) -> Result<(), Error> {
    if !(1..=MAX_PARTITIONS).contains(&count) {
        let problem = format!("a fleet has 1 to {MAX_PARTITIONS} partitions, not {count}");
        return Err(Error::setting(Setting::Partitions, problem));
    }
    match target.place() {
        TargetPlace::Sentinels { .. } if count > 1 => Err(Error::setting(
            Setting::Partitions,
            "a fleet behind Sentinels has one partition: all its data is on one master",
        )),
        _ => Ok(()),
    }
}

fn is_cluster(target: &Target) -> bool {
    matches!(target.place(), TargetPlace::Cluster { .. })
}

/// Reports what happens to the links of one process as if they were one: each reason once, and a regained
/// when all are up.
struct Observer {
    observe: Box<dyn Fn(LinkState) + Send + Sync>,
    lost: Mutex<Lost>,
}

#[derive(Default)]
struct Lost {
    links: HashSet<u32>,
    logged: LoggedReasons,
}

impl Observer {
    fn new(observe: impl Fn(LinkState) + Send + Sync + 'static) -> Self {
        Self {
            observe: Box::new(observe),
            lost: Mutex::default(),
        }
    }

    /// The observer of one link.
    fn of(self: &Arc<Self>, link: u32) -> impl Fn(LinkState) + Send + 'static + use<> {
        let all = Arc::clone(self);
        move |state| all.note(link, state)
    }

    fn note(&self, link: u32, state: LinkState) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = match &state {
            LinkState::Lost(why) => {
                lost.links.insert(link);
                lost.logged.is_new(why)
            }
            LinkState::Regained => {
                lost.links.remove(&link);
                lost.links.is_empty()
            }
        };
        if lost.links.is_empty() {
            lost.logged.clear();
        }
        drop(lost);
        if is_news {
            (self.observe)(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lose_one_server_say_it_once_and_are_regained_together() {
        let (states, seen) = std::sync::mpsc::channel();
        let observer = Arc::new(Observer::new(move |state| states.send(state).unwrap()));
        let (a, b) = (observer.of(1), observer.of(2));
        let lost = |why: &str| LinkState::Lost(why.to_owned());
        for (link, state) in [
            (&a as &dyn Fn(_), lost("x")),
            (&b, lost("x")),
            (&a, lost("y")),
        ] {
            link(state);
        }
        a(LinkState::Regained);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [lost("x"), lost("y")]);
        b(LinkState::Regained);
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), [LinkState::Regained]);
        b(lost("x"));
        assert_eq!(
            seen.try_iter().collect::<Vec<_>>(),
            [lost("x")],
            "news again"
        );
    }
}
