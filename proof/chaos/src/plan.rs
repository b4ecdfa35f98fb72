//! The plan of a run: which faults come when. All of it follows from the seed.

use std::time::Duration;

use crate::handlers::HandlerKind;
use crate::rng::Rng;
use crate::sources::SourceKind;
use crate::topology::Topology;

/// How often two faults come at once, in a hundred.
const TWO_AT_ONCE: u64 = 20;
/// How long the fleet works undisturbed between two steps, in ms: at least, and at most.
const CALM_MS: (u64, u64) = (400, 2200);

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table below says in words what each does")]
pub enum Kind {
    KillGenerator,
    KillWorker,
    KillHolder,
    KillAll,
    CrashPoint,
    PauseGenerator,
    PauseWorker,
    PauseAll,
    OperatorPause,
    StopGenerator,
    StopWorker,
    Drain,
    KillDrain,
    KillClients,
    KillSubscribers,
    PauseClients,
    DebugSleep,
    FlushScripts,
    KillServer,
    KillRewrite,
    PauseServer,
    LoseReplies,
    LoseCalls,
    Partition,
    Delay,
    CutReplies,
    CutCalls,
    Refuse,
    Cut,
    LinkDown,
    OneWay,
    MemoryFull,
    LoseStaged,
    ServerClock,
    NodeClock,
    DiskFull,
    LogDiskFull,
    LogStall,
    OutputLimit,
    Password,
    Demote,
    ClockCorrected,
    KillChild,
    HangChild,
    KillSupervisor,
    PushDies,
    PushError,
    PushHangs,
    PushEndless,
    KillSource,
    PauseSource,
    KillMaster,
    HangMaster,
    KillReplica,
    HangReplica,
    KillSentinel,
    HangSentinel,
    Failover,
    ThereAndBack,
    KillMasterAndGenerator,
    HangMasterAndGenerator,
    Lossy,
    LossyAndGenerator,
    KillControlMaster,
    ForgetControl,
    KillOtherMaster,
    MoveSlot,
    ScaleOut,
}

/// What a run consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// Which servers there are.
    pub topology: Topology,
    /// How many partitions the fleet has.
    pub partitions: u32,
    /// What handles the messages.
    pub handler: HandlerKind,
    /// What makes the messages.
    pub source: SourceKind,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            topology: Topology::Single,
            partitions: Topology::Single.default_partitions(),
            handler: HandlerKind::default(),
            source: SourceKind::default(),
        }
    }
}

/// What a run must have for a kind of fault to hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// A group of servers, with Sentinels or as a cluster.
    Group,
    /// These servers.
    Topology(Topology),
    /// A cluster with a master that the fleet does not use.
    UnusedMaster,
    /// A cluster whose masters share the partitions of the fleet.
    SharedFleet,
    /// This handler.
    Handler(HandlerKind),
    /// This source.
    Source(SourceKind),
}

/// The properties of a kind.
#[derive(Debug)]
pub struct Facts {
    /// Which.
    pub kind: Kind,
    /// Its name on the command line.
    pub name: &'static str,
    /// Its name in the report.
    pub words: &'static str,
    /// How often it is in the bag.
    weight: usize,
    /// How long it lasts, in ms: at least, and at most.
    lasts_ms: (u64, u64),
    /// Whether another fault may come at the same time. After a clock has jumped back, deadlines lie a
    /// minute ahead: the messages of a silent worker would come back that late, and the run would
    /// wait. A full disk may end the server at any moment. A fault that locks all nodes out, or
    /// that judges a node's behaviour, is not mixed with other causes.
    with_others: bool,
    /// The servers, the handler or the source that it hits; `None` if it comes with each.
    needs: Option<Needs>,
}

const fn facts(
    kind: Kind,
    name: &'static str,
    words: &'static str,
    weight: usize,
    lasts_ms: (u64, u64),
) -> Facts {
    Facts {
        kind,
        name,
        words,
        weight,
        lasts_ms,
        with_others: true,
        needs: None,
    }
}

const fn alone(facts: Facts) -> Facts {
    Facts {
        with_others: false,
        ..facts
    }
}

const fn of_single(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Topology(Topology::Single)),
        ..facts
    }
}

const fn of_group(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Group),
        ..facts
    }
}

const fn of_sentinels(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Topology(Topology::Sentinel)),
        ..facts
    }
}

const fn of_cluster(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Topology(Topology::Cluster)),
        ..facts
    }
}

const fn of_unused_master(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::UnusedMaster),
        ..facts
    }
}

const fn of_shared_fleet(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::SharedFleet),
        ..facts
    }
}

