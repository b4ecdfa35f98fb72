//! The program of the README.

use std::time::Duration;

use baton::{Effects, FleetName, Node, OwnedMessage, Target, handler, interval};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), baton::Error> {
    // One of the copies makes these messages.
    let numbers = interval(Duration::from_millis(500), |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    });
    // Any of the others handles each of them.
    let count = handler(|message: OwnedMessage| async move {
        let mut effects = Effects::default();
        // Redis writes it in the step that commits the message: once, whatever crashes.
        effects.incr_by("letters", message.text.len() as i64);
        Ok(effects)
    });
    let target = Target::parse("redis://localhost")?;
    let node = Node::builder(FleetName::new("count")?).build(target, numbers, count)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await
}
