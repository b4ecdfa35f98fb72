//! What the nodes of a fleet wait for before they call a write confirmed, and what that is worth.

use std::collections::BTreeMap;

use baton_protocol::{Durability, ServerInfo};
use serde::Serialize;

use crate::observe::snapshot::{NodeRole, NodeStatus};

/// Max levels that a warning lists.
const MAX_LISTED: usize = 4;

/// What the living nodes wait for before they call a write confirmed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DurabilityStatus {
    /// The weakest level of the living nodes: `none`, `fsync`, or `replicas:2` for two replicas. None
    /// if no node says its level.
    pub level: Option<String>,
    /// How many living nodes run at each level; a node that does not say its level has `none`.
    pub levels: BTreeMap<String, u64>,
    /// What the weakest level is worth on this server, in a sentence; empty if there is no level.
    pub promise: String,
}

impl DurabilityStatus {
    /// The durability of these nodes on this server, and all that can lose messages there.
    pub(crate) fn of(nodes: &[NodeStatus], server: &ServerInfo) -> (Self, Vec<String>) {
        let living = || nodes.iter().filter(|node| node.role != NodeRole::Dead);
        if living().all(|node| node.durability.is_none()) {
            let warnings = server.warnings(Durability::None);
            return (Self::default(), warnings);
        }
        let mut counts = BTreeMap::<Durability, u64>::new();
        for node in living() {
            let level = node.durability.as_deref().map(level_of);
            *counts.entry(level.unwrap_or_default()).or_default() += 1;
        }
        let weakest = counts.keys().next().copied().unwrap_or_default();
        let mut warnings = server.warnings(weakest);
        warnings.extend(difference(&counts));
        let status = Self {
            level: Some(weakest.to_string()),
            promise: server.promise(weakest),
            levels: counts
                .into_iter()
                .map(|(level, nodes)| (level.to_string(), nodes))
                .collect(),
        };
        (status, warnings)
    }
}

/// The level that a node says. One that this version does not know promises nothing that it could tell.
pub(crate) fn level_of(level: &str) -> Durability {
    level.parse().unwrap_or_default()
}

/// That the nodes differ, if they do.
fn difference(counts: &BTreeMap<Durability, u64>) -> Option<String> {
    if counts.len() < 2 {
        return None;
    }
    let listed = counts.iter().take(MAX_LISTED);
    let listed: Vec<String> = listed
        .map(|(level, nodes)| format!("{nodes} at {level}"))
        .collect();
    let others = match counts.len() - listed.len() {
        0 => String::new(),
        others => format!(" and {others} more levels"),
    };
    Some(format!(
        "the nodes differ in durability ({}{others}): the fleet keeps only what the weakest \
         promises",
        listed.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(role: NodeRole, durability: Option<&str>) -> NodeStatus {
        NodeStatus {
            role,
            durability: durability.map(str::to_owned),
            ..NodeStatus::default()
        }
    }

    /// A server that loses nothing by itself, with two replicas.
    fn server() -> ServerInfo {
        let mut server = ServerInfo::parse(
            "aof_enabled:1\r\nconnected_slaves:2\r\n\
             slave0:ip=::1,port=1,state=online,offset=0,lag=0\r\n\
             slave1:ip=::1,port=2,state=online,offset=0,lag=0\r\n",
        );
        server.appendfsync = Some("always".to_owned());
        server
    }

    #[test]
    fn nodes_that_all_wait_for_every_replica_lose_nothing() {
        let nodes = [
            node(NodeRole::Generator, Some("replicas:2")),
            node(NodeRole::Worker, Some("replicas:2")),
            node(NodeRole::Dead, Some("none")),
        ];
        let (status, warnings) = DurabilityStatus::of(&nodes, &server());
        assert_eq!(
            status,
            DurabilityStatus {
                level: Some("replicas:2".to_owned()),
                levels: [("replicas:2".to_owned(), 2)].into(),
                promise: "a failover to any of the 2 replicas loses nothing confirmed".to_owned(),
            }
        );
        assert_eq!(warnings, [""; 0]);
    }

    #[test]
    fn the_weakest_node_decides_and_a_difference_is_a_warning() {
        let nodes = [
            node(NodeRole::Generator, Some("replicas:2")),
            node(NodeRole::Worker, Some("replicas:2")),
            node(NodeRole::Worker, None),
        ];
        let (status, warnings) = DurabilityStatus::of(&nodes, &server());
        assert_eq!(status.level.as_deref(), Some("none"));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("2 replicas follow asynchronously"));
        assert!(warnings[1].contains("(1 at none, 2 at replicas:2)"));
        let many: Vec<NodeStatus> = (1..=9)
            .map(|n| node(NodeRole::Worker, Some(&format!("replicas:{n}"))))
            .collect();
        let (_, warnings) = DurabilityStatus::of(&many, &server());
        assert!(warnings[1].contains("1 at replicas:4 and 5 more levels)"));
    }

    #[test]
    fn a_level_that_this_version_does_not_know_is_none() {
        for (said, level) in [
            ("replicas:2", "replicas:2"),
            ("quorum", "none"),
            ("", "none"),
        ] {
            assert_eq!(level_of(said).to_string(), level);
        }
    }

    #[test]
    fn nodes_that_say_no_level_have_none() {
        for nodes in [&[][..], &[node(NodeRole::Worker, None)]] {
            let (status, warnings) = DurabilityStatus::of(nodes, &server());
            assert_eq!(status, DurabilityStatus::default());
            assert_eq!(warnings.len(), 1, "{warnings:?}");
        }
    }
}
