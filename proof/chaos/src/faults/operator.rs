//! Settings that an operator of Redis changes, and changes back.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use anyhow::{Context, Result};
use baton_log::LogEvent;
use baton_processes::{Info, Told};

use super::{Fault, Note};
use crate::arena::Arena;

/// A limit that is too small for a pack of messages.
const LIMIT: &str = "pubsub 32kb 16kb 1";
const LIMIT_SETTING: &str = "client-output-buffer-limit";
const PASSWORD: &str = "changed";
/// Max connections, and max log lines, of a node per second while Redis refuses it.
const QUIET_PER_S: f64 = 12.0;

fn send(redis: &mut redis::Connection, words: &[&str]) -> Result<redis::Value> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    Ok(command.query(redis)?)
}

/// Redis cuts subscribed connections that leave more than a little unread.
#[derive(Default)]
pub(super) struct OutputLimit {
    before: Option<String>,
}

impl Fault for OutputLimit {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        let mut redis = arena.observer.redis()?;
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg(LIMIT_SETTING);
        let (_, limits): (String, String) = ask.query(&mut redis)?;
        let of_pubsub = limits.find("pubsub").map(|at| limits[at..].to_owned());
        self.before = Some(of_pubsub.context("no limit for pubsub")?);
        send(&mut redis, &["CONFIG", "SET", LIMIT_SETTING, LIMIT]).map(drop)
    }

    fn lift(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        match &self.before {
            // A restart forgets it.
            Some(before) if arena.server()?.is_running() => {
                let words = ["CONFIG", "SET", LIMIT_SETTING, before];
                send(&mut arena.observer.redis()?, &words).map(drop)
            }
            _ => Ok(()),
        }
    }
}

/// Measures whether nodes back off while Redis refuses them.
#[derive(Default)]
struct Noise {
    since: Option<Instant>,
    connections: f64,
    mark: usize,
}

impl Noise {
    fn begin(arena: &Arena, redis: &mut redis::Connection) -> Result<Self> {
        Ok(Self {
            since: Some(Instant::now()),
            connections: connections(redis)?,
            mark: arena.fleet.mark(),
        })
    }

    /// Adds a finding if nodes do not back off; returns the measurement in words.
    fn end(&self, arena: &mut Arena, redis: &mut redis::Connection) -> Result<String> {
        let Some(since) = self.since else {
            return Ok(String::new());
        };
        // The first attempts follow each other quickly, so a shorter fault would count too many.
        let seconds = since.elapsed().as_secs_f64().max(1.0);
        let per_node = arena.fleet.alive().len().max(1) as f64 * seconds;
        let complains = |told: &Told| {
            matches!(
                told.event(),
                LogEvent::Redis { .. } | LogEvent::Warning { .. }
            )
        };
        let told = arena.fleet.told_since(self.mark);
        let lines = told.iter().filter(|told| complains(told)).count() as f64 / per_node;
        let connections = (connections(redis)? - self.connections) / per_node;
        let words = format!(
            "each node connected {connections:.1} times and complained {lines:.1} times per second"
        );
        if connections > QUIET_PER_S || lines > QUIET_PER_S {
            arena.findings.push(format!("no backoff: {words}"));
        }
        Ok(words)
    }
}

fn connections(redis: &mut redis::Connection) -> Result<f64> {
    Info::read(redis, "stats")?.number("total_connections_received")
}

/// Redis has another password for a while, and cuts all clients off.
#[derive(Default)]
pub(super) struct Password(Noise);

impl Fault for Password {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let mut redis = arena.observer.redis()?;
        send(&mut redis, &["CONFIG", "SET", "requirepass", PASSWORD])?;
        let mut cut = 0;
        for kind in ["normal", "pubsub"] {
            if let redis::Value::Int(clients) = send(&mut redis, &["CLIENT", "KILL", "TYPE", kind])?
            {
                cut += clients;
            }
        }
        note.text = format!("{cut} connections cut");
        self.0 = Noise::begin(arena, &mut redis)?;
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        // A restart forgets it.
        if !arena.server()?.is_running() {
            return Ok(());
        }
        let url = arena.observer.url();
        let with_password = url.replacen("://", &format!("://:{PASSWORD}@"), 1);
        let redis = redis::Client::open(with_password)?.get_connection();
        // If the new password was never set, the server asks for none.
        let mut redis = match redis {
            Ok(redis) => redis,
            Err(_) => arena.observer.redis()?,
        };
        send(&mut redis, &["CONFIG", "SET", "requirepass", ""])?;
        let noise = self.0.end(arena, &mut redis)?;
        note.text = format!("{}, {noise}", note.text);
        Ok(())
    }
}

/// The primary follows a server that does not exist. It keeps its data, takes no writes,
/// and is a primary again afterwards.
#[derive(Default)]
pub(super) struct Demote(Noise);

impl Fault for Demote {
    fn inject(&mut self, arena: &mut Arena, _note: &mut Note) -> Result<()> {
        // Free a moment ago: no server listens there.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let port = port.to_string();
        let mut redis = arena.observer.redis()?;
        send(&mut redis, &["REPLICAOF", "127.0.0.1", &port])?;
        self.0 = Noise::begin(arena, &mut redis)?;
        Ok(())
    }

    fn lift(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        // A restart forgets it.
        if !arena.server()?.is_running() {
            return Ok(());
        }
        let mut redis = arena.observer.redis()?;
        send(&mut redis, &["REPLICAOF", "NO", "ONE"])?;
        note.text = self.0.end(arena, &mut redis)?;
        Ok(())
    }
}
