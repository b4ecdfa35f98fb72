//! What a Redis user needs for each of Baton's programs: keys, channels and single commands.
//!
//! The lists here are the only ones. `baton acl` prints them, and the preflight of a program tries
//! each command of its list before the program changes anything.

use crate::keys::{FleetName, Keys};

/// For whom a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RedisUser {
    /// A node, and every command that changes a fleet.
    Node,
    /// Commands that only read.
    Viewer,
    /// `getErrors`: it takes failed messages, and can change nothing else on purpose.
    GetErrors,
    /// A client of a Sentinel. Sentinels have users of their own.
    Sentinel,
}

impl RedisUser {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Node, Self::Viewer, Self::GetErrors, Self::Sentinel];

    /// The name in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Viewer => "viewer",
            Self::GetErrors => "getErrors",
            Self::Sentinel => "sentinel",
        }
    }
}

/// The server for which a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleServer {
    /// Its version, such as 7 and 0.
    pub release: (u32, u32),
    /// Whether it belongs to a cluster.
    pub cluster: bool,
    /// Whether the fleet lies in a database other than 0.
    pub other_database: bool,
}

/// From this version on a server has `EVAL_RO`, and keys that a user may only read.
const READ_ONLY_KEYS: (u32, u32) = (7, 0);

/// Commands with which every client of a fleet connects and reads in one step.
const EVERY_CLIENT: [&str; 4] = ["info", "multi", "exec", "type"];
/// Commands of every client that runs scripts which write.
const EVERY_WRITER: [&str; 3] = ["subscribe", "eval", "evalsha"];
/// Further commands that a node sends itself.
const NODE_PLAIN: [&str; 1] = ["wait"];
/// Commands of the scripts, of a node's own reads, and of its confirmations (`expire`).
const NODE_SCRIPTS: [&str; 41] = [
    "time",
    "get",
    "set",
    "strlen",
    "pttl",
    "persist",
    "rename",
    "del",
    "expire",
    "hget",
    "hmget",
    "hgetall",
    "hset",
    "hsetnx",
    "hdel",
    "hexists",
    "hlen",
    "hstrlen",
    "hincrby",
    "hrandfield",
    "llen",
    "lindex",
    "lrange",
    "lpush",
    "rpush",
    "lpop",
    "lset",
    "ltrim",
    "zadd",
    "zcard",
    "zscore",
    "zmscore",
    "zrange",
    "zrangebyscore",
    "zrandmember",
    "zrem",
    "zpopmin",
    "publish",
    "pubsub|numsub",
    "pubsub|channels",
    "type",
];
/// Commands of the snapshot, of its script, and of a page of failed messages.
const VIEWER_READS: [&str; 12] = [
    "time",
    "hget",
    "hmget",
    "hgetall",
    "hexists",
    "hlen",
    "hstrlen",
    "llen",
    "lrange",
    "zcard",
    "zrange",
    "pubsub|channels",
];
/// Commands of the scripts that claim, extend and commit failed messages, and that put back what the
/// dead had claimed. With `expire` the preflight removes its key: this user has no right to `del`.
const GET_ERRORS_SCRIPTS: [&str; 24] = [
    "time",
    "expire",
    "hget",
    "hmget",
    "hset",
    "hdel",
    "hexists",
    "hlen",
    "hstrlen",
    "hrandfield",
    "llen",
    "lrange",
    "lpush",
    "lset",
    "zadd",
    "zcard",
    "zscore",
    "zrange",
    "zrangebyscore",
    "zrandmember",
    "zrem",
    "zpopmin",
    "publish",
    "pubsub|numsub",
];
/// With what a client of a cluster finds the server of its fleet.
const CLUSTER: [&str; 2] = ["cluster|keyslot", "cluster|slots"];
/// With what a client asks a Sentinel for the master, and hears that the master moves.
const SENTINEL: [&str; 2] = ["sentinel|master", "subscribe"];

/// The channels of a Sentinel that name a new master: it has sent the order to a replica, it has seen that
/// the replica is the master (up to a second later), and all clients shall use that server.
pub(crate) const SENTINEL_CHANNELS: [&str; 3] = [
    "+failover-state-wait-promotion",
    "+promoted-slave",
    "+switch-master",
];

