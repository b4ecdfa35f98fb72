//! Slots that move from master to master with their keys, as an operator's tool moves them.

use super::complete::SLOTS;
use super::{ClusterGroup, view, wait_for};
use crate::reply::Reply;
use crate::{Error, PrivateServer};

/// How many keys one command moves.
const KEYS: &str = "100";
/// How long the two servers may take for these keys, in ms.
const MIGRATE_MS: &str = "5000";

impl ClusterGroup {
    /// The slot of a key.
    ///
    /// # Errors
    ///
    /// If the first server does not answer.
    pub fn slot(&self, key: &str) -> Result<u16, Error> {
        let slot = self.send(0, &["CLUSTER", "KEYSLOT", key])?.text();
        slot.parse()
            .map_err(|_| Error::incomplete(format!("{key} has no slot: {slot}")))
    }

    /// Moves a slot with its keys, key by key, to another master. Clients use both servers meanwhile:
    /// the first refuses calls whose keys are not all there any more.
    ///
    /// # Errors
    ///
    /// If one of the two servers does not answer or refuses. The slot may be half moved then, and
    /// another attempt goes on from there.
    pub fn move_slot(&self, slot: u16, to: usize) -> Result<(), Error> {
        let from = self.owner(slot)?;
        if from == to {
            return Ok(());
        }
        let (from_id, to_id) = (self.id(from)?, self.id(to)?);
        let number = slot.to_string();
        let set = |server: usize, how: &[&str]| {
            let words = [&["CLUSTER", "SETSLOT", &number], how].concat();
            self.send(server, &words).map(drop)
        };
        set(to, &["IMPORTING", &from_id])?;
        set(from, &["MIGRATING", &to_id])?;
        loop {
            let keys = self.send(from, &["CLUSTER", "GETKEYSINSLOT", &number, KEYS]);
            let keys = keys.map(Reply::texts)?;
            if keys.is_empty() {
                break;
            }
            self.migrate(from, to, &keys)?;
        }
        // In this order there is always a server that has the slot.
        set(to, &["NODE", &to_id])?;
        set(from, &["NODE", &to_id])?;
        // A server that has not heard of the newest epoch takes an older one for the slot. Then the others
        // take the slot from it again, and no server has it.
        wait_for(|| {
            if !self.says_that_it_has(to, slot) {
                set(to, &["IMPORTING", &from_id])?;
                set(to, &["NODE", &to_id])?;
            }
            match self.all_say_that_it_has(to, slot) {
                true => Ok(()),
                false => Err(Error::incomplete(format!("slot {slot} has not moved yet"))),
            }
        })
    }

    fn says_that_it_has(&self, server: usize, slot: u16) -> bool {
        self.is_owner(server, slot, &self.servers[server])
    }

    /// Whether all servers that answer name this one for the slot.
    fn all_say_that_it_has(&self, owner: usize, slot: u16) -> bool {
        let mut servers = self.servers.iter();
        servers.all(|asked| self.is_owner(owner, slot, asked))
    }

    /// Whether this server owns the slot, as another one says; one that does not answer says nothing else.
    fn is_owner(&self, owner: usize, slot: u16, asked: &PrivateServer) -> bool {
        let Ok(seen) = view(asked) else {
            return true;
        };
        let mut owners = seen.iter().filter(|seen| seen.owns(slot));
        owners.any(|seen| Some(seen.port) == self.servers[owner].port())
    }

    fn migrate(&self, from: usize, to: usize, keys: &[String]) -> Result<(), Error> {
        let port = self.servers[to].port().unwrap_or_default().to_string();
        // The empty word says that keys follow.
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_MS];
        let login = self.settings.credentials();
        if let Some(login) = &login {
            words.extend(["AUTH2", &login.user, &login.password]);
        }
        words.push("KEYS");
        words.extend(keys.iter().map(String::as_str));
        self.send(from, &words).map(drop)
    }

    /// Gives each of so many first servers its share of all slots, and an epoch of its own.
    pub(super) fn share_slots(&self, masters: usize) -> Result<(), Error> {
        let all = usize::from(SLOTS);
        for at in 0..masters {
            let share = all * at / masters..all * (at + 1) / masters;
            let slots: Vec<String> = share.map(|slot| slot.to_string()).collect();
            let mut words = vec!["CLUSTER", "ADDSLOTS"];
            words.extend(slots.iter().map(String::as_str));
            self.send(at, &words)?;
            let epoch = (at + 1).to_string();
            self.send(at, &["CLUSTER", "SET-CONFIG-EPOCH", &epoch])?;
        }
        Ok(())
    }
}
