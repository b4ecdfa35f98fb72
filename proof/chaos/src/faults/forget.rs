//! The control shard has lost all that it had while no node ran: the nodes that start then learn from the
//! spare keys how many partitions the fleet has. They name no number, and another one would be chosen.

use anyhow::Result;
use baton::FleetName;
use baton_protocol::Keys;

use super::{Fault, Note};
use crate::arena::{Arena, FLEET};

pub(super) struct ControlKeys;

impl Fault for ControlKeys {
    fn inject(&mut self, arena: &mut Arena, note: &mut Note) -> Result<()> {
        let victims = arena.fleet.alive();
        note.targets = arena.labels(&victims);
        victims.iter().try_for_each(|victim| arena.kill(*victim))?;
        let keys = Keys::new(&FleetName::new(FLEET)?);
        let mut lose = redis::cmd("DEL");
        for (key, _) in keys.typed() {
            lose.arg(key);
        }
        let group = arena.group()?;
        let master = group.master(group.control_shard())?;
        let lost: u64 = lose.query(&mut group.connect(master)?)?;
        note.text = format!("{lost} keys are lost");
        Ok(())
    }
}
