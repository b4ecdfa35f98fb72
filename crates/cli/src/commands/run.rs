//! `baton run`: one node, from its start to its end in good order.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use baton::inspect::{Limits, Watch};
use baton::{Event, Handler, Node, NodeBuilder, Source};
use baton_print::{errln, errln_within};
use baton_web::{Listener, OwnNode};

use crate::args::{ConnectionArgs, RunArgs};
use crate::error_line::error_line;
use crate::log::Log;
use crate::service_manager::ServiceManager;
use crate::shutdown::Shutdown;
use crate::usage_error::UsageError;
use crate::workload::{NodeHandler, NodeSource, RandomText};
use crate::{runtime, target, watch};

/// How long a node that ends waits for the reader of its stderr.
pub(crate) const STDERR_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a node until a shutdown is requested.
pub(crate) fn run(connection: &ConnectionArgs, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let settings = settings(connection, args)?;
    let cron = args.cron.source(args.missed)?;
    let push = args.handler.push.handler(args.handler.timeout)?;
    let target = target::for_node(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);
    let manager = service_manager(connection);
    let limits = Limits::new(args.lease_ttl, args.claim_ttl);

    let shutdown = Shutdown::on_signals()?;
    let name = Arc::new(OnceLock::new());
    let log = Log::start(args.log, shutdown.clone(), Arc::clone(&name));
    let log = Arc::new(log.context("cannot start the thread of the log")?);
    let texts = RandomText::new();
    #[cfg(feature = "chaos")]
    let texts = crate::workload::HostileText::mixed_into(texts);
    let mut texts = texts;
    let texts = args.texts(move |text| texts.append(text));
    let source = NodeSource::new(args, texts, cron, &log);
    let events = Arc::clone(&log);
    let told_manager = manager.clone();
    let observe = move |event: &Event| {
        events.tell(event);
        if let Some(manager) = &told_manager {
            manager.note(event);
        }
    };
    let handler = NodeHandler::new(args, push, &log);
    let node = settings
        .on_event(observe)
        .build(target.clone(), source, handler)?;
    // It is set only here, so it cannot be set already.
    let _ = name.set(node.name().to_owned());
    let http = args.http.map(|addr| listen(addr, &node)).transpose()?;

    let ended = runtime::block_on(async move {
        let serve = async {
            if let Some((listener, own)) = http {
                let watch = Watch::start(target, connection.fleet.clone(), watch::EVERY, limits);
                serve(listener, watch, own).await;
            }
            // The node runs on without it.
            std::future::pending::<()>().await
        };
        let meter = node.meter();
        let inform = async {
            match &manager {
                Some(manager) => manager.inform(&meter).await,
                None => std::future::pending().await,
            }
        };
        let asked = async {
            shutdown.requested().await;
            if let Some(manager) = &manager {
                manager.stopping();
            }
        };
        tokio::select! {
            ended = node.run(asked) => ended.context(place),
            () = serve => Ok(()),
            () = inform => Ok(()),
        }
    });
    // Before the error, which is then the last line on a terminal.
    log.close();
    ended.map(|()| ExitCode::SUCCESS)
}

/// The service manager that started this node, if one did. The node runs without one that it cannot reach.
fn service_manager(connection: &ConnectionArgs) -> Option<Arc<ServiceManager>> {
    let manager = ServiceManager::from_environment(&connection.fleet);
    let manager = manager.inspect_err(|error| errln!("baton: {}", error_line(error)));
    manager.ok().flatten().map(Arc::new)
}

/// The settings of the node.
fn settings(connection: &ConnectionArgs, args: &RunArgs) -> Result<NodeBuilder, UsageError> {
    let settings = args.settings(connection.fleet.clone());
    // A test can ask for a ledger.
    #[cfg(feature = "chaos")]
    let settings =
        settings.audit(std::env::var_os("BATON_AUDIT").is_some_and(|value| value == "1"));
    let checked = settings.check();
    checked.map_err(|error| UsageError(error.to_string()))?;
    Ok(settings)
}

/// Listens for requests about this node, and prints where.
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

/// Serves metrics and health. Returns only if that fails, after it has printed why.
async fn serve(listener: Listener, watch: Watch, own: OwnNode) {
    if let Err(error) = listener.node(watch, own).await {
        let text = format!("baton: metrics and health are served no more: {error}");
        // On another thread: a stalled reader of stderr must not delay a beat.
        let print = move || errln_within(&text, STDERR_TIMEOUT);
        let _ = tokio::task::spawn_blocking(print).await;
    }
}
