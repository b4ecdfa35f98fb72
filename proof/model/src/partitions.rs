//! A fleet with two partitions, explored.
//!
//! The lease is in one place, and each partition has its own fence and its own numbers, on a server
//! of its own. A new generator seals all partitions before it publishes to any; its source has one
//! position for the whole fleet. [`step`](crate::step) does what each place does. What only a fleet
//! with partitions has is here: the order of the seals, the choice of the position, and the change
//! from one partition to another, also from one that does not answer. Workers and drains are left
//! out: one partition shows them.

mod actions;
mod checks;
mod control;
mod events;
mod flaw;
mod history;
mod liveness;
mod opening;
mod parking;
mod partition;
pub mod property;
mod reign;
mod replicas;
mod request;
mod scenario;

pub use actions::Action;
pub use checks::Explored;
pub use flaw::Flaw;
pub use scenario::{Faults, Scenario, large, small, unconfirmed, with};

use stateright::{HasDiscoveries, Model};

use crate::call::{Call, Reply};
use crate::explore::{Report, report_of, source};
use crate::state::Node;
use control::Control;
use events::Events;
use history::History;
use partition::Partition;
use reign::{Kept, Reign};
use replicas::Replicas;
use request::{Request, SentCall};

/// How many partitions the fleet has.
const PARTITIONS: usize = 2;

/// Every flaw shows within fewer steps than these.
const MAX_FLAWED_STATES: usize = 2_000_000;

/// One node as a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Client {
    dead: bool,
    /// The epoch that its next lease must exceed.
    above: u64,
    /// Its reign, if it takes itself for the generator.
    reign: Option<Reign>,
    /// What its last reign did not get accepted: if no other generator reigns in between, it sends it again.
    kept: Option<Kept>,
}

/// The control keys, the partitions, the nodes, and the calls between them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fleet {
    control: Control,
    partitions: [Partition; PARTITIONS],
    /// What a failover of a partition would bring back; none if there will be none.
    replicas: Option<Replicas>,
    /// Whether nodes believe an answer only when the replica has what it stands for.
    confirms: bool,
    /// Whether partitions forget: only then it matters which numbers the nodes know.
    may_forget: bool,
    nodes: Vec<Client>,
    /// Calls on their way, sorted: they may arrive in any order.
    wire: Vec<SentCall>,
    history: History,
    flaw: Option<Flaw>,
    /// The faults that may still happen.
    faults: Faults,
    /// What the last action brought about.
    events: Events,
}

impl Fleet {
    fn new(scenario: &Scenario) -> Self {
        Self {
            control: Control::new(scenario.nodes),
            partitions: Default::default(),
            replicas: (scenario.faults.failovers > 0).then(Replicas::default),
            confirms: scenario.confirms,
            may_forget: scenario.faults.failovers > 0,
            nodes: vec![Client::default(); scenario.nodes.into()],
            wire: Vec::new(),
            history: History::default(),
            flaw: scenario.flaw,
            faults: scenario.faults,
            events: Events::default(),
        }
    }

    fn client(&mut self, node: Node) -> &mut Client {
        &mut self.nodes[node as usize]
    }

    /// Sends a call to its partition.
    fn send(&mut self, sent: SentCall) {
        let at = self.wire.partition_point(|other| *other < sent);
        self.wire.insert(at, sent);
    }

    /// A call arrives; `heard` says whether its answer does.
    fn arrive(&mut self, at: usize, heard: bool) {
        let sent = self.wire.remove(at);
        let reply = self.execute(&sent);
        if heard && !self.client(sent.by).dead {
            self.confirm(&sent, &reply);
        }
        self.hear(&sent, heard.then_some(&reply));
    }

    /// A partition executes a call, and the history notes what it did.
    fn execute(&mut self, sent: &SentCall) -> Reply {
        self.events |= self.event_before(sent);
        let partition = &mut self.partitions[sent.to];
        let reply = partition.execute(sent.by, &sent.request, self.flaw);
        if reply == Reply::Published {
            self.note_publish(sent);
        }
        self.events |= self.event_of(sent, &reply);
        reply
    }

    fn note_publish(&mut self, sent: &SentCall) {
        let Request::Script(call, _) = &sent.request else {
            return;
        };
        if let Call::Publish {
            node,
            epoch,
            first,
            texts,
            ..
        } = call
        {
            self.history.note_publish(*node, *epoch);
            for (seq, text) in (*first..).zip(texts) {
                let row = source::row_of(*text);
                self.history.note_row(sent.to, seq, row);
            }
        }
    }

    /// A node gets the answer to its call; none if the answer is lost, or late.
    fn hear(&mut self, sent: &SentCall, reply: Option<&Reply>) {
        if self.client(sent.by).dead {
            return;
        }
        match &sent.request {
            Request::Script(Call::Seal { epoch, .. }, _) => {
                self.hear_seal(sent.by, sent.to, *epoch, reply);
            }
            Request::Script(..) => self.hear_publish(sent, reply),
            Request::Park { epoch, parcels } => self.hear_park(sent, parcels, *epoch, reply),
            Request::Unpark { .. } => {}
        }
    }

    /// How many rows the partitions have.
    fn rows_published(&self) -> u64 {
        self.partitions.iter().map(Partition::last).sum()
    }
}

/// Explores a scenario in full.
pub fn explore(scenario: Scenario) -> Report {
    let name = scenario.name;
    report_of(name, Explored::new(scenario).checker())
}

/// Explores a scenario until these properties are broken: those that must notice its flaw. Gives up
/// where a flaw leads to more and more states.
pub fn explore_until(scenario: Scenario, noticed: &[&'static str]) -> Report {
    let name = scenario.name;
    let noticed = HasDiscoveries::AllOf(noticed.iter().copied().collect());
    let checker = Explored::new(scenario).checker();
    let checker = checker.finish_when(noticed);
    report_of(name, checker.target_state_count(MAX_FLAWED_STATES))
}
