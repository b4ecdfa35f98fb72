//! A node under a service manager: SIGTERM lets it finish, and a second bound ends the wait.
//!
//! `cargo run --example graceful_stop -- redis://localhost`, then `kill PID`

use std::io::Write;
use std::time::Duration;

use baton::{Effects, Event, FleetName, Handler, HandlerError, Message, Node, Target, interval};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// How long the service manager waits before it kills.
const GRACE: Duration = Duration::from_secs(10);

struct Slow;

impl Handler for Slow {
    async fn handle(&self, _: Message<'_>, _: &mut Effects) -> Result<(), HandlerError> {
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let target = Target::parse(url.as_deref().unwrap_or("redis://localhost"))?;
    let numbers = interval(Duration::from_millis(500), |seq, text| {
        text.extend_from_slice(seq.to_string().as_bytes());
    });
    let node = Node::builder(FleetName::new("graceful")?)
        .on_event(|event| {
            if let Event::Stopped = event {
                let _ = writeln!(std::io::stdout(), "stopped in good order");
            }
        })
        .build(target, numbers, Slow)?;

    let mut terminate = signal(SignalKind::terminate())?;
    let (asked, asked_to_stop) = oneshot::channel();
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        let _ = asked.send(());
    };
    let too_late = async {
        // From the signal on the node has this long: it resigns, handles or gives back what it
        // has claimed, and leaves. After that its claims return to the fleet anyway.
        if asked_to_stop.await.is_ok() {
            tokio::time::sleep(GRACE).await;
        }
    };
    tokio::select! {
        ended = node.run(stop) => ended?,
        () = too_late => {}
    }
    Ok(())
}
