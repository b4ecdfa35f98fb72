//! Users who lack a right: preflight names it before the node joins.

use std::collections::BTreeSet;
use std::path::Path;

use baton::{Effects, Error, Inspector};
use baton_protocol::{Beat, Commit, CommitCall, Part, RedisUser, Rule, RuleServer, Seal, Store};

use crate::support::{Fleet, Lane, beat, commit_call, publish};

/// A user with the password `secret` and these rules, whatever it was before. Users belong to the
/// server, so their names carry the fleet's.
async fn user(fleet: &Fleet, name: &str, rules: &[impl AsRef<str>]) -> String {
    let name = format!("{}-{name}", fleet.name);
    let mut words = vec!["ACL", "SETUSER", &name];
    words.extend(["reset", "resetchannels", "on", ">secret"]);
    words.extend(rules.iter().map(AsRef::as_ref));
    fleet.write(&words).await;
    name
}

/// The rule of a user for this fleet on the server that it is on.
async fn rule(fleet: &Fleet, user: RedisUser) -> Rule {
    let info: String = fleet.raw(&["INFO", "server"]).await;
    let version = info.lines().find_map(|l| l.strip_prefix("redis_version:"));
    let mut numbers = version.unwrap().split('.').map(|n| n.parse().unwrap());
    let server = RuleServer {
        release: (numbers.next().unwrap(), numbers.next().unwrap()),
        cluster: false,
        other_database: false,
    };
    Rule::new(user, &fleet.name, server)
}

/// The rule without one of its words.
fn without(rule: &Rule, word: &str) -> Vec<String> {
    let mut words = rule.words();
    let before = words.len();
    words.retain(|other| other != word);
    assert_eq!(words.len() + 1, before, "{word}");
    words
}

/// The commands that scripts call, read from their files. `effects.lua` is left out: which commands a
/// fleet's effects need, its handlers decide.
fn commands_of_scripts(is_used: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
    let files = [scripts.clone(), scripts.join("fragments")]
        .into_iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "lua"))
        .filter(|path| is_used(path.file_stem().unwrap().to_str().unwrap()));
    let mut commands = BTreeSet::new();
    for path in files {
        let source = std::fs::read_to_string(path).unwrap();
        for call in source.split("call('").skip(1) {
            let mut words = call.split('\'');
            let command = words.next().unwrap().to_lowercase();
            let sub = words.nth(1).unwrap_or_default().to_lowercase();
            commands.insert(match command.as_str() {
                "pubsub" => format!("pubsub|{sub}"),
                _ => command,
            });
        }
    }
    commands
}

/// Compares a list with what scripts call and with what the client sends beside them: no command may
/// be missing, and none may be superfluous.
async fn assert_exact(user: RedisUser, scripts: BTreeSet<String>, plain: &str) {
    let fleet = Fleet::new().await;
    let rule = rule(&fleet, user).await;
    let listed: BTreeSet<String> = rule.commands.iter().map(|&word| word.to_owned()).collect();
    let mut needed = scripts;
    needed.extend(plain.split(' ').map(str::to_owned));
    if rule.keys[0].starts_with("~") && !listed.contains("eval_ro") {
        // A server before 7.0.
        needed.remove("eval_ro");
    }
    assert_eq!(listed, needed);
}

#[tokio::test]
async fn a_node_s_rule_has_what_scripts_and_client_send_and_no_more() {
    let is_used = |name: &str| !["effects", "preflight"].contains(&name);
    let plain =
        "info type multi exec subscribe eval evalsha eval_ro wait expire hgetall pubsub|channels";
    assert_exact(RedisUser::Node, commands_of_scripts(is_used), plain).await;
}

#[tokio::test]
async fn the_rule_of_get_errors_has_what_scripts_and_client_send_and_no_more() {
    let used = "reclaim errors_claim errors_commit extend clock key_types counts presence range suspects \
                ring claim_value errors_store stubs first_write put_back";
    let is_used = |name: &str| used.split_whitespace().any(|used| used == name);
    // With `expire` the preflight removes its key.
    let plain = "info type multi exec subscribe eval evalsha eval_ro hmget expire";
    assert_exact(RedisUser::GetErrors, commands_of_scripts(is_used), plain).await;
}

/// Connects as this user does, and tries its rights.
async fn try_as(fleet: &Fleet, user: RedisUser, name: &str) -> Result<(), Error> {
    let store = match user {
        RedisUser::Viewer => fleet.view_as(name).await?,
        _ => fleet.node_as(name, "n").await?,
    };
    match user {
        RedisUser::Viewer => view(&store).await,
        RedisUser::GetErrors => store.preflight_to_drain().await,
        _ => store.preflight(false).await,
    }
}

/// Reads all that a viewer reads.
async fn view(store: &Store) -> Result<(), Error> {
    Inspector::over(store.clone()).snapshot().await?;
    store.errors_before(None, 10).await.map(drop)
}

#[tokio::test]
async fn each_user_needs_each_word_of_its_rule_and_is_told_which_command_is_missing() {
    for redis_user in [RedisUser::Node, RedisUser::GetErrors, RedisUser::Viewer] {
        let fleet = Fleet::new().await;
        fleet.fail(&["no record, but something to read"]).await;
        let rule = rule(&fleet, redis_user).await;
        let who = redis_user.as_str();
        let name = user(&fleet, who, &rule.words()).await;
        try_as(&fleet, redis_user, &name).await.unwrap();
        let before = fleet.dump().await;
        for command in &rule.commands {
            let (viewer, is_type) = (redis_user == RedisUser::Viewer, *command == "type");
            // A viewer asks for types only to name a key of a wrong one.
            let spoilt = (viewer && is_type).then_some(&fleet.keys.queue);
            if let Some(key) = spoilt {
                fleet.write(&["SET", key, "spoilt"]).await;
            }
            let name = user(&fleet, who, &without(&rule, &format!("+{command}"))).await;
            let refused = try_as(&fleet, redis_user, &name).await;
            let Err(Error::Refused(why)) = refused else {
                panic!("{who} without {command}: {refused:?}");
            };
            let mut named = why.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '|');
            let base = command.split('|').next();
            assert!(
                named.any(|word| word == *command || Some(word) == base),
                "{who} without {command}: {why}"
            );
            if let Some(key) = spoilt {
                fleet.write(&["DEL", key]).await;
            }
        }
        for pattern in rule.keys.iter().chain(&rule.channels) {
            let name = user(&fleet, who, &without(&rule, pattern)).await;
            let refused = try_as(&fleet, redis_user, &name).await;
            assert!(
                matches!(refused, Err(Error::Refused(_))),
                "{who} without {pattern}: {refused:?}"
            );
        }
        assert_eq!(fleet.dump().await, before, "{who}");
    }
}

#[tokio::test]
async fn preflight_leaves_nothing_behind() {
    let fleet = Fleet::new().await;
    fleet.node("n").await.preflight(false).await.unwrap();
    assert_eq!(fleet.dump().await, [""; 0]);
}

#[tokio::test]
async fn a_user_with_the_rights_of_a_node_can_run_a_fleet() {
    let fleet = Fleet::new().await;
    let rule = rule(&fleet, RedisUser::Node).await;
    let name = user(&fleet, "least", &rule.words()).await;
    let node = fleet.node_as(&name, "n").await.unwrap();
    node.preflight(false).await.unwrap();
    assert!(matches!(beat(&node).await, Beat::Generator { .. }));
    assert!(matches!(node.seal(1).await.unwrap(), Seal::Sealed { .. }));
    assert!(publish(&node, 1, 2).await.is_written());
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
