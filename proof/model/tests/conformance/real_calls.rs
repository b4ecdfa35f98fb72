//! Makes the model's calls through the protocol's typed functions, and translates the answers.

use std::time::Duration;

use baton::Effects;
use baton_model::call::{self, Call, Effect, Parking, Reply, Staging};
use baton_model::state::{Ms, Node, Paused};
use baton_protocol::{
    Beat, BeatCall, Census, Claim, ClaimCall, ClaimedPack, Commit, CommitCall, Delay, ErrorsClaim,
    ErrorsCommit, Extend, Failure, GiveBack, Parcel, Park, Part, Publish, PublishCall, Reclaimed,
    Seal, Settle, Settled, Store, Wanted,
};

use crate::encoding;
use crate::real_fleet::{ABOUT, RealFleet, SequenceError};

/// Max bytes of records that a drain claims: never fewer than there are.
const DRAIN_BYTES: u64 = 1 << 30;

impl RealFleet {
    /// Calls a script through the connection of a node that is present.
    pub(crate) async fn call(&self, by: Node, call: &Call) -> Result<Reply, SequenceError> {
        let store = self.store(by)?;
        let ttl = |ms: Ms| Duration::from_millis(ms as u64);
        Ok(match call {
            Call::Beat {
                ttl: lease,
                above,
                candidate,
                known,
                ..
            } => beat(
                store
                    .beat(BeatCall {
                        lease_ttl: ttl(*lease),
                        about: ABOUT,
                        above: *above,
                        is_candidate: *candidate,
                        known: *known,
                    })
                    .await?,
            )?,
            Call::Leave { .. } => Reply::Left {
                resigned: store.leave().await?,
            },
            Call::Free => Reply::Freed {
                holder: match store.free().await? {
                    Some(holder) => Some(node_of(&holder)?),
                    None => None,
                },
            },
            Call::Seal { epoch, .. } => match store.seal(*epoch).await? {
                Seal::Sealed {
                    last,
                    cursor,
                    known,
                    made: _,
                } => Reply::Sealed {
                    last,
                    cursor: cursor_of(&cursor)?,
                    known,
                },
                Seal::Fenced { node, epoch } => fenced(&node, epoch)?,
            },
            Call::Publish { .. } => publish(store, call).await?,
            Call::Void {
                epoch,
                first,
                last,
                audited,
                ..
            } => published(store.void(*epoch, *first, *last, *audited).await?)?,
            Call::Park { epoch, parking, .. } => park(store, *epoch, parking).await?,
            Call::Claim {
                slot,
                number,
                want,
                ttl: hold,
                alone,
                sleepers,
                ..
            } => {
                let what = ClaimCall {
                    slot: &encoding::slot(*slot),
                    number: *number,
                    want: *want,
                    ttl: ttl(*hold),
                    alone: *alone,
                };
                let answer = match sleepers {
                    Some(count) => store.claim_awake(what, usize::from(*count)).await?,
                    None => store.claim(what).await?,
                };
                claim(store, answer).await?
            }
            Call::Extend { ttl: hold, claims } => {
                let claims = claims
                    .iter()
                    .map(|(slot, number)| (encoding::slot(*slot), *number));
                let claims: Vec<_> = claims.collect();
                let held = store.extend(&claims, ttl(*hold)).await?;
                Reply::Extended(held.iter().map(|held| *held == Extend::Held).collect())
            }
            Call::Commit { .. } => self.commit(store, call).await?,
            Call::GiveBack {
                slot,
                number,
                keep,
                at_end,
            } => {
                let slot = encoding::slot(*slot);
                let answer = match keep {
                    Some(keep) => store.give_back_after(&slot, *number, *keep).await?,
                    None if *at_end => store.give_back_last(&slot, *number).await?,
                    None => store.give_back(&slot, *number).await?,
                };
                match answer {
                    GiveBack::Ok => Reply::GivenBack,
                    GiveBack::Lost => Reply::Lost,
                }
            }
            Call::Reclaim { run_id: 0, .. } => reclaimed(store.reclaim_absent().await?)?,
            Call::Reclaim { .. } => reclaimed(store.reclaim().await?)?,
            Call::ErrorsClaim { .. } => errors_claim(store, call).await?,
            Call::ErrorsCommit {
                slot,
                number,
                removed,
            } => {
                let slot = encoding::slot(*slot);
                match store.errors_commit(&slot, *number, *removed).await? {
                    ErrorsCommit::Done => Reply::Done,
                    ErrorsCommit::Already => Reply::Already,
                    ErrorsCommit::Lost => Reply::Lost,
                }
            }
            Call::Settle { retry, records } => settle(store, *retry, records).await?,
            Call::Pause {
                resume,
                generator,
                workers,
            } => {
                let parts = [(Part::Generator, generator), (Part::Workers, workers)];
                let parts = parts.into_iter().filter(|(_, is_meant)| **is_meant);
                let parts: Vec<Part> = parts.map(|(part, _)| part).collect();
                let before = match resume {
                    true => store.resume(&parts).await?,
                    false => store.pause(&parts).await?,
                };
                Reply::WasPaused(paused(before))
            }
            Call::Ring => {
                store.ring_on().await?;
                Reply::Rung
            }
            Call::Tell { known } => Reply::Told {
                last: store.tell_known(*known).await?,
            },
            Call::Census => counted(&store.census().await?)?,
        })
    }

