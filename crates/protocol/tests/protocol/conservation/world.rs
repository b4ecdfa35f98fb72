//! The actors, and what each of them knows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use baton::Effects;
use baton_protocol::{
    Claim, ClaimedPack, Commit, CommitCall, Delay, ErrorsClaim, ErrorsCommit, Extend, GiveBack,
    Handed, Note, Pack, Publish, PublishCall, Range, Seal, Store,
};

use super::Step;
use crate::support::{Fleet, Lane, Listener, commit_call, failed, pack, publish_call, text_of};

/// So few that a publish is sometimes refused.
const MAX_PENDING: u64 = 15;
/// So few that the errors store is sometimes full.
const MAX_ERRORS: u64 = 5;

struct Generator {
    store: Store,
    epoch: u64,
    next: u64,
    last: Option<(u64, u64, u64)>,
}

/// A commit that was sent, and may be repeated.
#[derive(Clone)]
pub(super) struct Sent {
    number: u64,
    pub(super) ended: RangeInclusive<u64>,
    records: Vec<Vec<u8>>,
    delayed: Vec<Delay>,
    pub(super) effects: Effects,
}

struct Worker {
    lane: Lane,
    number: u64,
    holds: Option<(u64, RangeInclusive<u64>)>,
    held: Option<(u64, RangeInclusive<u64>)>,
    sent: Option<Sent>,
}

pub(super) struct World {
    pub(super) fleet: Fleet,
    generators: Vec<Generator>,
    listeners: Vec<Listener>,
    /// The lane of each listener, and then the slot of each in which it gets messages at once.
    workers: Vec<Worker>,
    pub(super) drain: Lane,
    drain_number: u64,
    drain_holds: Vec<Vec<u8>>,
    drain_sent: Option<(u64, u64)>,
    /// Records that a drain has printed.
    pub(super) drained: Vec<Vec<u8>>,
    epoch: u64,
    /// The pack in which a worker last found a message.
    packs: BTreeMap<u64, u64>,
    pub(super) vandalized: u64,
    pub(super) seen: BTreeSet<&'static str>,
}

impl World {
    pub(super) async fn new() -> Self {
        let fleet = Fleet::new().await;
        let mut generators = Vec::new();
        for name in ["g0", "g1"] {
            generators.push(Generator {
                store: fleet.node(name).await,
                epoch: 0,
                next: 1,
                last: None,
            });
        }
        let mut listeners = Vec::new();
        for name in ["w0", "w1", "w2"] {
            listeners.push(fleet.listener(name).await);
        }
        let lanes = listeners.iter().map(|it| it.lane.sibling(0));
        let lanes = lanes.chain(listeners.iter().map(Listener::handed_lane));
        let worker = |lane| Worker {
            lane,
            number: 0,
            holds: None,
            held: None,
            sent: None,
        };
        let workers = lanes.map(worker).collect();
        let mut world = Self {
            drain: fleet.lane("d").await,
            fleet,
            generators,
            listeners,
            workers,
            drain_number: 0,
            drain_holds: Vec::new(),
            drain_sent: None,
            drained: Vec::new(),
            epoch: 0,
            packs: BTreeMap::new(),
            vandalized: 0,
            seen: BTreeSet::new(),
        };
        world.take(&Step::TakeOver(0)).await;
        world
    }

