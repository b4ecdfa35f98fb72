//! Tries every command that a user needs, before the first one that matters.

use super::{Store, command, decode, is_missing_script};
use crate::rights::{self, RedisUser};
use crate::{Error, scripts};

impl Store {
    /// An error that names what this user lacks, if it lacks a right of such a user. Connecting has
    /// tried the rest: `INFO`, `SUBSCRIBE`, the fleet's channels, and how the server was found.
    pub async fn check_rights(&self, user: RedisUser) -> Result<(), Error> {
        self.check_scripts(user).await?;
        if let RedisUser::Node = user {
            self.check_wait().await?;
        }
        self.check_read_only_script().await?;
        self.check_transaction().await
    }

    /// Tries the commands that scripts send, and the two commands that run scripts.
    async fn check_scripts(&self, user: RedisUser) -> Result<(), Error> {
        let (scratch, script) = (&self.keys.preflight, &scripts::PREFLIGHT);
        let channel = format!("{}preflight", self.keys.calls);
        let mut args = vec![channel.as_bytes()];
        let tried = rights::script_commands(user).iter();
        args.extend(tried.map(|command| command.as_bytes()));
        let send = async |verb: &str, text: &str, args: &[&[u8]]| {
            let command = command(verb, text, &[scratch], args);
            let answer = self.link.call(&command).await;
            answer.map_err(|error| naming_key(error, scratch))
        };
        // EVAL whether or not the server has the script: a node needs EVAL when it has lost them.
        decode::preflight(&send("EVAL", &script.source, &args).await?)?;
        match send("EVALSHA", &script.sha, &args[..1]).await {
            // An operator has just flushed the scripts.
            answer if is_missing_script(&answer) => Ok(()),
            answer => decode::preflight(&answer?),
        }
    }

    /// Tries to wait for replicas, for none of them.
    async fn check_wait(&self) -> Result<(), Error> {
        let mut command = redis::cmd("WAIT");
        command.arg(0).arg(1);
        self.check_command(&command).await
    }

    /// Tries the command that runs a script which only reads.
    async fn check_read_only_script(&self) -> Result<(), Error> {
        let mut command = redis::cmd(self.eval_verb());
        command.arg("return 1").arg(1).arg(&self.keys.preflight);
        self.check_command(&command).await
    }

    /// Tries a command that not every fleet needs: a server may lack it, but the user may not.
    async fn check_command(&self, command: &redis::Cmd) -> Result<(), Error> {
        match self.link.call(command).await {
            Err(Error::Refused(why)) if !why.starts_with("NOPERM") => Ok(()),
            answer => answer.map(drop),
        }
    }
}

/// Adds the key's name to an error that says only that the user may not use some key.
pub(super) fn naming_key(error: Error, key: &str) -> Error {
    match error {
        Error::Refused(why) if why.starts_with("NOPERM") && why.contains("key") => {
            Error::Refused(format!("{why} ({key})"))
        }
        error => error,
    }
}
