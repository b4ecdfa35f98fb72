//! `baton run`: one node, from its start to its end in good order.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use baton::inspect::{Limits, Watch};
use baton::{Handler, Node, Source};
use baton_print::{errln, errln_within};
use baton_web::{Listener, OwnNode};

use crate::args::{ConnectionArgs, RunArgs};
use crate::handler::{PretendedWork, RandomText};
use crate::log::Log;
use crate::stop::Stop;
use crate::usage::Usage;
use crate::{STDERR_TIMEOUT, connect, runtime, web};

/// Runs a node until it is asked to stop.
pub(crate) fn run(connection: &ConnectionArgs, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let settings = args.settings(connection.fleet.clone());
    #[cfg(feature = "chaos")]
    let settings = crate::chaos::audited(settings);
    settings.check().map_err(|error| Usage(error.to_string()))?;
    let target = connect::for_node(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);
    let (watched, limits) = (target.clone(), Limits::new(args.lease_ttl, args.claim_ttl));

    let stop = Stop::on_signals().context("cannot listen for signals")?;
    let name = Arc::new(OnceLock::new());
    let log = Log::start(args.log, stop.clone(), Arc::clone(&name));
    let log = Arc::new(log.context("cannot start the thread of the log")?);
    let handler = PretendedWork::new(args);
    let source = RandomText::new();
    #[cfg(feature = "chaos")]
    let source = crate::chaos::Texts::around(source);
    let told = Arc::clone(&log);
    let observe = move |event: &baton::Event| told.tell(event);
    let node = settings.on_event(observe).build(target, source, handler)?;
    // Nobody else has the key to this lock.
    let _ = name.set(node.name().to_owned());

    let http = args.http.map(|addr| listen(addr, &node)).transpose()?;
    let asked = async move {
        stop.asked().await;
    };
    let ended = runtime::block_on(async move {
        let serve = async {
            if let Some((listener, own)) = http {
                let watch = Watch::start(watched, connection.fleet.clone(), web::EVERY, limits);
                if let Err(error) = listener.node(watch, own).await {
                    let text = format!("baton: metrics and health are served no more: {error}");
                    // On another thread: a reader of stderr that stalls must not hold up a beat.
                    let say = move || errln_within(&text, STDERR_TIMEOUT);
                    let _ = tokio::task::spawn_blocking(say).await;
                }
            }
            // The node does not depend on it.
            std::future::pending::<()>().await
        };
        tokio::select! {
            ended = node.run(asked) => ended.context(place),
            () = serve => Ok(()),
        }
    });
    // Before the error, which comes last on a terminal.
    log.close();
    ended.map(|()| ExitCode::SUCCESS)
}

/// Listens for whoever wants to know how this node is.
fn listen<S: Source, H: Handler>(
    addr: SocketAddr,
    node: &Node<S, H>,
) -> anyhow::Result<(Listener, OwnNode)> {
    let listener = Listener::bind(addr).with_context(|| format!("cannot listen on {addr}"))?;
    errln!(
        "baton: /metrics, /healthz and /readyz on http://{}/",
        listener.addr()?
    );
    let own = OwnNode {
        node: node.name().to_owned(),
        meter: node.meter(),
    };
    Ok((listener, own))
}