    pub(super) async fn take(&mut self, step: &Step) {
        match *step {
            Step::TakeOver(g) => {
                self.epoch += 1;
                self.seal(g, self.epoch).await;
            }
            Step::SealAgain(g) => self.seal(g, self.generators[g].epoch).await,
            Step::SealAsTwin(g) => self.seal(g, self.generators[1 - g].epoch).await,
            Step::Publish(g, count) => {
                let it = &self.generators[g];
                self.publish(g, (it.epoch, it.next, count)).await;
            }
            Step::PublishAgain(g) => {
                if let Some(last) = self.generators[g].last {
                    self.publish(g, last).await;
                }
            }
            Step::PublishAhead(g) => {
                let it = &self.generators[g];
                self.publish(g, (it.epoch, it.next + 1, 1)).await;
            }
            Step::Claim(l, want) => self.claim(l, self.workers[l].number + 1, want).await,
            Step::ClaimAgain(l) => self.claim(l, self.workers[l].number, 3).await,
            Step::Commit(l, most, failures, delays) => {
                self.commit(l, most, failures, delays).await;
            }
            Step::CommitAgain(l) => {
                if let Some(sent) = self.workers[l].sent.clone() {
                    let _ = self.send_commit(l, sent).await;
                }
            }
            Step::CommitOld(l) => {
                if let Some((number, ended)) = self.workers[l].held.clone() {
                    let sent = self.outcomes(number, ended, 0, 0);
                    let _ = self.send_commit(l, sent).await;
                }
            }
            Step::Extend(l) => {
                let worker = &self.workers[l];
                self.seen
                    .insert(match worker.lane.extend(worker.number).await {
                        Extend::Held => "extend held",
                        Extend::Lost => "extend lost",
                    });
            }
            Step::GiveBack(l) => {
                let worker = &mut self.workers[l];
                self.seen
                    .insert(match worker.lane.give_back(worker.number).await {
                        GiveBack::Ok => "give_back ok",
                        GiveBack::Lost => "give_back lost",
                    });
                worker.held = worker.holds.take();
            }
            Step::Keep(l, behind) => self.keep(l, behind).await,
            Step::Stall(who) => self.stall(who).await,
            Step::Reclaim => self.reclaim().await,
            Step::Crash(who) => {
                self.stall(who).await;
                self.reclaim().await;
            }
            Step::DrainClaim(most) => self.drain_claim(most).await,
            Step::DrainCommit(printed) => self.drain_commit(self.drain_number, printed).await,
            Step::DrainCommitAgain => {
                if let Some((number, printed)) = self.drain_sent {
                    self.drain_commit(number, printed).await;
                }
            }
            Step::Vandalize => {
                self.vandalized += 1;
                let queue = &self.fleet.keys.queue;
                let _: () = self.fleet.raw(&["RPUSH", queue, "garbage"]).await;
            }
        }
    }

    async fn seal(&mut self, g: usize, epoch: u64) {
        let generator = &mut self.generators[g];
        self.seen
            .insert(match generator.store.seal(epoch).await.unwrap() {
                Seal::Sealed { last, .. } => {
                    generator.epoch = epoch;
                    generator.next = last + 1;
                    "seal sealed"
                }
                Seal::Fenced { .. } => "seal fenced",
            });
    }

    async fn publish(&mut self, g: usize, what: (u64, u64, u64)) {
        let generator = &mut self.generators[g];
        let (epoch, first, count) = what;
        let pack = pack(first, count);
        let call = PublishCall {
            epoch,
            max_pending: MAX_PENDING,
            digest: None,
            ..publish_call(first, count, &pack)
        };
        let answer = generator.store.publish(call).await.unwrap();
        let is_written = answer.is_written();
        self.seen.insert(match answer {
            Publish::Ok { .. } => {
                generator.last = Some(what);
                generator.next = first + count;
                "publish ok"
            }
            Publish::Already { .. } => "publish already",
            Publish::Gap { last } => {
                generator.next = last + 1;
                "publish gap"
            }
            Publish::Fenced { .. } => "publish fenced",
            Publish::Full { .. } => "publish full",
            Publish::Paused => "publish paused",
            Publish::Missing => "publish missing",
        });
        if is_written {
            self.hear().await;
        }
    }