    async fn commit(&self, store: &Store, call: &Call) -> Result<Reply, SequenceError> {
        let Call::Commit {
            slot,
            number,
            first,
            last,
            failed,
            delayed,
            max_errors,
            effect,
            audited,
        } = call
        else {
            return Err(strange(call));
        };
        let failed: Vec<Vec<u8>> = failed.iter().map(encoding::record).collect();
        // The script does not need the pack of a message that stays in its own, and ignores it.
        let delayed: Vec<Delay> = delayed
            .iter()
            .map(|delay| Delay {
                seq: delay.seq,
                delay: Duration::from_millis(delay.delay as u64),
                note: encoding::note(&delay.note),
                pack: encoding::pack(&delay.pack.texts, delay.pack.origin),
            })
            .collect();
        let mut effects = Effects::default();
        match effect {
            Effect::None => {}
            Effect::Add(by) => effects.incr_by(&self.app().counter, *by as i64),
            Effect::Bad => {
                // The first effect alone would work. It must not be written either.
                effects.incr_by(&self.app().counter, 1);
                effects.incr_by(&self.app().list, 1);
            }
        }
        let outcomes = CommitCall {
            first: *first,
            last: *last,
            failed: &failed,
            delayed: &delayed,
            effects: &effects,
            max_errors: *max_errors,
            digest: audited.then(|| encoding::digest(*first, *last)),
        };
        let commit = store
            .commit(&encoding::slot(*slot), *number, outcomes)
            .await?;
        let bad = format!("{}: holds a list, INCRBY needs a string", self.app().list);
        Ok(match commit {
            Commit::Done => Reply::Done,
            Commit::Already => Reply::Already,
            Commit::Lost => Reply::Lost,
            Commit::Full { records: count } => Reply::Full { count },
            Commit::Refused { reason } if reason == bad => Reply::Refused,
            Commit::Refused { .. } => return Err(strange(commit)),
        })
    }
}

fn strange(what: impl std::fmt::Debug) -> SequenceError {
    SequenceError::Mismatch(format!("the server answered {what:?}"))
}

/// The model's cursors are numbers; 0 is none.
fn cursor_of(stored: &[u8]) -> Result<u64, SequenceError> {
    match str::from_utf8(stored) {
        Ok("") => Ok(0),
        Ok(digits) => digits.parse().map_err(|_| strange(stored)),
        Err(_) => Err(strange(stored)),
    }
}

fn node_of(name: &str) -> Result<Node, SequenceError> {
    encoding::read_node(name).ok_or_else(|| strange(name))
}

fn holder_of(name: &str) -> Result<Option<Node>, SequenceError> {
    match name {
        "" => Ok(None),
        name => node_of(name).map(Some),
    }
}

