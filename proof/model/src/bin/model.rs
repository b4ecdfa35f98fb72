//! Explores the model further than the tests do. Takes names of scenarios; without names it explores
//! all.

use std::process::ExitCode;

use baton_model::explore::{self, Report};
use baton_model::{partitions, scenarios};
use baton_print::{errln, outln};

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| only.is_empty() || only.iter().any(|wanted| wanted == name);
    let (mut states, mut clean, mut explored) = (0, true, 0);
    let mut show = |report: Report| {
        outln!("{report}");
        states += report.states;
        clean &= report.is_clean();
        explored += 1;
    };
    let small = scenarios::small().into_iter().map(|(scenario, _)| scenario);
    for scenario in small.chain(scenarios::large()) {
        if is_wanted(scenario.name) {
            show(explore::explore(scenario));
        }
    }
    let small = partitions::small()
        .into_iter()
        .map(|(scenario, _)| scenario);
    for scenario in small.chain(partitions::large()) {
        if is_wanted(scenario.name) {
            show(partitions::explore(scenario));
        }
    }
    if explored == 0 {
        errln!("model: no scenario has this name");
        return ExitCode::from(2);
    }
    outln!("{states} states in all");
    match clean {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
