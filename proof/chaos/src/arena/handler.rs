//! The handler of a run, as its nodes get it.

use std::path::Path;

use super::{Arena, BEHAVIOUR, Settings, source};
use crate::handlers::{self, HandlerKind};
use crate::process_scan;
use crate::proxy::Proxy;

/// The settings of nodes that pretend.
const PRETENDED: &[(&str, &str)] = &[("BATON_ERROR_RATE", "0.05")];
/// The settings of nodes whose handler is a command or a service: an attempt that hangs is over
/// soon, and a message outlives every fault of its handler.
const OWN_WORK: &[(&str, &str)] = &[
    ("BATON_TIMEOUT", "1s"),
    ("BATON_ATTEMPTS", "20"),
    ("BATON_BACKOFF", "50ms..500ms"),
];
/// How long a message takes, in ms.
const WORK: u64 = 10;

/// The environment variables of every node.
pub(super) fn variables(settings: &Settings, folder: &Path) -> Vec<(String, String)> {
    let own: &[(&str, &str)] = match settings.handler {
        HandlerKind::Pretended => PRETENDED,
        HandlerKind::Exec | HandlerKind::Push => OWN_WORK,
    };
    let folder = folder.display().to_string();
    let max_pending = settings.max_pending().to_string();
    BEHAVIOUR
        .iter()
        .chain(own)
        .chain(&[
            ("BATON_MAX_PENDING", max_pending.as_str()),
            (process_scan::RUN, folder.as_str()),
        ])
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .chain(source::variables(settings))
        .collect()
}

impl Arena {
    /// The words and the environment variables that give a node its handler.
    pub(super) fn handler(
        &self,
        number: usize,
        wired: bool,
        env: &[(&str, String)],
    ) -> (Vec<String>, Vec<(String, String)>) {
        let own = env.iter().find(|(name, _)| *name == handlers::WORK_MS);
        let work_ms = own.map_or_else(|| WORK.to_string(), |(_, value)| value.clone());
        let variable = |name: &str, value: String| (name.to_owned(), value);
        match (self.settings.handler, &self.push_service) {
            (HandlerKind::Exec, _) => {
                let program = self.settings.own_program.display().to_string();
                let folder = self.shared.path().display().to_string();
                (
                    vec![
                        "--".to_owned(),
                        program,
                        handlers::COMMAND.to_owned(),
                        folder,
                    ],
                    vec![
                        variable(handlers::NODE, number.to_string()),
                        variable(handlers::WORK_MS, work_ms),
                        variable("BATON_KILL_AFTER", "300ms".to_owned()),
                    ],
                )
            }
            (HandlerKind::Push, Some(service)) => {
                let proxy = self.push_proxy.as_ref().filter(|_| wired);
                let addr = proxy.map_or(service.addr(), Proxy::addr);
                let url = format!("http://{addr}/job?work_ms={work_ms}");
                (Vec::new(), vec![variable("BATON_PUSH", url)])
            }
            _ => (
                Vec::new(),
                vec![variable("BATON_WORK", format!("{work_ms}ms"))],
            ),
        }
    }

    /// What every process of a node has in its environment, see [`process_scan::RUN`].
    pub fn mark(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// The living node with this process id.
    pub fn with_pid(&self, pid: i32) -> Option<usize> {
        let mut alive = self.fleet.alive().into_iter();
        alive.find(|node| i32::try_from(self.fleet.pid(*node)) == Ok(pid))
    }
}