fn fenced(node: &str, epoch: u64) -> Result<Reply, SequenceError> {
    let node = holder_of(node)?;
    Ok(Reply::Fenced { node, epoch })
}

fn beat(beat: Beat) -> Result<Reply, SequenceError> {
    let ms = |duration: Duration| duration.as_millis() as Ms;
    Ok(match beat {
        Beat::Generator {
            epoch,
            next,
            now_ms,
            standbys,
            last,
        } => Reply::Generator {
            epoch,
            next: ms(next),
            now: now_ms as Ms,
            standbys,
            last,
        },
        Beat::Worker {
            generator,
            epoch,
            next,
            now_ms,
            place,
            last,
        } => Reply::Worker {
            holder: holder_of(&generator)?,
            epoch,
            next: ms(next),
            now: now_ms as Ms,
            place,
            last,
        },
    })
}

async fn publish(store: &Store, call: &Call) -> Result<Reply, SequenceError> {
    let Call::Publish {
        epoch,
        first,
        texts,
        cursor,
        max_open,
        audited,
        staging,
        origin,
        ttl,
        ..
    } = call
    else {
        return Err(strange(call));
    };
    let count = texts.len() as u64;
    let (stage, is_staged) = match *staging {
        Staging::Inline => (0, false),
        Staging::Now(stage) => (stage, false),
        Staging::Before(stage) => (stage, true),
    };
    let stored = cursor.to_string();
    let what = PublishCall {
        stage,
        is_staged,
        claim_ttl: Duration::from_millis(*ttl as u64),
        epoch: *epoch,
        first: *first,
        count,
        cursor: stored.as_bytes(),
        made: None,
        max_pending: *max_open,
        digest: audited.then(|| encoding::digest(*first, *first + count - 1)),
        pack: &encoding::pack(texts, *origin),
    };
    published(store.publish(what).await?)
}

fn published(answer: Publish) -> Result<Reply, SequenceError> {
    Ok(match answer {
        Publish::Ok { .. } => Reply::Published,
        Publish::Already { last } => Reply::AlreadyPublished { last },
        Publish::Gap { last } => Reply::Gap { last },
        Publish::Fenced { node, epoch } => fenced(&node, epoch)?,
        Publish::Paused => Reply::Paused,
        Publish::Full { open: count } => Reply::Full { count },
        Publish::Missing => Reply::Missing,
    })
}

async fn park(store: &Store, epoch: u64, parking: &Parking) -> Result<Reply, SequenceError> {
    let answer = match parking {
        Parking::Keep(packs) => {
            let parcels = packs
                .iter()
                .map(|(field, text)| encoding::parcel(*field, *text));
            let parcels: Vec<Parcel> = parcels.collect();
            store.park(epoch, &parcels).await?
        }
        Parking::Remove(fields) => {
            let fields = fields.iter().map(|field| encoding::field(*field));
            let fields: Vec<String> = fields.collect();
            store.unpark(epoch, &fields).await?
        }
    };
    match answer {
        Park::Ok => Ok(Reply::Done),
        Park::Fenced { node, epoch } => fenced(&node, epoch),
    }
}

fn paused(paused: baton_protocol::Paused) -> Paused {
    let since = |part| paused.since_ms(part).map(|ms| ms as Ms);
    Paused {
        generator: since(Part::Generator),
        workers: since(Part::Workers),
    }
}

async fn claim(store: &Store, claim: Claim) -> Result<Reply, SequenceError> {
    Ok(match claim {
        Claim::Claimed { range, pack } => {
            let (sent, pack) = match pack {
                ClaimedPack::Sent(pack) => (true, Some(pack)),
                ClaimedPack::Whole | ClaimedPack::Part { .. } => {
                    (false, store.pack(range.pack).await?)
                }
            };
            let read = |pack: Vec<u8>| encoding::read_pack(&pack).ok_or_else(|| strange(pack));
            Reply::Claimed {
                range: encoding::range(range),
                sent,
                pack: pack.map(read).transpose()?,
            }
        }
        Claim::Empty => Reply::Empty,
        Claim::Paused => Reply::Paused,
        Claim::Stale => Reply::Stale,
        Claim::Held { number } => Reply::Held { number },
    })
}