const fn of_exec(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Handler(HandlerKind::Exec)),
        ..facts
    }
}

const fn of_push(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Handler(HandlerKind::Push)),
        ..facts
    }
}

const fn of_rows(facts: Facts) -> Facts {
    Facts {
        needs: Some(Needs::Source(SourceKind::Rows)),
        ..facts
    }
}

/// Longer than every time to live in the run, by a little and by a lot.
const PAST_TTL: (u64, u64) = (1700, 2600);
const AT_ONCE: (u64, u64) = (0, 0);

/// Every kind.
#[rustfmt::skip]
pub const KINDS: &[Facts] = &[
    facts(Kind::KillGenerator, "kill-generator", "kill -9 the generator", 4, AT_ONCE),
    facts(Kind::KillWorker, "kill-worker", "kill -9 a worker", 2, AT_ONCE),
    facts(Kind::KillHolder, "kill-holder", "kill -9 a worker that holds messages", 4, AT_ONCE),
    facts(Kind::KillAll, "kill-all", "kill -9 every node", 1, AT_ONCE),
    of_single(facts(Kind::CrashPoint, "crash-point", "die at a crash point", 5, AT_ONCE)),
    facts(Kind::PauseGenerator, "pause-generator", "pause the generator", 2, PAST_TTL),
    facts(Kind::PauseWorker, "pause-worker", "pause a worker", 2, PAST_TTL),
    facts(Kind::PauseAll, "pause-all", "pause every node", 1, PAST_TTL),
    of_single(facts(Kind::OperatorPause, "operator-pause", "baton pause and baton resume", 2, (300, 2500))),
    facts(Kind::StopGenerator, "stop-generator", "stop the generator in good order", 1, AT_ONCE),
    facts(Kind::StopWorker, "stop-worker", "stop a worker in good order", 1, AT_ONCE),
    of_single(facts(Kind::Drain, "drain", "getErrors", 3, AT_ONCE)),
    of_single(facts(Kind::KillDrain, "kill-drain", "kill -9 a running getErrors", 2, AT_ONCE)),
    of_single(facts(Kind::KillClients, "kill-clients", "CLIENT KILL TYPE normal", 1, AT_ONCE)),
    of_single(facts(Kind::KillSubscribers, "kill-subscribers", "CLIENT KILL TYPE pubsub", 1, AT_ONCE)),
    of_single(facts(Kind::PauseClients, "pause-clients", "CLIENT PAUSE", 1, (300, 2500))),
    of_single(facts(Kind::DebugSleep, "debug-sleep", "DEBUG SLEEP", 1, (300, 2500))),
    of_single(facts(Kind::FlushScripts, "flush-scripts", "SCRIPT FLUSH", 1, AT_ONCE)),
    of_single(facts(Kind::KillServer, "kill-server", "kill -9 Redis, restart on its data", 3, (100, 3000))),
    of_single(facts(Kind::KillRewrite, "kill-rewrite", "kill -9 Redis while it rewrites its file", 1, (100, 1000))),
    of_single(facts(Kind::PauseServer, "pause-server", "pause Redis", 1, PAST_TTL)),
    of_single(facts(Kind::LoseReplies, "lose-replies", "lose the replies", 1, (300, 2500))),
    of_single(facts(Kind::LoseCalls, "lose-calls", "lose the calls", 1, (300, 2500))),
    of_single(facts(Kind::Partition, "partition", "lose everything on the way", 1, (300, 2500))),
    of_single(facts(Kind::Delay, "delay", "delay everything on the way", 1, (500, 2500))),
    of_single(facts(Kind::CutReplies, "cut-replies", "cut replies in two", 1, (100, 1000))),
    of_single(facts(Kind::CutCalls, "cut-calls", "cut calls in two", 1, (100, 1000))),
    of_single(facts(Kind::Refuse, "refuse", "cut, and refuse connections", 1, (100, 2500))),
    of_single(facts(Kind::Cut, "cut", "cut connections", 1, AT_ONCE)),
    facts(Kind::LinkDown, "link-down", "pull the plug of a node", 1, PAST_TTL),
    facts(Kind::OneWay, "one-way", "a wire that works one way", 1, PAST_TTL),
    of_single(facts(Kind::MemoryFull, "memory-full", "maxmemory reached", 1, (500, 2000))),
    of_single(facts(Kind::LoseStaged, "lose-staged", "staged packs vanish", 1, PAST_TTL)),
    of_single(alone(facts(Kind::ServerClock, "server-clock", "Redis's clock jumps by a minute", 1, (500, 2000)))),
    of_single(alone(facts(Kind::NodeClock, "node-clock", "a node's clock jumps by a minute", 1, (500, 2000)))),
    of_single(alone(facts(Kind::DiskFull, "disk-full", "the disk is full", 1, (500, 2000)))),
    of_single(facts(Kind::LogDiskFull, "log-disk-full", "the disk of a node's log is full", 1, (1000, 3000))),
    of_single(alone(facts(Kind::LogStall, "log-stall", "a node's log is not read", 1, (4000, 6000)))),
    of_single(facts(Kind::OutputLimit, "output-limit", "CONFIG SET client-output-buffer-limit", 1, (500, 2500))),
    of_single(alone(facts(Kind::Password, "password", "the password is changed", 1, (500, 2500)))),
    of_single(alone(facts(Kind::Demote, "demote", "the primary becomes a replica", 1, PAST_TTL))),
    of_single(alone(facts(Kind::ClockCorrected, "clock-corrected", "a day too fast, all die, the clock is right", 1, AT_ONCE))),
    of_exec(facts(Kind::KillChild, "kill-child", "kill -9 one command after the other", 4, (300, 2500))),
    of_exec(facts(Kind::HangChild, "hang-child", "commands hang", 4, (300, 2500))),
    of_exec(alone(facts(Kind::KillSupervisor, "kill-supervisor", "kill -9 the supervisor of commands", 2, AT_ONCE))),
    of_push(facts(Kind::PushDies, "push-dies", "kill -9 the push service, restart it", 4, (100, 3000))),
    of_push(facts(Kind::PushError, "push-500", "the push service answers 500", 2, (300, 2500))),
    of_push(facts(Kind::PushHangs, "push-hangs", "the push service hangs", 2, (300, 2500))),
    of_push(facts(Kind::PushEndless, "push-endless", "the push service sends without end", 2, (300, 2500))),
    of_rows(facts(Kind::KillSource, "kill-source", "kill -9 the source", 4, AT_ONCE)),
    of_rows(facts(Kind::PauseSource, "pause-source", "pause the source", 2, PAST_TTL)),
    of_group(facts(Kind::KillMaster, "kill-master", "kill -9 a master, restart it", 3, (100, 3000))),
    of_group(facts(Kind::HangMaster, "hang-master", "pause a master", 2, PAST_TTL)),
    of_group(facts(Kind::KillReplica, "kill-replica", "kill -9 a replica, restart it", 2, (100, 3000))),
    of_group(facts(Kind::HangReplica, "hang-replica", "pause a replica", 1, PAST_TTL)),
    of_sentinels(facts(Kind::KillSentinel, "kill-sentinel", "kill -9 a Sentinel, restart it", 2, (100, 3000))),
    of_sentinels(facts(Kind::HangSentinel, "hang-sentinel", "pause a Sentinel", 1, PAST_TTL)),
    of_group(facts(Kind::Failover, "failover", "SENTINEL FAILOVER or CLUSTER FAILOVER", 2, AT_ONCE)),
    of_group(facts(Kind::ThereAndBack, "there-and-back", "fail over, and back to the first master", 2, AT_ONCE)),
    of_group(facts(Kind::KillMasterAndGenerator, "kill-both", "kill -9 a master and the generator", 3, (100, 3000))),
    of_group(facts(Kind::HangMasterAndGenerator, "hang-both", "pause a master, kill -9 the generator", 2, PAST_TTL)),
    of_group(facts(Kind::Lossy, "lossy", "a failover that forgets", 4, AT_ONCE)),
    of_group(facts(Kind::LossyAndGenerator, "lossy-both", "a failover that forgets, kill -9 the generator", 3, AT_ONCE)),
    of_shared_fleet(facts(Kind::KillControlMaster, "kill-control", "kill -9 the master of the lease, restart it", 2, (100, 3000))),
    of_shared_fleet(alone(facts(Kind::ForgetControl, "forget-control", "kill -9 every node, the control keys are lost", 1, AT_ONCE))),
    of_unused_master(facts(Kind::KillOtherMaster, "kill-other", "kill -9 a master that the fleet does not use", 2, (100, 3000))),
    of_cluster(facts(Kind::MoveSlot, "move-slot", "slots of the fleet move, and back", 3, (100, 2500))),
    of_cluster(facts(Kind::ScaleOut, "scale-out", "a new master takes slots of the fleet, and gives them back", 2, (500, 2500))),
];

