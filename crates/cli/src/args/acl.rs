//! The flags of `acl`.

use baton_protocol::RedisUser;
use clap::ValueEnum;

use super::FormatArgs;

/// The oldest server that Baton runs on.
const OLDEST: (u32, u32) = (6, 2);

#[derive(clap::Args)]
pub(crate) struct AclArgs {
    /// Which user; node, viewer and getErrors if you name none
    #[arg(value_name = "USER")]
    user: Option<NamedUser>,
    /// Version of the server; the rules for 7.0 suit every later one, and every Valkey
    #[arg(
        long,
        value_name = "VERSION",
        env = "BATON_SERVER_VERSION",
        default_value = "7.0",
        value_parser = release
    )]
    pub(crate) server_version: (u32, u32),
    #[command(flatten)]
    pub(crate) format: FormatArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum NamedUser {
    /// `run`, and the commands that change a fleet
    Node,
    /// `status`, `top`, `errors`, and `web` without actions
    Viewer,
    /// `getErrors`
    #[value(name = "getErrors", aliases = ["get-errors", "geterrors"])]
    GetErrors,
    /// A client of a Sentinel: paste it there, not into the server
    Sentinel,
}

impl AclArgs {
    /// The users that are meant.
    pub(crate) fn users(&self) -> Vec<RedisUser> {
        match self.user {
            Some(NamedUser::Node) => vec![RedisUser::Node],
            Some(NamedUser::Viewer) => vec![RedisUser::Viewer],
            Some(NamedUser::GetErrors) => vec![RedisUser::GetErrors],
            Some(NamedUser::Sentinel) => vec![RedisUser::Sentinel],
            None => vec![RedisUser::Node, RedisUser::Viewer, RedisUser::GetErrors],
        }
    }
}

/// Reads `7.0`, `7.0.15` or `8`.
fn release(text: &str) -> Result<(u32, u32), String> {
    let mut numbers = text.split('.').map(str::parse);
    let release = match (numbers.next(), numbers.next().unwrap_or(Ok(0))) {
        (Some(Ok(major)), Ok(minor)) => (major, minor),
        _ => return Err("write a version such as 6.2 or 7.0".to_owned()),
    };
    match release >= OLDEST {
        true => Ok(release),
        false => Err(format!(
            "Baton needs Redis {}.{} or later",
            OLDEST.0, OLDEST.1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_two_numbers_that_count() {
        for (text, expected) in [
            ("6.2", Some((6, 2))),
            ("7.0.15", Some((7, 0))),
            ("8", Some((8, 0))),
            ("6.0", None),
            ("", None),
            ("seven", None),
            ("7.x", None),
        ] {
            assert_eq!(release(text).ok(), expected, "{text}");
        }
    }
}