async fn errors_claim(store: &Store, call: &Call) -> Result<Reply, SequenceError> {
    let Call::ErrorsClaim {
        slot,
        number,
        ids,
        max,
        ttl,
        ..
    } = call
    else {
        return Err(strange(call));
    };
    let slot = encoding::slot(*slot);
    let ttl = Duration::from_millis(*ttl as u64);
    let wanted = match ids {
        Some(ids) => Wanted::Exactly(ids),
        None => Wanted::Oldest {
            max: *max,
            bytes: DRAIN_BYTES,
            last: u64::from(u32::MAX),
        },
    };
    loop {
        return match store.errors_claim(&slot, *number, wanted, ttl).await? {
            ErrorsClaim::Claimed(ids) => records_of(store, &ids).await,
            ErrorsClaim::Again => continue,
            ErrorsClaim::Empty => Ok(Reply::Empty),
            ErrorsClaim::Stale => Ok(Reply::Stale),
        };
    }
}

fn reclaimed(reclaimed: Reclaimed) -> Result<Reply, SequenceError> {
    let nodes = reclaimed.nodes.iter().map(|name| node_of(name));
    Ok(Reply::Reclaimed {
        messages: reclaimed.messages,
        records: reclaimed.records,
        woken: reclaimed.woken,
        next_due: reclaimed.next_due.map(|due| due.as_millis() as Ms),
        nodes: nodes.collect::<Result<_, _>>()?,
    })
}

/// Settles records. The model knows their contents only, so their bytes are read from the store.
async fn settle(
    store: &Store,
    retry: bool,
    records: &[call::Seen],
) -> Result<Reply, SequenceError> {
    let any_time = (0, u64::MAX);
    let mut failures = Vec::new();
    for seen in records {
        let (stored, _) = store.errors_read(&[seen.id]).await?;
        let is_it = |failure: &Failure| {
            encoding::read_record(&failure.record, any_time) == Some(seen.record)
        };
        let other = || Failure::short(seen.id, encoding::record(&seen.record));
        failures.push(stored.into_iter().find(is_it).unwrap_or_else(other));
    }
    let what = match retry {
        true => Settle::Retry,
        false => Settle::Drop,
    };
    let mut settled = Vec::new();
    while settled.len() < failures.len() {
        let rest = &failures[settled.len()..];
        settled.extend(store.errors_settle_some(what, rest).await?);
    }
    let settled = settled.into_iter().map(|settled| match settled {
        Settled::Dropped => call::Settled::Dropped,
        Settled::Retried => call::Settled::Retried,
        Settled::Missing => call::Settled::Missing,
        Settled::Unfit => call::Settled::Unfit,
    });
    Ok(Reply::Settled(settled.collect()))
}

async fn records_of(store: &Store, ids: &[u64]) -> Result<Reply, SequenceError> {
    // Reading the state has checked their times.
    let any_time = (0, u64::MAX);
    let (mut records, mut done) = (Vec::new(), 0);
    while done < ids.len() {
        let (failures, read) = store.errors_read(&ids[done..]).await?;
        for Failure { id, record, .. } in failures {
            let read = encoding::read_record(&record, any_time);
            records.push((id, read.ok_or_else(|| strange(record.escape_ascii()))?));
        }
        done += read;
    }
    Ok(Reply::Records(records))
}

fn counted(census: &Census) -> Result<Reply, SequenceError> {
    if !census.counted || census.claimed_by.values().sum::<u64>() != census.claimed {
        return Err(strange(census));
    }
    Ok(Reply::Counted {
        published: census.published,
        done: census.done,
        failed: census.failed,
        pending: census.pending,
        claimed: census.claimed,
        delayed: census.delayed,
        errors: census.errors,
        foreign: census.foreign,
        retried: census.retried,
        dropped: census.dropped,
        void: census.void,
        paused: paused(census.paused),
    })
}
