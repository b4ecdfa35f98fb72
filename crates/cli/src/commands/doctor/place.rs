//! Who says where the server is: Sentinels, or a cluster.

use std::collections::BTreeMap;

use baton_protocol::{Error, Partitions, SentinelReport, Store};

use super::facts::{Facts, Info};
use super::finding::Finding;

/// How many slots a cluster has.
const SLOTS: u64 = 16384;

/// Checks that enough Sentinels answer, and that they agree.
pub(super) fn sentinels(reports: &[SentinelReport]) -> Finding {
    const CHECK: &str = "sentinels";
    let views: Vec<_> = reports
        .iter()
        .filter_map(|report| report.view.as_ref().ok())
        .collect();
    let silent: Vec<String> = reports
        .iter()
        .filter_map(|report| {
            let why = report.view.as_ref().err()?;
            Some(format!("{}: {why}", report.sentinel))
        })
        .collect();
    let Some(first) = views.first() else {
        let found = format!("none answers ({})", silent.join("; "));
        return Finding::fail(CHECK, found, "start them, and check the URL");
    };
    let known = views.iter().map(|view| view.sentinels).max();
    let known = known.unwrap_or_default();
    let quorum = views.iter().map(|view| view.quorum).max();
    let quorum = quorum.unwrap_or_default();
    let answering = views.len() as u64;
    let found = format!(
        "{answering} of {} answer and know of {known}, quorum {quorum}, master {}",
        reports.len(),
        first.master
    );
    let majority = known / 2 + 1;
    if views.iter().any(|view| view.master != first.master) {
        let named: Vec<_> = views.iter().map(|view| view.master.as_str()).collect();
        let found = format!("{found}; they do not agree: {}", named.join(", "));
        return Finding::warn(CHECK, found, "a failover may be under way: try again");
    }
    if let Some(view) = views.iter().find(|view| view.flags.contains("_down")) {
        let found = format!("{found}; one takes it for dead ({})", view.flags);
        return Finding::warn(CHECK, found, "a failover may be under way: try again");
    }
    if !silent.is_empty() {
        let found = format!("{found}; {}", silent.join("; "));
        return Finding::warn(
            CHECK,
            found,
            format!(
                "a failover needs {quorum} to notice and {majority} to agree: start the others"
            ),
        );
    }
    if known < 3 {
        let advice = "with fewer than three, the loss of one ends failovers: run three";
        return Finding::warn(CHECK, found, advice);
    }
    if quorum > known {
        let advice = "no failover can begin: lower the quorum";
        return Finding::warn(CHECK, found, advice);
    }
    Finding::ok(CHECK, found)
}

/// Checks that the cluster covers all slots, and what it does if it does not.
pub(super) async fn cluster(
    control: &Store,
    partitions: Option<&Partitions>,
    facts: &Facts,
) -> Result<Finding, Error> {
    const CHECK: &str = "cluster";
    let slot = control.slot().await?;
    let several = partitions.filter(|partitions| partitions.are_several());
    let place = match several {
        Some(partitions) => format!("{}, {}", facts.place, describe(partitions)),
        None => facts.place.clone(),
    };
    let place = format!("the fleet's slot {slot} is on {place}");
    let fields = match control.cluster_fields().await {
        Ok(fields) => Info(fields),
        Err(Error::Refused(why)) => {
            let found = format!("{place}; the rest is unknown ({why})");
            let advice = "let doctor log in as a user that may run CLUSTER INFO";
            return Ok(Finding::warn(CHECK, found, advice));
        }
        Err(error) => return Err(error),
    };
    let covered = fields.number("cluster_slots_ok");
    let found = format!(
        "{place}; it has {} masters, and {covered} of {SLOTS} slots are served",
        fields.number("cluster_size")
    );
    let coverage = facts.settings.get("cluster-require-full-coverage");
    if fields.text("cluster_state") != "ok" {
        let advice =
            "it refuses every call (CLUSTERDOWN): bring back the masters of the missing slots";
        return Ok(Finding::fail(CHECK, found, advice));
    }
    if covered < SLOTS {
        let advice = "bring back the masters of the missing slots";
        return Ok(Finding::warn(CHECK, found, advice));
    }
    Ok(match coverage.map(String::as_str) {
        Some("yes") => Finding::warn(
            CHECK,
            found,
            "while any master is down, all refuse every call: set cluster-require-full-coverage no",
        ),
        _ => Finding::ok(CHECK, found),
    })
}

/// Which server has how many partitions.
fn describe(partitions: &Partitions) -> String {
    let mut counts = BTreeMap::<String, u64>::new();
    for store in partitions.all() {
        *counts.entry(store.place()).or_default() += 1;
    }
    let counts = counts.iter().map(|(place, count)| match place.as_str() {
        "" => format!("{count} out of reach"),
        place => format!("{count} on {place}"),
    });
    let counts = counts.collect::<Vec<_>>().join(", ");
    format!("its {} partitions: {counts}", partitions.all().len())
}
