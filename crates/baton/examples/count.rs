//! A fleet of your own: start this in several terminals and kill any of them.
//!
//! `cargo run --example count -- redis://localhost`

use std::io::Write;

use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Rejected, Source, Target};

struct Numbers;

impl Source for Numbers {
    async fn generate(&mut self, seq: u64, text: &mut Vec<u8>) {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    }
}

struct Count;

impl Handler for Count {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        if message.seq.is_multiple_of(13) {
            return Err(Rejected::new("thirteen again").into());
        }
        // Written in the step that commits the message: the counter is exact, whatever crashes.
        effects.incr_by("counted", 1);
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), baton::Error> {
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "redis://localhost".to_owned());
    let node = Node::builder(FleetName::new("count")?)
        // Not `println!`, which panics when the disk is full or the reader is gone.
        .on_event(|event| drop(writeln!(std::io::stdout(), "{event:?}")))
        .build(Target::parse(&url)?, Numbers, Count)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await
}
