//! Watching a fleet: where its messages are, how fast they go, whether all is well.
//!
//! `cargo run --example watch -- redis://localhost FLEET`

use std::io::Write;
use std::time::Duration;

use baton::inspect::{Limits, Watch};
use baton::{FleetName, Target};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let target = Target::parse(args.next().as_deref().unwrap_or("redis://localhost"))?;
    let fleet = FleetName::new(args.next().as_deref().unwrap_or("count"))?;

    // It needs no right in Redis but to read, and goes on when Redis comes back.
    let watch = Watch::start(target, fleet, Duration::from_secs(1), Limits::default());
    let mut views = watch.views();
    while let Some(view) = views.next().await {
        let mut out = std::io::stdout();
        if let Some(trouble) = &view.trouble {
            writeln!(out, "no news: {trouble}")?;
            continue;
        }
        let Some(snapshot) = &view.snapshot else {
            continue;
        };
        let generator = snapshot.generator.node.as_deref().unwrap_or("none");
        writeln!(
            out,
            "generator {generator}, {} nodes, {} published, {} done, {} failed, {} waiting",
            snapshot.nodes.len(),
            snapshot.published,
            snapshot.done,
            snapshot.failed,
            snapshot.pending,
        )?;
        for trouble in &view.health.troubles {
            writeln!(out, "  unhealthy: {trouble}")?;
        }
    }
    Ok(())
}
