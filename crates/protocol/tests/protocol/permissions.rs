//! Users who lack a right: preflight names it before the node joins.

use std::collections::BTreeSet;
use std::path::Path;

use baton::{Effects, Error, Inspector};
use baton_protocol::{Beat, Commit, CommitCall, Part, Publish, Seal};

use crate::support::{Fleet, Lane, beat, commit_call, publish};

/// A new user with the password `secret` and these rules. Users belong to the server, so
/// their names carry the fleet's.
async fn user(fleet: &Fleet, name: &str, rules: &[&str]) -> String {
    let name = format!("{}-{name}", fleet.name);
    let mut words = vec!["ACL", "SETUSER", &name];
    words.extend(["reset", "resetchannels", "on", ">secret"]);
    words.extend(rules);
    fleet.write(&words).await;
    name
}

/// The commands that the scripts call, read from their files, and TYPE, which every effect needs.
/// `effects.lua` is left out: which other commands a fleet's effects need, its handlers decide.
fn commands_of_scripts() -> BTreeSet<String> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
    let files = [scripts.clone(), scripts.join("fragments")]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .filter(|path| !path.ends_with("effects.lua") && !path.ends_with("preflight.lua"));
    let mut commands = BTreeSet::from(["type".to_owned()]);
    for path in files {
        let source = std::fs::read_to_string(path).unwrap();
        for call in source.split("call('").skip(1) {
            commands.insert(call.split('\'').next().unwrap().to_lowercase());
        }
    }
    commands
}

#[tokio::test]
async fn preflight_names_each_command_that_the_user_lacks() {
    let fleet = Fleet::new().await;
    let commands = commands_of_scripts();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let minus = format!("-{command}");
        let name = user(&fleet, &command, &["~*", "&*", "+@all", &minus]).await;
        let node = fleet.node_as(&name, "n").await.unwrap();
        let error = node.preflight(false).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{command}: {error:?}");
        let (_, named) = error.to_string().split_once(": ").map_or_else(
            || panic!("{error}"),
            |(head, named)| (head.to_owned(), named.to_owned()),
        );
        let first = named.split([',', ' ']).next();
        assert_eq!(first, Some(command.as_str()), "{error}");
    }
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn preflight_names_the_command_that_idle_workers_block_on() {
    let fleet = Fleet::new().await;
    let name = user(&fleet, "deaf", &["~*", "&*", "+@all", "-blpop"]).await;
    let node = fleet.node_as(&name, "n").await.unwrap();
    let error = node.preflight(false).await.unwrap_err().to_string();
    assert!(error.contains("blpop"), "{error}");
}

#[tokio::test]
async fn preflight_names_the_commands_that_read_a_fleet() {
    let fleet = Fleet::new().await;
    for missing in ["multi", "exec"] {
        let minus = format!("-{missing}");
        let name = user(&fleet, missing, &["~*", "&*", "+@all", &minus]).await;
        let node = fleet.node_as(&name, "n").await.unwrap();
        let error = node.preflight(false).await.unwrap_err().to_string();
        assert!(error.contains("multi, exec"), "{missing}: {error}");
    }
}

#[tokio::test]
async fn preflight_leaves_nothing_behind() {
    let fleet = Fleet::new().await;
    fleet.node("n").await.preflight(false).await.unwrap();
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn a_user_with_the_commands_of_the_scripts_and_the_fleet_s_keys_can_run_a_fleet() {
    let fleet = Fleet::new().await;
    let mut rules: Vec<String> = commands_of_scripts()
        .iter()
        .map(|command| format!("+{command}"))
        .collect();
    let keys = format!("~baton:{{{}*", fleet.name);
    let channels = format!("&baton:{{{}*", fleet.name);
    for rule in [
        "+eval",
        "+evalsha",
        "+eval_ro",
        "+info",
        "+subscribe",
        "+del",
        "+type",
        "+blpop",
        "+multi",
        "+exec",
        "+hgetall",
        "+lrange",
    ] {
        rules.push(rule.to_owned());
    }
    rules.extend([keys, channels]);
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let name = user(&fleet, "least", &rules).await;
    let node = fleet.node_as(&name, "n").await.unwrap();
    node.preflight(false).await.unwrap();
    assert!(matches!(beat(&node).await, Beat::Generator { .. }));
    assert!(matches!(node.seal(1).await.unwrap(), Seal::Sealed { .. }));
    assert_eq!(publish(&node, 1, 2).await, Publish::Ok);
    let w = Lane::new(node);
    assert_eq!(w.take(1, 2).await, "m1 m2");
    assert_eq!(w.commit(1, 1..=2).await, Commit::Done);
    let _ = w.store.reclaim().await.unwrap();
    let _ = w.store.pause(&Part::ALL).await.unwrap();
    let _ = w.store.resume(&Part::ALL).await.unwrap();
    assert!(
        Inspector::over(w.store.clone())
            .snapshot()
            .await
            .unwrap()
            .balanced
    );
}

#[tokio::test]
async fn a_user_who_may_not_be_present_is_refused_at_once() {
    let fleet = Fleet::new().await;
    let name = user(&fleet, "mute", &["~*", "+@all"]).await;
    let Err(error) = fleet.node_as(&name, "n").await else {
        panic!("connected without presence");
    };
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("NOPERM"), "{error}");
}

/// A worker of this user stages an effect that the rules forbid; returns the reason.
async fn refused_effect(fleet: &Fleet, rules: &[&str]) -> String {
    let (_g, _w) = fleet.with_messages(1).await;
    let name = user(fleet, "u", rules).await;
    let w = Lane::new(fleet.node_as(&name, "u").await.unwrap());
    assert_eq!(w.take(1, 1).await, "m1");
    let before = fleet.dump().await;
    let mut effects = Effects::default();
    effects.incr_by(fleet.app("count"), 1);
    effects.sadd(fleet.app("set"), "member");
    let outcomes = CommitCall {
        effects: &effects,
        ..commit_call(1..=1, &[])
    };
    let reason = match w.store.commit(&w.slot, 1, outcomes).await {
        Ok(Commit::Refused { reason }) | Err(Error::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(fleet.dump().await, before);
    assert_eq!(w.commit(1, 1..=1).await, Commit::Done);
    reason
}

#[tokio::test]
async fn an_effect_that_the_user_may_not_run_writes_nothing_at_all() {
    let fleet = Fleet::new().await;
    let reason = refused_effect(&fleet, &["~*", "&*", "+@all", "-sadd"]).await;
    assert!(reason.contains(&fleet.app("set")), "{reason}");
    assert!(reason.contains("SADD"), "{reason}");
}

#[tokio::test]
async fn an_effect_on_a_key_that_is_not_the_user_s_writes_nothing_at_all() {
    let fleet = Fleet::new().await;
    let reason = refused_effect(&fleet, &["~baton:*", "&*", "+@all"]).await;
    assert!(reason.contains("key"), "{reason}");
}
