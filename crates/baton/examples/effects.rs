//! Exact totals: the handler stages changes, and the commit writes them once per message.
//!
//! `cargo run --example effects -- redis://localhost`

use std::time::Duration;

use baton::{Effects, FleetName, Handler, HandlerError, Message, Node, Rejected, Target, interval};

/// Adds up what each customer ordered.
struct Totals;

impl Handler for Totals {
    async fn handle(
        &self,
        message: Message<'_>,
        effects: &mut Effects,
    ) -> Result<(), HandlerError> {
        let text = std::str::from_utf8(message.text).map_err(Rejected::because)?;
        let Some((customer, amount)) = text.split_once(' ') else {
            return Err(Rejected::new(format!("no amount in {text:?}")).into());
        };
        let amount: i64 = amount.parse().map_err(Rejected::because)?;
        // All of it, or nothing of it, in the step that commits the message.
        effects.hincr_by("orders:totals", customer, amount);
        effects.incr_by("orders:count", 1);
        effects.rpush(format!("orders:of:{customer}"), message.seq.to_string());
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), baton::Error> {
    let url = std::env::args().nth(1);
    let target = Target::parse(url.as_deref().unwrap_or("redis://localhost"))?;
    let orders = interval(Duration::from_millis(500), |seq, text| {
        let (customer, amount) = (seq % 3, 10 + seq % 7);
        text.extend_from_slice(format!("customer{customer} {amount}").as_bytes());
    });
    let node = Node::builder(FleetName::new("orders")?).build(target, orders, Totals)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await
}
