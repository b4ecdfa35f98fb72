//! What an operator of Redis may set, and set back.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::{Context, Result};

use super::{Fault, Note};
use crate::stage::Stage;

/// So little that a pack of messages does not fit.
const LIMIT: &str = "pubsub 32kb 16kb 1";
const LIMIT_SETTING: &str = "client-output-buffer-limit";
const PASSWORD: &str = "changed";

fn send(redis: &mut redis::Connection, words: &[&str]) -> Result<redis::Value> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    Ok(command.query(redis)?)
}

/// Connections with a subscription may keep little unread: others are cut.
#[derive(Default)]
pub(super) struct OutputLimit {
    before: Option<String>,
}

impl Fault for OutputLimit {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        let mut redis = stage.eye.redis()?;
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg(LIMIT_SETTING);
        let (_, limits): (String, String) = ask.query(&mut redis)?;
        let of_pubsub = limits.find("pubsub").map(|at| limits[at..].to_owned());
        self.before = Some(of_pubsub.context("no limit for pubsub")?);
        send(&mut redis, &["CONFIG", "SET", LIMIT_SETTING, LIMIT]).map(drop)
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        match &self.before {
            // A restart forgets it.
            Some(before) if stage.server.is_running() => {
                let words = ["CONFIG", "SET", LIMIT_SETTING, before];
                send(&mut stage.eye.redis()?, &words).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// The password is another for a while, and all who know the old one are cut off.
pub(super) struct Password;

impl Fault for Password {
    fn inject(&mut self, stage: &mut Stage, note: &mut Note) -> Result<()> {
        let mut redis = stage.eye.redis()?;
        send(&mut redis, &["CONFIG", "SET", "requirepass", PASSWORD])?;
        let mut cut = 0;
        for kind in ["normal", "pubsub"] {
            if let redis::Value::Int(clients) = send(&mut redis, &["CLIENT", "KILL", "TYPE", kind])?
            {
                cut += clients;
            }
        }
        note.text = format!("{cut} connections");
        Ok(())
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        // A restart forgets it.
        if !stage.server.is_running() {
            return Ok(());
        }
        let url = stage.eye.url();
        let with_password = url.replacen("://", &format!("://:{PASSWORD}@"), 1);
        let redis = redis::Client::open(with_password)?.get_connection();
        // One that was never set is wanted from nobody.
        let mut redis = match redis {
            Ok(redis) => redis,
            Err(_) => stage.eye.redis()?,
        };
        send(&mut redis, &["CONFIG", "SET", "requirepass", ""]).map(drop)
    }
}

/// The primary is told to follow a server that does not exist. It keeps its data, takes no writes,
/// and is a primary again afterwards.
pub(super) struct Demote;

impl Fault for Demote {
    fn inject(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        // Free a moment ago, and nobody listens there.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let port = port.to_string();
        send(&mut stage.eye.redis()?, &["REPLICAOF", "127.0.0.1", &port]).map(drop)
    }

    fn lift(&mut self, stage: &mut Stage, _note: &mut Note) -> Result<()> {
        match stage.server.is_running() {
            true => send(&mut stage.eye.redis()?, &["REPLICAOF", "NO", "ONE"]).map(drop),
            // A restart forgets it.
            false => Ok(()),
        }
    }
}
