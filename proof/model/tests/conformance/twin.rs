//! The model and a real fleet, side by side through one sequence.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use baton_model::call::{Call, Reply};
use baton_model::flaw::Flaw;
use baton_model::state::{Ms, Node, Slot, State, Text};
use baton_model::step;

use crate::choose::{Scene, choose};
use crate::event::{Beside, Event, befall};
use crate::look::Look;
use crate::op::Sequence;
use crate::real::{Real, Trouble};
use crate::tally::Tally;

/// Who is present when a sequence begins.
const FIRST_NODES: [Node; 3] = [0, 1, 2];
/// How many of `workers` and of `claims` a reclaim looks at.
const LOOKED_AT: usize = 2;
/// More reclaims than it takes to return all claims of the sequence's few slots.
const MOST_RECLAIMS: usize = 5;

/// The two of them.
pub(crate) struct Twin {
    real: Real,
    /// What is wrong with the model, on purpose.
    pub(crate) flaw: Option<Flaw>,
    model: State,
    beside: Beside,
    /// Redis's clock at the last look.
    at: Ms,
    /// Redis's clock when the sequence began.
    since: Ms,
    /// What happened so far, and what was answered.
    story: Vec<(Event, Option<Reply>)>,
}

impl Twin {
    pub(crate) fn new(real: Real, flaw: Option<Flaw>) -> Self {
        Self {
            real,
            flaw,
            model: State::default(),
            beside: Beside::default(),
            at: 0,
            since: 0,
            story: Vec::new(),
        }
    }

    /// Goes through a sequence, and counts what was asked and answered.
    pub(crate) async fn run(
        &mut self,
        sequence: &Sequence,
        tally: &mut Tally,
    ) -> Result<(), Trouble> {
        let ran = self.try_run(sequence, tally).await;
        if matches!(ran, Err(Trouble::Stalled(_))) {
            // Should that fail too, the next sequence says so.
            let _ = self.real.recover().await;
        }
        ran
    }

    async fn try_run(&mut self, sequence: &Sequence, tally: &mut Tally) -> Result<(), Trouble> {
        self.story.clear();
        self.begin().await?;
        let mut texts: Text = 0;
        for op in &sequence.ops {
            let scene = Scene {
                state: &self.model,
                at: self.at,
                run: self.real.run(),
                audited: sequence.audited,
                before: self.before(),
                texts: &mut texts,
            };
            let Some(event) = choose(op, scene) else {
                continue;
            };
            self.story.push((event.clone(), None));
            match &event {
                Event::Call { by, call } => self.call(*by, call, tally).await?,
                event => self.befall(event).await?,
            }
        }
        Ok(())
    }

