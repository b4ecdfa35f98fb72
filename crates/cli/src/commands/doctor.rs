//! `baton doctor`: checks a server before a fleet lives there. It writes nothing that lasts.

mod facts;
mod finding;
mod network;
mod persistence;
mod place;
mod replicas;
mod server;

use std::process::ExitCode;

use baton::{FleetName, Target};
use baton_protocol::{
    Error, Partitions, RedisUser, Store, TargetKind, ask_sentinels, target_facts,
};
use serde_json::json;

use crate::args::{ConnectionArgs, DoctorArgs};
use crate::client::Away;
use crate::error_line::error_line;
use crate::{client, json, runtime, stdout, target};
use baton::Durability;
use facts::Facts;
use finding::{Finding, Mark};

/// Prints what each check found. The exit code is 1 if one of them failed.
pub(crate) fn run(connection: &ConnectionArgs, args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let target = target::for_command(connection)?;
    let findings = runtime::block_on(async {
        Ok(examine(&target, &connection.fleet, args.durability).await)
    })?;
    let is_well = findings.iter().all(|finding| finding.mark < Mark::Fail);
    let mut report = Vec::new();
    if args.format.json {
        let object = json!({
            "target": target.to_string(),
            "fleet": connection.fleet.as_str(),
            "durability": args.durability.to_string(),
            "ok": is_well,
            "checks": findings,
        });
        json::write_line(&mut report, &object)?;
    } else {
        report.extend(
            findings
                .iter()
                .flat_map(|finding| finding.line().into_bytes()),
        );
    }
    stdout::print(&report)?;
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs every check that can be run.
async fn examine(target: &Target, fleet: &FleetName, durability: Durability) -> Vec<Finding> {
    let mut findings = Vec::new();
    let reports = ask_sentinels(target).await;
    if target_facts(target).kind == TargetKind::Sentinels {
        findings.push(place::sentinels(&reports));
    }
    let views = reports
        .iter()
        .filter_map(|report| report.view.as_ref().ok());
    let known_replicas = views.map(|view| view.replicas).max().unwrap_or_default();
    if let Err(error) =
        examine_server(target, fleet, durability, known_replicas, &mut findings).await
    {
        let advice = "nothing else can be checked";
        findings.push(Finding::fail("connection", error_line(&error), advice));
    }
    findings
}

/// Runs the checks of the server. An error means that it stopped answering.
async fn examine_server(
    target: &Target,
    fleet: &FleetName,
    durability: Durability,
    known_replicas: u64,
    findings: &mut Vec<Finding>,
) -> anyhow::Result<()> {
    let control = client::control_viewer(target, fleet).await?;
    let facts = Facts::read(&control, target_facts(target), durability).await?;
    findings.push(Finding::ok("connection", format!("{target} answers")));
    if facts.target.kind == TargetKind::Cluster {
        // A cluster that is down does not say how many there are.
        let partitions = Partitions::view(target, fleet).await.ok();
        findings.push(place::cluster(&control, partitions.as_ref(), &facts).await?);
    }
    findings.extend(server::check(&facts));
    if facts.info.text("role") != "slave" {
        findings.extend(rights(target, fleet).await);
    }
    findings.extend(persistence::check(&facts));
    findings.extend(replicas::check(&facts, known_replicas));
    findings.extend(network::check(&facts));
    Ok(())
}

/// Tries everything that a node does, on a key of each partition that is deleted again.
async fn rights(target: &Target, fleet: &FleetName) -> Vec<Finding> {
    let refused = |check, error: anyhow::Error, advice| {
        vec![Finding::fail(check, error_line(&error), advice)]
    };
    let grant = "`baton acl node` prints the rule of a user that may do it";
    let control = match client::control(target, fleet).await {
        Ok(control) => control,
        Err(error) => return refused("rights", error, grant),
    };
    let lacks = |error: Error| match error {
        Error::Unavailable(_) => refused(
            "rights",
            error.into(),
            "the server takes no writes at present",
        ),
        error => refused("rights", error.into(), grant),
    };
    if let Err(error) = control.check_rights(RedisUser::Node).await {
        return lacks(error);
    }
    let partitions = match client::partitions(target, fleet).await {
        Ok(partitions) => partitions,
        Err(error) => return refused("rights", error, grant),
    };
    let (reached, away) = Away::split_partitions(&partitions).await;
    let mut findings: Vec<_> = away
        .describe()
        .map(|away| Finding::fail("partitions", away, "bring their servers back"))
        .into_iter()
        .collect();
    let mut stores = vec![&control];
    if partitions.are_several() {
        stores.extend(reached.all().iter().chain(reached.spares()));
    }
    for store in &stores[1..] {
        if let Err(error) = store.check_rights(RedisUser::Node).await {
            findings.extend(lacks(error));
            return findings;
        }
    }
    findings.push(Finding::ok(
        "rights",
        "this user may do all that a node does",
    ));
    findings.extend(match check_keys(&stores).await {
        Ok(()) => vec![Finding::ok(
            "keys",
            "no key of the fleet is used by another program",
        )],
        Err(error) => refused(
            "keys",
            error.into(),
            "choose another --fleet, or another database",
        ),
    });
    findings
}

/// Looks for keys that another program uses.
async fn check_keys(stores: &[&Store]) -> Result<(), Error> {
    for store in stores {
        store.check_keys().await?;
    }
    Ok(())
}
