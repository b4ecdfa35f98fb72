//! Exploring a scenario in full, and reporting what was found.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, CheckerBuilder, HasDiscoveries, Model};

use super::{Explored, Scenario};

/// What an exploration found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The scenario's name.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// Max number of actions on the way to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Properties that do not hold, each with the shortest way to a state that shows it.
    pub broken: Vec<String>,
    /// Events that no step shows.
    pub unseen: Vec<&'static str>,
}

impl Report {
    /// Whether every property holds and every event was seen.
    pub fn is_clean(&self) -> bool {
        self.broken.is_empty() && self.unseen.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, .. } = self;
        let seconds = self.took.as_secs_f64();
        write!(
            f,
            "{name}: {states} states, at most {} steps deep, in {seconds:.1} s",
            self.depth
        )?;
        for broken in &self.broken {
            write!(f, "\n  broken: {broken}")?;
        }
        for unseen in &self.unseen {
            write!(f, "\n  never seen: {unseen}")?;
        }
        Ok(())
    }
}

/// A model that a report can be written about.
pub(crate) trait Reported: Model {
    /// An action as a report prints it.
    fn describe(state: &Self::State, action: &Self::Action) -> String;

    /// What went wrong on the way to this state.
    fn violation(state: &Self::State) -> Option<String>;

    /// The events that the exploration should have shown and did not: a property may hold because
    /// nothing happened.
    fn unseen(&self) -> Vec<&'static str>;
}

/// Explores a scenario in full; a scenario with a flaw only until the flaw shows.
pub fn explore(scenario: Scenario) -> Report {
    let name = scenario.name;
    let until = match scenario.flaw {
        Some(_) => HasDiscoveries::AnyFailures,
        None => HasDiscoveries::All,
    };
    let checker = Explored::new(scenario).checker();
    report_of(name, checker.finish_when(until))
}

/// Explores a model as far as the checker is told to.
pub(crate) fn report_of<M>(name: &'static str, checker: CheckerBuilder<M>) -> Report
where
    M: Reported + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let checker = checker.threads(threads).spawn_bfs().join();
    let mut broken = Vec::new();
    for property in checker.model().properties() {
        let Some(path) = checker.discovery(property.name) else {
            continue;
        };
        let steps = path.into_vec();
        let end = steps.last().and_then(|(state, _)| M::violation(state));
        let end = end.map(|violation| format!("\n    {violation}"));
        let actions = steps.iter().filter_map(|(state, action)| {
            let action = action.as_ref()?;
            Some(format!("\n    {}", M::describe(state, action)))
        });
        let story: String = actions.chain(end).collect();
        broken.push(format!("{}{story}", property.name));
    }
    Report {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: began.elapsed(),
        broken,
        unseen: checker.model().unseen(),
    }
}
