//! What the bytes alone cost the server: a bare SET and GET of each pack.

use anyhow::Result;
use baton_protocol::PackBuilder;

use crate::{Plan, ServerProbe};

/// Calls in one pipeline, as many as a generator has under way. Each has its own key.
const WINDOW: u64 = 8;

/// Sets and gets the packs that a generator would make of the plan's messages, on one connection.
/// The next SET of a key frees the pack before. Returns µs of the server's main thread per message.
pub fn set_and_get(plan: &Plan) -> Result<f64> {
    let text = vec![b'x'; plan.size];
    let mut builder = PackBuilder::default();
    while !builder.is_full() && builder.count() < plan.messages {
        builder.push(&text);
    }
    let count = builder.count();
    let pack = builder.finish(0, "0123456789", 1);
    let name = format!("baton-bench-floor:{{{}}}", baton_protocol::new_name());
    let keys: Vec<String> = (0..WINDOW).map(|key| format!("{name}:{key}")).collect();
    let (mut sets, mut gets) = (redis::pipe(), redis::pipe());
    for key in &keys {
        sets.cmd("SET").arg(key).arg(&pack).ignore();
        gets.cmd("GET").arg(key);
    }
    let mut probe = ServerProbe::open(&plan.target)?;
    let rounds = plan.messages.div_ceil(WINDOW * count);
    let began = probe.cpu_us()?;
    for _ in 0..rounds {
        sets.exec(probe.redis())?;
        let _: Vec<Vec<u8>> = gets.query(probe.redis())?;
    }
    let used = probe.cpu_us()? - began;
    redis::cmd("UNLINK").arg(&keys).exec(probe.redis())?;
    Ok(used / (rounds * WINDOW * count) as f64)
}
