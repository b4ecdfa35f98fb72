//! A handler that blocks its thread: each message becomes a file.
//!
//! `cargo run --example blocking -- redis://localhost`

use std::time::Duration;

use baton::{FleetName, GeneratorWorks, Node, OwnedMessage, Target, blocking, interval};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let target = Target::parse(url.as_deref().unwrap_or("redis://localhost"))?;
    let folder = std::env::temp_dir().join("baton-blocking");
    std::fs::create_dir_all(&folder)?;
    // It runs on a thread of tokio's pool, so the node goes on to beat while a disk is slow. The key
    // stays the same in every attempt, so a second attempt overwrites the file of the first.
    let archive = blocking(move |message: OwnedMessage| {
        std::fs::write(folder.join(message.key().to_string()), &message.text)?;
        Ok(())
    });
    let numbers = interval(Duration::from_millis(500), |seq, text| {
        text.extend_from_slice(format!("message {seq}").as_bytes());
    });
    let node = Node::builder(FleetName::new("blocking")?)
        .generator_works(GeneratorWorks::Alone)
        .concurrency(8)
        .build(target, numbers, archive)?;
    node.run(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    Ok(())
}