impl Facts {
    /// What it hits, if a run with this setup does not have it.
    pub fn misses(&self, setup: Setup) -> Option<Needs> {
        let has = |needs: &Needs| match needs {
            Needs::Group => setup.topology != Topology::Single,
            Needs::Topology(topology) => setup.topology == *topology,
            Needs::UnusedMaster => setup.topology == Topology::Cluster && setup.partitions == 1,
            Needs::SharedFleet => setup.topology == Topology::Cluster && setup.partitions > 1,
            Needs::Handler(handler) => setup.handler == *handler,
            Needs::Source(source) => setup.source == *source,
        };
        self.needs.filter(|needs| !has(needs))
    }

    /// Whether it hits a group of servers. Of these there is one at a time: without a replica that can be
    /// promoted, a group only waits.
    fn is_of_group(&self) -> bool {
        match self.needs {
            Some(Needs::Group | Needs::UnusedMaster | Needs::SharedFleet) => true,
            Some(Needs::Topology(topology)) => topology != Topology::Single,
            _ => false,
        }
    }

    /// Whether another fault may come at the same time as this one.
    fn mixes_with(&self, other: &Self) -> bool {
        self.kind != other.kind
            && self.with_others
            && other.with_others
            && !(self.is_of_group() && other.is_of_group())
    }
}