/// Everything that one user needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Patterns of keys, in the words of an ACL.
    pub keys: Vec<String>,
    /// Patterns of channels, in the words of an ACL.
    pub channels: Vec<String>,
    /// Single commands, in lower case; `pubsub|numsub` is a subcommand.
    pub commands: Vec<&'static str>,
}

impl Rule {
    /// What this user needs for this fleet on such a server.
    pub fn new(user: RedisUser, fleet: &FleetName, server: RuleServer) -> Self {
        let names = Keys::new(fleet);
        let keys = Keys::pattern(fleet);
        let keys = match user {
            RedisUser::Sentinel => Vec::new(),
            RedisUser::Viewer if server.release >= READ_ONLY_KEYS => vec![format!("%R~{keys}")],
            _ => vec![format!("~{keys}")],
        };
        let channels = match user {
            RedisUser::Viewer => Vec::new(),
            RedisUser::Sentinel => SENTINEL_CHANNELS.map(|name| format!("&{name}")).to_vec(),
            RedisUser::Node | RedisUser::GetErrors => {
                vec![
                    format!("&{}*", names.presence),
                    format!("&{}*", names.calls),
                ]
            }
        };
        Self {
            keys,
            channels,
            commands: commands(user, server),
        }
    }

    /// The words behind `ACL SETUSER NAME`. They replace the rights that the user had, and leave its
    /// passwords.
    pub fn words(&self) -> Vec<String> {
        let start = ["on", "resetkeys", "resetchannels", "-@all"].map(str::to_owned);
        let commands = self.commands.iter().map(|command| format!("+{command}"));
        let patterns = self.keys.iter().chain(&self.channels).cloned();
        start.into_iter().chain(patterns).chain(commands).collect()
    }
}

/// The commands that a script can try for this user. The others need a connection of their own, or
/// cannot run in a script.
pub(crate) fn script_commands(user: RedisUser) -> &'static [&'static str] {
    match user {
        RedisUser::Node => &NODE_SCRIPTS,
        RedisUser::Viewer => &VIEWER_READS,
        RedisUser::GetErrors => &GET_ERRORS_SCRIPTS,
        RedisUser::Sentinel => &[],
    }
}

fn commands(user: RedisUser, server: RuleServer) -> Vec<&'static str> {
    let has_read_only_scripts = server.release >= READ_ONLY_KEYS;
    let mut commands = match user {
        RedisUser::Sentinel => return SENTINEL.to_vec(),
        RedisUser::Node => [&EVERY_CLIENT[..], &EVERY_WRITER, &NODE_PLAIN].concat(),
        RedisUser::GetErrors => [&EVERY_CLIENT[..], &EVERY_WRITER].concat(),
        RedisUser::Viewer => match has_read_only_scripts {
            true => EVERY_CLIENT.to_vec(),
            false => [&EVERY_CLIENT[..], &["eval"]].concat(),
        },
    };
    if has_read_only_scripts {
        commands.push("eval_ro");
    }
    if server.cluster {
        commands.extend(CLUSTER);
    }
    if server.other_database {
        commands.push("select");
    }
    for command in script_commands(user) {
        if !commands.contains(command) {
            commands.push(command);
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(user: RedisUser, release: (u32, u32)) -> String {
        let server = RuleServer {
            release,
            cluster: false,
            other_database: false,
        };
        Rule::new(user, &FleetName::new("f").unwrap(), server)
            .words()
            .join(" ")
    }

    #[test]
    fn a_rule_names_each_command_once_and_no_category_but_none() {
        for user in RedisUser::ALL {
            let rule = rule(user, (7, 0));
            let mut words: Vec<&str> = rule.split(' ').collect();
            let count = words.len();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), count, "{rule}");
            assert!(!rule.contains("+@") && !rule.contains("~*"), "{rule}");
        }
    }

    #[test]
    fn a_server_before_7_0_gets_no_word_that_it_does_not_know() {
        for user in RedisUser::ALL {
            let old = rule(user, (6, 2));
            assert!(!old.contains('%') && !old.contains("eval_ro"), "{old}");
        }
        let viewer = rule(RedisUser::Viewer, (7, 0));
        assert!(viewer.contains(" %R~baton:{f:* "), "{viewer}");
        assert!(!viewer.contains("+eval "), "{viewer}");
    }
}
