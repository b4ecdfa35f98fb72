//! A closure that takes JSON: start this in several terminals and kill any of them.
//!
//! `cargo run --example orders -- redis://localhost`, then `redis-cli HGETALL totals`

use std::io::Write;
use std::time::Duration;

use baton::{
    Effects, FleetName, GeneratorWorks, Json, Node, OwnedMessage, Rejected, Target, handler,
    interval,
};

#[derive(serde::Deserialize)]
struct Order {
    customer: String,
    amount: i64,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), baton::Error> {
    let url = std::env::args().nth(1);
    let target = Target::parse(url.as_deref().unwrap_or("redis://localhost"))?;
    let total = handler(
        |(Json(order), message): (Json<Order>, OwnedMessage)| async move {
            if order.amount % 13 == 0 {
                return Err(Rejected::new("thirteen again").into());
            }
            let (customer, key) = (&order.customer, message.key());
            let _ = writeln!(std::io::stdout(), "{key}: {customer} {}", order.amount);
            // Written in the step that commits the message: the totals are exact.
            let mut effects = Effects::default();
            effects.hincr_by("totals", customer, order.amount);
            Ok(effects)
        },
    );
    let orders = interval(Duration::from_millis(500), |seq, text| {
        let customer = ["Ada", "Grace", "Mary"][seq as usize % 3];
        let order = format!(r#"{{"customer": "{customer}", "amount": {seq}}}"#);
        text.extend_from_slice(order.as_bytes());
    });
    let node = Node::builder(FleetName::new("orders")?)
        // One copy is enough for a start.
        .generator_works(GeneratorWorks::Alone)
        .build(target, orders, total)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await
}