    /// The last call.
    fn before(&self) -> Option<&Event> {
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

    async fn begin(&mut self) -> Result<(), Trouble> {
        self.real.begin(&FIRST_NODES).await?;
        self.model = State {
            run: self.real.run(),
            ..State::default()
        };
        for node in FIRST_NODES {
            self.model.set_present(node, true);
        }
        self.beside = Beside::default();
        let look = self.real.look(0)?;
        (self.at, self.since) = (look.at, look.at);
        self.agree(&look)
    }

    async fn befall(&mut self, event: &Event) -> Result<(), Trouble> {
        befall(event, &mut self.model, self.at);
        self.real.befall(event, &self.model).await?;
        let look = self.real.look(self.since)?;
        self.at = look.at;
        self.agree(&look)
    }

    /// Makes a call on either side. There must be a moment between the look before and the
    /// look after at which the model answers and leaves behind exactly what the server did.
    async fn call(&mut self, by: Node, call: &Call, tally: &mut Tally) -> Result<(), Trouble> {
        let said = self.real.call(by, call).await?;
        let look = self.real.look(self.since)?;
        let calls = self.as_made(call, &look.state)?;
        if look.at < self.at {
            return Err(Trouble::Stalled(
                "the server's clock was set back".to_owned(),
            ));
        }
        let mut difference: Option<String> = None;
        for moments in moments(self.at..=look.at, calls.len()) {
            let mut model = self.model.clone();
            let reply = run(&mut model, &calls, moments, self.flaw);
            // Redis keeps these in seconds.
            for settled in model.workers.values_mut() {
                settled.at -= settled.at % 1000;
            }
            let beside = self.beside.after(call, &look.beside);
            if reply == said && model == look.state && beside == look.beside {
                tally.count(call, &reply, &self.model, &model);
                (self.model, self.beside, self.at) = (model, beside, look.at);
                if let Some((_, answer)) = self.story.last_mut() {
                    *answer = Some(reply);
                }
                return Ok(());
            }
            // The most telling moment is the one at which they differ least.
            let states = differences((&model, &beside), (&look.state, &look.beside));
            let this = differ(&reply, &said) + &states;
            if difference
                .as_ref()
                .is_none_or(|other| this.len() < other.len())
            {
                difference = Some(this);
            }
        }
        Err(Trouble::Wrong(difference.unwrap_or_default()))
    }

    /// The calls of scripts that a call is made of. A reclaim comes with what the server looked
    /// at by chance, as far as that can be seen; one that believes any absence is several.
    fn as_made(&self, call: &Call, after: &State) -> Result<Vec<Call>, Trouble> {
        let Call::Reclaim { run, most, .. } = call else {
            return Ok(vec![call.clone()]);
        };
        let (once, scripts) = (*run != 0, if *run == 0 { MOST_RECLAIMS } else { 1 });
        let workers = &self.model.workers;
        let few = workers.len() <= LOOKED_AT;
        let looked_at: Vec<Slot> = workers
            .keys()
            .filter(|slot| few || !after.workers.contains_key(slot))
            .copied()
            .collect();
        if looked_at.len() > scripts * LOOKED_AT {
            let forgotten = format!("{looked_at:?} were forgotten at once");
            return Err(Trouble::Wrong(forgotten));
        }
        let script = Call::Reclaim {
            run: *run,
            most: *most,
            looked_at,
            checked: match once {
                true => self.given_deadlines(after),
                // The first of them looks at more claims than there are.
                false => self.model.claims.keys().copied().collect(),
            },
        };
        Ok(vec![script; scripts])
    }

    /// The claims in which a reclaim looked for one without a deadline, as far as that can be
    /// seen. If it found more than it looks at, the states differ.
    fn given_deadlines(&self, after: &State) -> Vec<Slot> {
        let few = after.claims.len() <= LOOKED_AT;
        let found = |slot: &&Slot| {
            after.deadlines.contains_key(slot) && !self.model.deadlines.contains_key(slot)
        };
        let slots = after.claims.keys();
        let slots = slots.filter(|slot| few || found(slot));
        slots.take(LOOKED_AT).copied().collect()
    }

    fn agree(&self, look: &Look) -> Result<(), Trouble> {
        match self.model == look.state && self.beside == look.beside {
            true => Ok(()),
            false => Err(Trouble::Wrong(differences(
                (&self.model, &self.beside),
                (&look.state, &look.beside),
            ))),
        }
    }
}

/// The moments at which a script may have run, and those after it if there are any.
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

/// Runs the scripts that a call is made of: at least two if there are several, and then until
/// one of them returns nothing.
fn run(model: &mut State, calls: &[Call], (first, later): (Ms, Ms), flaw: Option<Flaw>) -> Reply {
    let mut calls = calls.iter();
    let reply = calls.next().map(|call| step(model, call, first, flaw));
    let mut reply = reply.unwrap_or(Reply::Empty);
    for call in calls {
        let claims = model.deadlines.len();
        add(&mut reply, step(model, call, later, flaw));
        if model.deadlines.is_empty() || model.deadlines.len() == claims {
            break;
        }
    }
    reply
}

/// Adds what another reclaim returned.
fn add(reply: &mut Reply, other: Reply) {
    if let (
        Reply::Reclaimed {
            messages,
            records,
            nodes,
        },
        Reply::Reclaimed {
            messages: more_messages,
            records: more_records,
            nodes: more_nodes,
        },
    ) = (reply, other)
    {
        *messages += more_messages;
        *records += more_records;
        let new = more_nodes.into_iter();
        let new: Vec<Node> = new.filter(|node| !nodes.contains(node)).collect();
        nodes.extend(new);
    }
}

fn differ(model: &Reply, server: &Reply) -> String {
    match model == server {
        true => String::new(),
        false => format!("  the answer\n    model:  {model:?}\n    server: {server:?}\n"),
    }
}

/// The fields in which two states differ.
fn differences(model: (&State, &Beside), server: (&State, &Beside)) -> String {
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
        0: run present lease nodes joined seen takeovers fence queue packs left claims deadlines
           workers errors held last_id done failed foreign retried bell ledger effects,
        1: protocol born
    );
    text
}
