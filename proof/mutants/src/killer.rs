//! The checks that must notice: each runs against a mutant and tells whether it died.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use baton_model::explore::explore;
use baton_model::scenarios;

use crate::mutant::Mutant;
use crate::tree::{Tree, top};

/// Calls of a conformance run.
const CONFORM_CALLS: &str = "40000";
/// Faults of a chaos run, and its seed.
const CHAOS: [&str; 4] = ["--faults", "25", "--seed", "1"];
/// A bench with deaths, and with handlers that take their time, so that deaths interrupt them.
const BENCH: [&str; 6] = ["--messages", "100000", "--kill", "4", "--runs", "1"];

/// One of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Killer {
    /// Explores the same break in the model.
    Model,
    /// Holds the broken scripts against the model.
    Conformance,
    /// Runs a fleet of the broken program through faults.
    Chaos,
    /// Times the broken program and audits every message.
    Audit,
    /// Runs the test that the mutant names.
    Test,
}

/// What a check says of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// It noticed.
    Killed,
    /// It did not.
    Survived,
    /// The check has no such break.
    NotTried,
    /// It could not be carried through.
    Unclear,
}

impl Killer {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Model,
        Self::Conformance,
        Self::Chaos,
        Self::Audit,
        Self::Test,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Conformance => "conformance",
            Self::Chaos => "chaos",
            Self::Audit => "audit",
            Self::Test => "test",
        }
    }

    /// Tries the source in the tree: a mutant or, without one, the source as it is, which must
    /// survive. `chaos` is the program of that name, built from the source as it is.
    pub fn tries(
        self,
        mutant: Option<&Mutant>,
        tree: &Tree,
        chaos: &Path,
        log: &Path,
    ) -> Result<Word> {
        let mut command = match self {
            Self::Model => return Ok(model(mutant)),
            Self::Conformance => {
                let mut command = Command::new(tree.tests("baton-model", "conformance")?);
                command.args(["every_server", "--nocapture"]);
                command.env("BATON_CONFORM_CALLS", CONFORM_CALLS);
                command
            }
            Self::Chaos => {
                let mut command = Command::new(chaos);
                command.arg("--program").arg(tree.baton()?).args(CHAOS);
                command.args(mutant.iter().flat_map(|mutant| &mutant.chaos));
                command
            }
            Self::Audit => {
                let mut command = Command::new(tree.baton()?);
                command.arg("bench").args(BENCH);
                command
            }
            Self::Test => {
                let Some(test) = mutant.and_then(|mutant| mutant.test.as_ref()) else {
                    return Ok(Word::NotTried);
                };
                let mut command = Command::new(tree.tests(&test.package, &test.target)?);
                command.args([&test.name, "--exact", "--nocapture"]);
                command
            }
        };
        let output = std::fs::File::create(log)?;
        let status = command
            .current_dir(top())
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .status()
            .with_context(|| format!("cannot run {}", self.name()))?;
        Ok(match status.code() {
            Some(0) => Word::Survived,
            // The test runner's word for a failed test is 101, ours for a finding 1.
            Some(1 | 101) => Word::Killed,
            _ => Word::Unclear,
        })
    }
}

/// Explores the model with the flaw of the mutant.
fn model(mutant: Option<&Mutant>) -> Word {
    let Some(flaw) = mutant.and_then(|mutant| mutant.flaw) else {
        return Word::NotTried;
    };
    match explore(scenarios::with(flaw)).is_clean() {
        true => Word::Survived,
        false => Word::Killed,
    }
}