    /// The workers get the messages that a publish has claimed for them.
    async fn hear(&mut self) {
        for l in 0..self.listeners.len() {
            let heard = self.listeners[l].heard(&self.fleet).await;
            let slot = self.listeners.len() + l;
            for Handed {
                number,
                range,
                pack,
                ..
            } in heard.into_iter().filter_map(|ring| ring.handed)
            {
                assert_eq!(range.returns, 0);
                self.seen.insert(match range.size() == range.count {
                    true => "handed whole",
                    false => "handed part",
                });
                self.hold(slot, number, range, &pack);
            }
        }
    }

    /// A worker gets messages.
    fn hold(&mut self, slot: usize, number: u64, range: Range, pack: &ClaimedPack) {
        let ClaimedPack::Sent(pack) = pack else {
            panic!("a small pack was not sent");
        };
        let pack = Pack::parse(pack).unwrap();
        for seq in range.first..=range.last {
            let text = text_of(&range, &pack, seq);
            assert_eq!(text, format!("m{seq}").as_bytes());
            self.packs.insert(seq, range.pack);
        }
        let worker = &mut self.workers[slot];
        worker.held = worker.holds.take().or(worker.held.take());
        worker.number = number;
        worker.holds = Some((number, range.first..=range.last));
    }

    async fn claim(&mut self, l: usize, number: u64, want: u64) {
        let answer = match self.workers[l].lane.claim(number, want).await {
            Claim::Claimed { range, pack } => {
                self.hold(l, number, range, &pack);
                match range.returns {
                    0 => {}
                    1 => assert!(range.size() <= 16),
                    _ => {
                        assert_eq!(range.size(), 1);
                        self.seen.insert("claim alone");
                    }
                }
                "claim claimed"
            }
            Claim::Empty => "claim empty",
            Claim::Paused => "claim paused",
            Claim::Stale => {
                self.workers[l].number = number;
                "claim stale"
            }
            Claim::Held { .. } => "claim held",
        };
        self.seen.insert(answer);
    }

    /// The contents of a commit: a record for each message that failed, a delay for each that is to be
    /// tried again, and an effect for each that ended well.
    pub(super) fn outcomes(
        &self,
        number: u64,
        ended: RangeInclusive<u64>,
        failures: u8,
        delays: u8,
    ) -> Sent {
        let (mut records, mut effects) = (Vec::new(), Effects::default());
        let mut delayed = Vec::new();
        for (place, seq) in ended.clone().enumerate() {
            if place < 8 && failures & (1 << place) != 0 {
                records.push(failed(seq, format!("m{seq}")));
            } else if place < 8 && delays & (1 << place) != 0 {
                delayed.push(self.delay(seq));
            } else {
                effects.rpush(self.fleet.app("done"), seq.to_string());
            }
        }
        Sent {
            number,
            ended,
            records,
            delayed,
            effects,
        }
    }

    /// A message that is due again at once.
    fn delay(&self, seq: u64) -> Delay {
        Delay {
            seq,
            delay: Duration::ZERO,
            note: Note::default().encode(),
            pack: match self.packs.get(&seq) == Some(&seq) {
                true => Vec::new(),
                false => pack(seq, 1),
            },
        }
    }

    /// A worker keeps the first messages of its claim.
    async fn keep(&mut self, l: usize, behind: u64) {
        let worker = &mut self.workers[l];
        let Some((number, held)) = worker.holds.clone() else {
            return;
        };
        let last = held.start() + behind;
        let lane = &worker.lane;
        let kept = lane.store.give_back_after(&lane.slot, number, last).await;
        self.seen.insert(match kept.unwrap() {
            GiveBack::Ok => {
                worker.holds = Some((number, *held.start()..=last));
                "keep ok"
            }
            GiveBack::Lost => "keep lost",
        });
    }

