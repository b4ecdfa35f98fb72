//! `baton acl`: prints the rules of Redis users that can do what Baton does, and no more.

use std::process::ExitCode;

use baton_print::errln;
use baton_protocol::{RedisUser, Rule, RuleServer, TargetFacts, TargetKind, target_facts};
use serde_json::json;

use crate::args::{AclArgs, ConnectionArgs};
use crate::{json, stdout, target};

/// Prints one line for each user. Connects to nothing.
pub(crate) fn run(connection: &ConnectionArgs, args: &AclArgs) -> anyhow::Result<ExitCode> {
    let target = target::named(connection)?;
    let facts = target.as_ref().map(target_facts);
    let is = |kind| facts.is_some_and(|facts: TargetFacts| facts.kind == kind);
    let database = facts.map_or(0, |facts| facts.database);
    let server = RuleServer {
        release: args.server_version,
        cluster: is(TargetKind::Cluster),
        other_database: connection.db.unwrap_or(database) != 0,
    };
    let mut lines = Vec::new();
    for user in args.users() {
        let name = user_name(user, connection);
        let rule = Rule::new(user, &connection.fleet, server);
        let line = format!("ACL SETUSER {name} {}", rule.words().join(" "));
        if args.format.json {
            let object = json!({
                "user": name,
                "for": user.as_str(),
                "keys": rule.keys,
                "channels": rule.channels,
                "commands": rule.commands,
                "rule": line,
            });
            json::write_line(&mut lines, &object)?;
        } else {
            lines.extend(line.bytes().chain([b'\n']));
        }
    }
    stdout::print(&lines)?;
    if !args.format.json {
        errln!(
            "baton: a user without a password cannot log in: ACL SETUSER NAME '>PASSWORD' gives it one, \
             and the lines above keep it"
        );
        if is(TargetKind::Sentinels) {
            errln!("baton: `baton acl sentinel` prints the user of the Sentinels themselves");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A name that no other fleet's user has.
fn user_name(user: RedisUser, connection: &ConnectionArgs) -> String {
    format!("baton-{}-{}", connection.fleet, user.as_str())
}
