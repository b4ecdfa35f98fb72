//! The source of a run, as its nodes get it.

use super::Settings;
use crate::handlers::HandlerKind;
use crate::sources::{self, SourceKind};
use crate::topology::Topology;

/// The environment variables of every node.
pub(super) fn variables(settings: &Settings) -> Vec<(String, String)> {
    // A command costs more than pretended work.
    let ms = match settings.handler {
        HandlerKind::Exec => 25,
        HandlerKind::Pretended | HandlerKind::Push => 10,
    };
    let variable = |name: &str, value: String| (name.to_owned(), value);
    match settings.source {
        SourceKind::Random => {
            // With a group, a text that a log has tells one message from another: none may repeat.
            let hostile = settings.topology == Topology::Single;
            let hostile = hostile.then(|| variable("BATON_HOSTILE", "1".to_owned()));
            let interval = variable("BATON_INTERVAL", format!("{ms}ms"));
            [interval].into_iter().chain(hostile).collect()
        }
        SourceKind::Rows => {
            let program = settings.own_program.display();
            vec![
                variable(
                    "BATON_SOURCE",
                    format!("exec '{program}' {}", sources::COMMAND),
                ),
                variable("BATON_SOURCE_FORMAT", "json".to_owned()),
                variable(sources::ROW_MS, ms.to_string()),
            ]
        }
    }
}
