//! Runs a sequence on the model and on a real fleet, and compares them after each event.

use std::fmt::{Debug, Write as _};
use std::ops::RangeInclusive;

use baton_model::call::{Call, Reply, Ring, Sampled};
use baton_model::flaw::Flaw;
use baton_model::state::{Body, Ms, Node, Seq, Sleeper, Slot, State, Text};
use baton_model::step;

use crate::chooser::{MAX_SEQUENCE_MS, Scene, choose};
use crate::coverage::Coverage;
use crate::event::{Event, Unmodelled, apply};
use crate::operation::Sequence;
use crate::real_fleet::{RealFleet, SequenceError};
use crate::redis_state::RedisState;

/// The nodes that are present when a sequence begins.
const FIRST_NODES: [Node; 3] = [0, 1, 2];
/// How many fields of `workers` and of `claims`, and members of `idle`, a reclaim samples.
const SAMPLE_SIZE: usize = 2;
/// How often a reclaim that believes any absence runs the script, if there are few claims.
const FULL_RECLAIMS: usize = 2;

/// The model and a real fleet.
pub(crate) struct Comparison {
    real: RealFleet,
    /// A deliberate break of the model.
    pub(crate) flaw: Option<Flaw>,
    model: State,
    unmodelled: Unmodelled,
    /// Redis's clock when the state was read last.
    at: Ms,
    /// Redis's clock when the sequence began.
    since: Ms,
    /// The events so far, and the answers to calls.
    story: Vec<(Event, Option<Reply>)>,
}

impl Comparison {
    pub(crate) fn new(real: RealFleet, flaw: Option<Flaw>) -> Self {
        Self {
            real,
            flaw,
            model: State::default(),
            unmodelled: Unmodelled::default(),
            at: 0,
            since: 0,
            story: Vec::new(),
        }
    }

    /// Runs a sequence, and counts its calls and answers.
    pub(crate) async fn run(
        &mut self,
        sequence: &Sequence,
        coverage: &mut Coverage,
    ) -> Result<(), SequenceError> {
        let ran = self.try_run(sequence, coverage).await;
        if matches!(ran, Err(SequenceError::Stalled(_))) {
            // If that fails too, the next sequence reports it.
            let _ = self.real.recover().await;
        }
        ran
    }

    async fn try_run(
        &mut self,
        sequence: &Sequence,
        coverage: &mut Coverage,
    ) -> Result<(), SequenceError> {
        self.story.clear();
        self.begin().await?;
        let mut texts: Text = 0;
        for op in &sequence.ops {
            let scene = Scene {
                state: &self.model,
                at: self.at,
                run_id: self.real.run(),
                audited: sequence.audited,
                last_call: self.last_call(),
                texts: &mut texts,
            };
            let Some(event) = choose(op, scene) else {
                continue;
            };
            self.story.push((event.clone(), None));
            match &event {
                Event::Call { by, call } => self.call(*by, call, coverage).await?,
                event => self.apply(event).await?,
            }
        }
        Ok(())
    }

    /// The last call.
    fn last_call(&self) -> Option<&Event> {
        let mut events = self.story.iter().rev().map(|(event, _)| event);
        events.find(|event| matches!(event, Event::Call { .. }))
    }

    /// The sequence so far, one line per event.
    pub(crate) fn story(&self) -> String {
        let mut text = String::new();
        for (at, (event, reply)) in self.story.iter().enumerate() {
            let _ = match event {
                Event::Call { by, call } => write!(text, "  {}. n{by}: {call:?}", at + 1),
                event => write!(text, "  {}. {event:?}", at + 1),
            };
            if let Some(reply) = reply {
                let _ = write!(text, " -> {reply:?}");
            }
            text.push('\n');
        }
        text
    }

    async fn begin(&mut self) -> Result<(), SequenceError> {
        self.real.begin(&FIRST_NODES).await?;
        self.model = State {
            run_id: self.real.run(),
            ..State::default()
        };
        for node in FIRST_NODES {
            self.model.set_present(node, true);
        }
        self.unmodelled = Unmodelled::default();
        let mut redis = self.real.read_state(0).await?;
        (self.at, self.since) = (redis.at, redis.at);
        // The sequence before may have ended before its nodes heard everything.
        redis.rings.clear();
        self.check_agreement(&redis)
    }

    async fn read_state(&mut self) -> Result<RedisState, SequenceError> {
        let redis = self.real.read_state(self.since).await?;
        match redis.at - self.since > MAX_SEQUENCE_MS {
            true => Err(SequenceError::Stalled("it took too long".to_owned())),
            false => Ok(redis),
        }
    }

