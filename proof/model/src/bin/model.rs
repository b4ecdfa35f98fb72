//! Explores the model further than the tests do. Takes names of scenarios; without names it explores
//! all.

use std::process::ExitCode;

use baton_model::explore::explore;
use baton_model::scenarios;
use baton_print::{errln, outln};

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let small = scenarios::small().into_iter().map(|(scenario, _)| scenario);
    let mut wanted: Vec<_> = small.chain(scenarios::large()).collect();
    wanted.retain(|scenario| only.is_empty() || only.iter().any(|name| name == scenario.name));
    if wanted.is_empty() {
        errln!("model: no scenario has this name");
        return ExitCode::from(2);
    }
    let (mut states, mut clean) = (0, true);
    for scenario in wanted {
        let report = explore(scenario);
        outln!("{report}");
        states += report.states;
        clean &= report.is_clean();
    }
    outln!("{states} states in all");
    match clean {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
