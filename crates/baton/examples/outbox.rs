//! Relays the rows of an outbox table: start this in several terminals and kill any of them.
//!
//! `cargo run --features postgres --example outbox -- redis://localhost postgres://localhost/shop`, then
//! `psql shop -c "INSERT INTO outbox (payload) VALUES ('hello')"`. `-- setup` prints the SQL of the table.

use std::error::Error;
use std::io::Write;

use baton::{Effects, FleetName, GeneratorWorks, Node, Outbox, OwnedMessage, Target, handler};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let redis = words.next().unwrap_or("redis://localhost".to_owned());
    let postgres = words.next().unwrap_or("postgres://localhost".to_owned());
    let rows = Outbox::new(&postgres)?;
    if redis == "setup" {
        write!(std::io::stdout(), "{}", rows.setup_sql())?;
        return Ok(());
    }
    let print = handler(|message: OwnedMessage| async move {
        let text = String::from_utf8_lossy(&message.text);
        let _ = writeln!(std::io::stdout(), "{}: {text}", message.seq);
        Ok(Effects::default())
    });
    let node = Node::builder(FleetName::new("outbox")?)
        // One copy is enough for a start.
        .generator_works(GeneratorWorks::Alone)
        .build(Target::parse(&redis)?, rows, print)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    Ok(())
}
