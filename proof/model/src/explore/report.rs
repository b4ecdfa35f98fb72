//! Exploring a setting to its end, and telling what was found.

use std::fmt;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::{Explored, Setting};

/// What an exploration found.
#[derive(Debug, Clone)]
pub struct Report {
    /// The setting's name.
    pub name: &'static str,
    /// Different states.
    pub states: usize,
    /// Longest way to one.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// What must always hold and does not, each with the shortest way there.
    pub broken: Vec<String>,
    /// What must be seen somewhere and was not.
    pub unseen: Vec<&'static str>,
}

impl Report {
    /// Whether everything holds, and was put to the test.
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

/// Explores all of a setting; one with a flaw only until the flaw shows.
pub fn explore(setting: Setting) -> Report {
    let name = setting.name;
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let until = match setting.flaw {
        Some(_) => HasDiscoveries::AnyFailures,
        None => HasDiscoveries::All,
    };
    let checker = Explored(setting).checker().threads(threads);
    let checker = checker.finish_when(until).spawn_bfs().join();
    let (mut broken, mut unseen) = (Vec::new(), Vec::new());
    for property in checker.model().properties() {
        let found = checker.discovery(property.name);
        match (property.expectation, found) {
            (Expectation::Sometimes, None) => unseen.push(property.name),
            (Expectation::Always, Some(path)) => {
                let steps = path.into_vec();
                let end = steps.last().and_then(|(world, _)| world.history.wrong);
                let end = end.map(|wrong| format!("\n    {wrong:?}"));
                let told = steps.iter().filter_map(|(world, step)| {
                    step.as_ref()
                        .map(|step| format!("\n    {}", world.story(step)))
                });
                let told: String = told.chain(end).collect();
                broken.push(format!("{}{told}", property.name));
            }
            _ => {}
        }
    }
    Report {
        name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: began.elapsed(),
        broken,
        unseen,
    }
}
