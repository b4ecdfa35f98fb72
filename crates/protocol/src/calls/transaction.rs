//! Plain reads in one transaction.

use redis::Value;

use super::answer::array;
use super::{Store, decode};
use crate::{Error, scripts};

impl Store {
    /// Runs commands that only read in one transaction.
    pub(super) async fn transaction(&self, commands: &[redis::Cmd]) -> Result<Vec<Value>, Error> {
        let answers = match self.link.transaction(commands).await {
            Err(Error::Unavailable(why)) if why.starts_with("OOM") => {
                self.transaction_in_script(commands).await
            }
            answers => answers,
        };
        match answers {
            Err(Error::Refused(why)) if why.contains("WRONGTYPE") => {
                self.check_types().await?;
                Err(Error::Refused(why))
            }
            Err(Error::Refused(why)) if why.starts_with("NOPERM") => Err(Error::Refused(format!(
                "the Redis user lacks a right that looking at a fleet needs: {why}"
            ))),
            answers => answers,
        }
    }

    /// Runs the commands in a script, because a server whose memory is full refuses transactions.
    /// Scripts among them run afterwards: a script cannot run another.
    async fn transaction_in_script(&self, commands: &[redis::Cmd]) -> Result<Vec<Value>, Error> {
        let commands: Vec<Vec<&[u8]>> = commands.iter().map(words).collect();
        let is_script =
            |words: &[&[u8]]| words.first().is_some_and(|word| word.starts_with(b"EVAL"));
        let mut together = redis::cmd(self.eval_verb());
        together.arg(scripts::TOGETHER.source.as_str()).arg(0);
        for words in commands.iter().filter(|words| !is_script(words)) {
            together.arg(words.len()).arg(words);
        }
        let answers = self.link.call(&together).await?;
        let mut answers = array(scripts::TOGETHER.name, &answers)?.iter();
        let mut all = Vec::new();
        for words in &commands {
            all.push(match is_script(words) {
                true => {
                    let mut script = redis::Cmd::new();
                    script.arg(words);
                    self.link.call(&script).await?
                }
                false => {
                    let answer = answers.next().cloned().unwrap_or(Value::Nil);
                    decode::as_client_answer(words, answer)?
                }
            });
        }
        Ok(all)
    }

    /// Makes sure that this user may run transactions.
    pub(super) async fn check_transaction(&self) -> Result<(), Error> {
        match self.transaction(&[redis::cmd("TIME")]).await {
            Err(Error::Refused(why)) => Err(Error::Refused(format!(
                "the Redis user lacks commands that a fleet needs: multi, exec ({why})"
            ))),
            answers => answers.map(drop),
        }
    }
}

/// The words of a command.
fn words(command: &redis::Cmd) -> Vec<&[u8]> {
    let word = |arg| match arg {
        redis::Arg::Simple(word) => Some(word),
        // The cursor of a scan, which the client library numbers itself; none of ours has one.
        _ => None,
    };
    command.args_iter().filter_map(word).collect()
}