    async fn commit(&mut self, l: usize, most: u64, failures: u8, delays: u8) {
        let Some((number, held)) = self.workers[l].holds.clone() else {
            return;
        };
        let (first, last) = (*held.start(), *held.end());
        let end = last.min(first + most - 1);
        let sent = self.outcomes(number, first..=end, failures, delays);
        let answer = self.send_commit(l, sent.clone()).await;
        let worker = &mut self.workers[l];
        match answer {
            Commit::Done | Commit::Already => {
                if end < last {
                    self.seen.insert("commit part");
                }
                if !sent.delayed.is_empty() {
                    self.seen.insert("commit delayed");
                }
                worker.sent = Some(sent);
                worker.held = Some((number, first..=end));
                worker.holds = (end < last).then_some((number, end + 1..=last));
            }
            Commit::Lost => worker.held = worker.holds.take(),
            Commit::Full { .. } | Commit::Refused { .. } => {}
        }
    }

    async fn send_commit(&mut self, l: usize, sent: Sent) -> Commit {
        let lane = &self.workers[l].lane;
        let outcomes = CommitCall {
            effects: &sent.effects,
            delayed: &sent.delayed,
            max_errors: MAX_ERRORS,
            ..commit_call(sent.ended.clone(), &sent.records)
        };
        let commit = lane.store.commit(&lane.slot, sent.number, outcomes);
        let answer = commit.await.unwrap();
        self.seen.insert(match &answer {
            Commit::Done => "commit done",
            Commit::Already => "commit already",
            Commit::Lost => "commit lost",
            Commit::Full { .. } => "commit full",
            Commit::Refused { reason } => panic!("{reason}"),
        });
        answer
    }

    async fn stall(&self, who: usize) {
        let slot = match self.workers.get(who) {
            Some(worker) => worker.lane.slot.name(),
            None => self.drain.slot.name(),
        };
        let deadlines = &self.fleet.keys.deadlines;
        let _: () = self.fleet.raw(&["ZADD", deadlines, "XX", "1", slot]).await;
    }

    async fn reclaim(&mut self) {
        let reclaimed = self.drain.store.reclaim().await.unwrap();
        // The workers of this test never die, so it writes the suspects of dead ones.
        let run = self.fleet.run_id().await;
        self.fleet
            .rewrite_suspects(|words| {
                let deaths: u64 = words.get(4)?.parse().ok()?;
                let names: Vec<String> = (1..=deaths).map(|death| format!("d{death}")).collect();
                (deaths > 0).then(|| format!("1 {run} {}", names.join(",")))
            })
            .await;
        if reclaimed.messages > 0 {
            self.seen.insert("reclaim messages");
        }
        if reclaimed.records > 0 {
            self.seen.insert("reclaim records");
        }
        if reclaimed.woken > 0 {
            self.seen.insert("reclaim woken");
        }
    }

    async fn drain_claim(&mut self, most: u64) {
        let number = self.drain_number + 1;
        self.seen
            .insert(match self.drain.drain(number, most, 1 << 20).await {
                ErrorsClaim::Claimed(ids) => {
                    self.drain_number = number;
                    let (failures, read) = self.drain.store.errors_read(&ids).await.unwrap();
                    assert_eq!((failures.len(), read), (ids.len(), ids.len()));
                    let records = failures.into_iter().map(|failure| failure.record);
                    self.drain_holds = records.collect();
                    "drain claimed"
                }
                ErrorsClaim::Again => "drain again",
                ErrorsClaim::Empty => "drain empty",
                ErrorsClaim::Stale => "drain stale",
            });
    }

    async fn drain_commit(&mut self, number: u64, printed: u64) {
        let (store, slot) = (&self.drain.store, &self.drain.slot);
        let commit = store.errors_commit(slot, number, printed).await.unwrap();
        self.seen.insert(match commit {
            ErrorsCommit::Done => {
                let printed = (printed as usize).min(self.drain_holds.len());
                self.drained.extend(self.drain_holds.drain(..printed));
                self.drain_sent = Some((number, printed as u64));
                "drain done"
            }
            ErrorsCommit::Already => "drain already",
            ErrorsCommit::Lost => "drain lost",
        });
    }
}