    async fn apply(&mut self, event: &Event) -> Result<(), SequenceError> {
        apply(event, &mut self.model, self.at);
        self.real.apply(event, &self.model).await?;
        let redis = self.read_state().await?;
        self.at = redis.at;
        self.check_agreement(&redis)
    }

    /// Makes a call on both sides. The server ran it at some moment between the last two reads of the
    /// state. At one such moment the model must give the same answer and have the same state.
    async fn call(
        &mut self,
        by: Node,
        call: &Call,
        coverage: &mut Coverage,
    ) -> Result<(), SequenceError> {
        let answer = self.real.call(by, call).await?;
        let redis = self.read_state().await?;
        let calls = self.script_calls(call, &redis.state)?;
        if redis.at < self.at {
            return Err(SequenceError::Stalled(
                "the server's clock was set back".to_owned(),
            ));
        }
        let mut difference: Option<String> = None;
        for moments in moments(self.at..=redis.at, calls.len()) {
            let mut model = self.model.clone();
            let (reply, rings) = run(&mut model, &calls, moments, self.flaw);
            // Redis stores these times in seconds.
            for ended in model.workers.values_mut() {
                ended.at -= ended.at % 1000;
            }
            let unmodelled = self.unmodelled.after(call, &redis.unmodelled);
            let same_reply = (&reply, &rings) == (&answer, &redis.rings);
            if same_reply && model == redis.state && unmodelled == redis.unmodelled {
                coverage.count(call, (&reply, &rings), &self.model, &model);
                (self.model, self.unmodelled, self.at) = (model, unmodelled, redis.at);
                if let Some((_, noted)) = self.story.last_mut() {
                    *noted = Some(reply);
                }
                return Ok(());
            }
            // Report the moment at which they differ least.
            let states = differences((&model, &unmodelled), (&redis.state, &redis.unmodelled));
            let this = differ("the answer", &reply, &answer)
                + &differ("what nodes heard", &rings, &redis.rings)
                + &states;
            if difference
                .as_ref()
                .is_none_or(|other| this.len() < other.len())
            {
                difference = Some(this);
            }
        }
        Err(SequenceError::Mismatch(difference.unwrap_or_default()))
    }

    /// The calls of scripts that a call consists of. A publish gets the time of the server, and a
    /// reclaim its random samples, as far as the state after it shows them; a reclaim that believes any
    /// absence is several calls.
    fn script_calls(&self, call: &Call, after: &State) -> Result<Vec<Call>, SequenceError> {
        if let Call::Publish { .. } = call {
            let mut timed = call.clone();
            if let Call::Publish { first, micros, .. } = &mut timed {
                *micros = self.handed_micros(*first, after);
            }
            return Ok(vec![timed]);
        }
        let Call::Reclaim {
            run_id,
            caller,
            max_claims,
            max_due,
            ..
        } = call
        else {
            return Ok(vec![call.clone()]);
        };
        let (once, scripts) = (*run_id != 0, if *run_id == 0 { FULL_RECLAIMS } else { 1 });
        let workers = &self.model.workers;
        let few = workers.len() <= SAMPLE_SIZE;
        let sampled_workers: Vec<Slot> = workers
            .keys()
            .filter(|slot| few || !after.workers.contains_key(slot))
            .copied()
            .collect();
        if sampled_workers.len() > scripts * SAMPLE_SIZE {
            let forgotten = format!("{sampled_workers:?} were forgotten at once");
            return Err(SequenceError::Mismatch(forgotten));
        }
        let script = Call::Reclaim {
            run_id: *run_id,
            caller: *caller,
            max_claims: *max_claims,
            max_due: *max_due,
            sampled: Sampled {
                workers: sampled_workers,
                claims: match once {
                    true => self.sampled_claims(after),
                    // The first call samples more claims than there are.
                    false => self.model.claims.keys().copied().collect(),
                },
                idle: self.sampled_idle(once, after),
            },
        };
        Ok(vec![script; scripts])
    }

    /// How many µs after the full millisecond the server handed the pack over that begins with this
    /// message; 0 if it did not.
    fn handed_micros(&self, first: Seq, after: &State) -> u64 {
        let mut handed = after.claims.iter().filter(|(slot, claim)| {
            let of_pack = matches!(claim.body, Body::Messages(range) if range.pack == first);
            let is_new = self.model.claims.get(slot) != Some(claim);
            slot.lane == Slot::HANDED && of_pack && is_new
        });
        handed.next().map_or(0, |(_, claim)| claim.number % 1000)
    }

