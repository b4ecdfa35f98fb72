//! Who generates.
//!
//! The lease is one hash in Redis with a time to live on Redis's clock. Every node beats:
//! the holder's beat renews the lease, anybody's beat takes it when it is free. It is free
//! when nobody has it, when its time has run out, or at once when its holder is gone from
//! its presence channel: a killed process loses its sockets within milliseconds, and Redis
//! sees that. Standbys queue up in the order they joined; the first two beat every 50 ms and
//! notice a death, the others beat at the pace of the time to live, so that a thousand nodes
//! are not a thousand polls per tick. When one of the first two moves up or dies, the beat
//! that finds out calls the next in line to beat at once.
//!
//! A node's trust in its own lease ends at *attempt start + time to live − margin* on its own
//! monotonic clock. That is politeness, not safety: what makes two generators harmless is
//! the fence, which Redis checks with every publish.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::node::context::{Context, Role};
use crate::observe::snapshot::About;
use crate::{Error, Event};
use baton_protocol::crash;
use baton_protocol::{Beat, Reclaimed};

/// The share of the time to live that is kept as a margin.
const MARGIN_SHARE: u32 = 10;
/// Most calls that return what the dead held, with one beat.
const RECLAIMS: usize = 32;
/// Longest wait for a lost connection before the role is looked at again.
const LOST_PAUSE: Duration = Duration::from_millis(50);

/// Beats until the node stops. Ends early only with an error that needs help.
pub(crate) async fn run(ctx: &Context) -> Result<(), Error> {
    let ttl = ctx.config.lease_ttl;
    let mut about = About {
        host: crate::node::host_name(),
        pid: u64::from(std::process::id()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..About::default()
    };
    let mut generator_seen = None;
    let mut epoch_seen = 0;
    let mut looks_after_claims = false;
    while !ctx.stopping() {
        about.published = ctx.meter.published();
        about.processed = ctx.meter.processed();
        about.failed = ctx.meter.failed();
        about.latency = ctx.meter.latency();
        // Serializing strings and numbers cannot fail.
        let text = serde_json::to_string(&about).unwrap_or_default();
        let above = ctx.above.load(Ordering::Relaxed);
        let sent = Instant::now();
        let (beat, reclaimed) = tokio::join!(ctx.store.beat(ttl, &text, above), async {
            match looks_after_claims {
                true => reclaim(ctx).await,
                false => Ok(Reclaimed::default()),
            }
        });
        match reclaimed {
            Ok(Reclaimed { messages: 0, .. }) => {}
            Ok(Reclaimed {
                messages, nodes, ..
            }) => {
                crash::point("after-reclaim");
                ctx.emit(Event::Reclaimed {
                    count: messages,
                    nodes,
                });
            }
            Err(error) if error.is_transient() => {}
            Err(error) => return Err(error),
        }
        let pause = match beat {
            Ok(Beat::Generator {
                epoch,
                next,
                now_ms,
            }) => {
                if ctx.role.borrow().epoch().is_none() {
                    crash::point("after-beat-took-lease");
                }
                ctx.heard(now_ms, sent, ctx.store.node());
                let until = sent + ttl - ttl / MARGIN_SHARE;
                ctx.role.send_replace(Role::Generator { epoch, until });
                generator_seen = None;
                looks_after_claims = true;
                next
            }
            Ok(Beat::Worker {
                generator,
                epoch,
                next,
                now_ms,
                place,
            }) => {
                ctx.heard(now_ms, sent, &generator);
                ctx.role
                    .send_if_modified(|role| std::mem::replace(role, Role::Worker) != Role::Worker);
                if generator_seen.as_ref() != Some(&generator) {
                    ctx.emit(Event::Worker {
                        generator: generator.clone(),
                    });
                    generator_seen = Some(generator);
                }
                // A server that lost its data has a new lease.
                if std::mem::replace(&mut epoch_seen, epoch) != epoch {
                    ctx.look_for_loss(None).await?;
                }
                // One standby is enough; the second in line is first as soon as that one dies.
                looks_after_claims = place == 1;
                next.mul_f64(rand::random_range(0.8..1.2))
            }
            Err(error) if error.is_transient() => {
                doubt(ctx);
                // Until the connection is back, or the lease ran out meanwhile.
                let _ = tokio::time::timeout(LOST_PAUSE, ctx.pause_after(&error)).await;
                Duration::ZERO
            }
            Err(error) => return Err(error),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = ctx.beat_now.notified() => {}
            () = ctx.store.called() => {}
            () = ctx.stopped() => {}
        }
    }
    Ok(())
}

/// Returns what the dead held. A node of many lanes leaves more claims than one call looks at.
async fn reclaim(ctx: &Context) -> Result<Reclaimed, Error> {
    let mut all = ctx.store.reclaim().await?;
    for _ in 1..RECLAIMS {
        let some = match all.nodes.is_empty() {
            true => break,
            false => ctx.store.reclaim().await?,
        };
        if some.nodes.is_empty() {
            break;
        }
        all.messages += some.messages;
        all.records += some.records;
        let new = some.nodes.into_iter();
        let new: Vec<String> = new.filter(|node| !all.nodes.contains(node)).collect();
        all.nodes.extend(new);
    }
    Ok(all)
}

/// Gives up a lease whose time has run out on this node's clock.
fn doubt(ctx: &Context) {
    ctx.role.send_if_modified(|role| match *role {
        Role::Generator { until, .. } if until <= Instant::now() => {
            *role = Role::Unknown;
            true
        }
        _ => false,
    });
}
