//! What the server says about itself, read before anything is judged.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use baton_protocol::{Error, RoundTrip, Store, TargetFacts, TargetKind};

use baton::Durability;

/// How many round trips are timed, and for how long at most.
const TRIPS: usize = 100;
const TRIPS_TIME: Duration = Duration::from_secs(1);

/// The fields of `INFO`.
pub(super) struct Info(pub(super) HashMap<String, String>);

impl Info {
    /// A field; empty if the server does not have it.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A number; 0 if the server does not have it.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }
}

/// Everything that the checks judge.
pub(super) struct Facts {
    pub(super) target: TargetFacts,
    pub(super) durability: Durability,
    pub(super) info: Info,
    /// Settings that INFO does not have, by their names. Those that this user may not read are missing.
    pub(super) settings: HashMap<&'static str, String>,
    pub(super) trips: Vec<RoundTrip>,
    pub(super) certificate_expiry: Option<SystemTime>,
    /// Where the server is.
    pub(super) place: String,
}

impl Facts {
    /// Reads all of it.
    pub(super) async fn read(
        store: &Store,
        target: TargetFacts,
        durability: Durability,
    ) -> Result<Self, Error> {
        let info = Info(store.info_fields().await?);
        let mut settings = HashMap::new();
        for name in [
            "appendfsync",
            "min-replicas-to-write",
            "cluster-require-full-coverage",
        ] {
            if let Some(value) = store.setting(name).await {
                settings.insert(name, value);
            }
        }
        Ok(Self {
            target,
            durability,
            info,
            settings,
            trips: store.round_trips(TRIPS, TRIPS_TIME).await?,
            certificate_expiry: store.certificate_expiry().await,
            place: store.place(),
        })
    }

    /// Whether another server can take over from this one.
    pub(super) fn has_failover(&self) -> bool {
        self.target.kind != TargetKind::Server
    }
}