    /// The claims that a reclaim sampled, as far as the state after it shows them. If the server gave
    /// a deadline to more claims than it samples, the states differ.
    fn sampled_claims(&self, after: &State) -> Vec<Slot> {
        let few = after.claims.len() <= SAMPLE_SIZE;
        let found = |slot: &&Slot| {
            after.deadlines.contains_key(slot) && !self.model.deadlines.contains_key(slot)
        };
        let slots = after.claims.keys();
        let slots = slots.filter(|slot| few || found(slot));
        slots.take(SAMPLE_SIZE).copied().collect()
    }

    /// The idle nodes that a reclaim sampled, as far as the state after it shows them; also those
    /// that it woke before.
    fn sampled_idle(&self, once: bool, after: &State) -> Vec<Sleeper> {
        let idle = &self.model.idle;
        let all = !once || idle.len() <= SAMPLE_SIZE;
        let sampled = idle
            .keys()
            .filter(|sleeper| all || !after.idle.contains_key(sleeper));
        sampled.copied().collect()
    }

    fn check_agreement(&self, redis: &RedisState) -> Result<(), SequenceError> {
        let same = self.model == redis.state && self.unmodelled == redis.unmodelled;
        match same && redis.rings.is_empty() {
            true => Ok(()),
            false => Err(SequenceError::Mismatch(
                differ("what nodes heard", &Vec::new(), &redis.rings)
                    + &differences(
                        (&self.model, &self.unmodelled),
                        (&redis.state, &redis.unmodelled),
                    ),
            )),
        }
    }
}

/// The moments at which the first script may have run, each with those of the scripts after it.
fn moments(between: RangeInclusive<Ms>, scripts: usize) -> Vec<(Ms, Ms)> {
    let last = *between.end();
    let ways = between.flat_map(|first| {
        match scripts {
            1 => first..=first,
            _ => first..=last,
        }
        .map(move |second| (first, second))
    });
    ways.collect()
}

/// Runs the scripts that a call consists of. Returns the answer, and what each node hears.
fn run(
    model: &mut State,
    calls: &[Call],
    (first, later): (Ms, Ms),
    flaw: Option<Flaw>,
) -> (Reply, Vec<Ring>) {
    let mut calls = calls.iter();
    let first = calls.next().map(|call| step(model, call, first, flaw));
    let (mut reply, mut rings) = first.unwrap_or((Reply::Empty, Vec::new()));
    for call in calls {
        let (other, more) = step(model, call, later, flaw);
        add(&mut reply, other);
        rings.extend(more);
    }
    // Which of two nodes heard first is not known.
    rings.sort_by_key(|ring| ring.node);
    (reply, rings)
}

/// Adds what another reclaim returned.
fn add(reply: &mut Reply, other: Reply) {
    if let (
        Reply::Reclaimed {
            messages,
            records,
            woken,
            next_due,
            nodes,
        },
        Reply::Reclaimed {
            messages: more_messages,
            records: more_records,
            woken: more_woken,
            next_due: last_due,
            nodes: more_nodes,
        },
    ) = (reply, other)
    {
        *messages += more_messages;
        *records += more_records;
        *woken += more_woken;
        *next_due = last_due;
        let new = more_nodes.into_iter();
        let new: Vec<Node> = new.filter(|node| !nodes.contains(node)).collect();
        nodes.extend(new);
    }
}

fn differ<T: PartialEq + Debug>(what: &str, model: &T, server: &T) -> String {
    match model == server {
        true => String::new(),
        false => format!("  {what}\n    model:  {model:?}\n    server: {server:?}\n"),
    }
}

/// The fields in which two states differ.
fn differences(model: (&State, &Unmodelled), server: (&State, &Unmodelled)) -> String {
    let mut text = String::new();
    macro_rules! compare {
        ($($part:tt: $($field:ident)+),+) => {
            $($(if model.$part.$field != server.$part.$field {
                let _ = write!(
                    text,
                    "  {}\n    model:  {:?}\n    server: {:?}\n",
                    stringify!($field), model.$part.$field, server.$part.$field,
                );
            })+)+
        };
    }
    compare!(
        0: run_id present lease nodes joined seen takeovers fence queue packs staged parked left delayed notes
           claims deadlines workers errors held last_id done failed foreign retried dropped void idle ledger effects,
        1: protocol born
    );
    text
}
