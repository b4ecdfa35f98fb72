//! Taking all failed messages: printed first, removed after that, lost never.
//!
//! `cargo run --example drain -- redis://localhost FLEET`

use std::io::Write;
use std::time::Duration;

use baton::inspect::ErrorsCommit;
use baton::{FleetName, Inspector, Target};

/// How long a batch stays ours if this program stalls.
const TTL: Duration = Duration::from_secs(15);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let target = Target::parse(args.next().as_deref().unwrap_or("redis://localhost"))?;
    let fleet = FleetName::new(args.next().as_deref().unwrap_or("count"))?;
    let inspector = Inspector::connect(&target, &fleet).await?;

    let mut drain = inspector.drain(TTL).await?;
    loop {
        let batch = drain.next().await?;
        if batch.is_empty() {
            return Ok(());
        }
        for failed in &batch {
            let text = String::from_utf8_lossy(&failed.text);
            writeln!(
                std::io::stdout(),
                "#{} {}: {text:?}",
                failed.seq,
                failed.reason
            )?;
        }
        // Only now Redis removes them. A program that dies before leaves them in the store.
        if let ErrorsCommit::Lost = drain.commit(batch.len()).await? {
            writeln!(
                std::io::stderr(),
                "too slow: the batch is in the store again"
            )?;
        }
    }
}
