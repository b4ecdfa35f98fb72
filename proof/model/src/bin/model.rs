//! Explores the protocol's model further than the tests do. Takes names of settings, or explores
//! all.

use std::process::ExitCode;

use baton_model::explore::explore;
use baton_model::settings;
use baton_print::{errln, outln};

fn main() -> ExitCode {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let small = settings::small().into_iter().map(|(setting, _)| setting);
    let mut wanted: Vec<_> = small.chain(settings::large()).collect();
    wanted.retain(|setting| only.is_empty() || only.iter().any(|name| name == setting.name));
    if wanted.is_empty() {
        errln!("model: no setting has such a name");
        return ExitCode::from(2);
    }
    let (mut states, mut clean) = (0, true);
    for setting in wanted {
        let report = explore(setting);
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
