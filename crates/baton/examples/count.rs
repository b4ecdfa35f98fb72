//! A fleet of your own: start this in several terminals and kill any of them.
//!
//! `cargo run --example count -- redis://localhost`

use std::io::Write;
use std::time::Duration;

use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Rejected, Target, interval};

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
    let numbers = interval(Duration::from_millis(500), |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    });
    let node = Node::builder(FleetName::new("count")?)
        // Not `println!`, which panics when the disk is full or the reader is gone.
        .on_event(|event| drop(writeln!(std::io::stdout(), "{event:?}")))
        .build(Target::parse(&url)?, numbers, Count)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await
}