impl Kind {
    /// Its properties.
    pub fn facts(self) -> &'static Facts {
        // The table has every kind; a test sees to that.
        KINDS
            .iter()
            .find(|facts| facts.kind == self)
            .unwrap_or(&KINDS[0])
    }

    /// The kind with this name on the command line.
    pub fn named(name: &str) -> Option<Self> {
        KINDS
            .iter()
            .find(|facts| facts.name == name)
            .map(|facts| facts.kind)
    }
}

/// One fault to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What.
    pub kind: Kind,
    /// When, after the step has begun.
    pub after: Duration,
    /// How long until it is lifted.
    pub lasts: Duration,
    /// All further choices, such as the target, follow from this seed.
    pub seed: u64,
}

/// One fault, or two that overlap; the fleet recovers before the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How long the fleet works undisturbed before.
    pub calm: Duration,
    /// The faults.
    pub faults: Vec<Planned>,
}

/// All steps that follow from a seed, without end.
#[derive(Debug, Clone)]
pub struct Plan {
    rng: Rng,
    kinds: Vec<Kind>,
    bag: Vec<Kind>,
}

impl Plan {
    /// The plan of a seed, with the kinds of this setup; of these kinds only, if there are any. The
    /// first fault of a group of servers is a lossy failover, so that even a short run has one.
    pub fn new(seed: u64, setup: Setup, only: &[Kind]) -> Self {
        let wanted = |facts: &&Facts| {
            facts.misses(setup).is_none() && (only.is_empty() || only.contains(&facts.kind))
        };
        let kinds: Vec<Kind> = KINDS
            .iter()
            .filter(wanted)
            .map(|facts| facts.kind)
            .collect();
        let lossy = kinds.iter().filter(|kind| **kind == Kind::Lossy);
        Self {
            rng: Rng::new(seed),
            bag: lossy.copied().collect(),
            kinds,
        }
    }

    /// The next kind, from a shuffled bag: so each kind comes regularly.
    fn draw(&mut self) -> Kind {
        if let Some(kind) = self.bag.pop() {
            return kind;
        }
        let times = |kind: &Kind| std::iter::repeat_n(*kind, kind.facts().weight);
        self.bag = self.kinds.iter().flat_map(times).collect();
        self.rng.shuffle(&mut self.bag);
        self.bag.pop().unwrap_or(Kind::KillGenerator)
    }

    fn planned(&mut self, kind: Kind, after: Duration) -> Planned {
        let (min, max) = kind.facts().lasts_ms;
        Planned {
            kind,
            after,
            lasts: Duration::from_millis(self.rng.between(min, max)),
            seed: self.rng.number(),
        }
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let calm = Duration::from_millis(self.rng.between(CALM_MS.0, CALM_MS.1));
        let kind = self.draw();
        let first = self.planned(kind, Duration::ZERO);
        let mut faults = vec![first];
        if kind.facts().with_others && self.rng.chance(TWO_AT_ONCE) {
            let other = self.draw();
            if kind.facts().mixes_with(other.facts()) {
                // While the first lasts, or right after it.
                let latest = (faults[0].lasts.as_millis() as u64).max(100);
                let after = Duration::from_millis(self.rng.between(0, latest));
                let second = self.planned(other, after);
                faults.push(second);
            } else {
                self.bag.push(other);
            }
        }
        Some(Step { calm, faults })
    }
}

#[cfg(test)]
mod tests;
