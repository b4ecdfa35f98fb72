//! `baton run`: one node, from its start to its end in good order.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use baton::Node;

use crate::args::{ConnectionArgs, RunArgs};
use crate::handler::{PretendedWork, RandomText};
use crate::log::Log;
use crate::stop::Stop;
use crate::usage::Usage;
use crate::{connect, runtime};

/// Runs a node until it is asked to stop.
pub(crate) fn run(connection: &ConnectionArgs, args: &RunArgs) -> anyhow::Result<ExitCode> {
    let config = args.config(connection.fleet.clone());
    #[cfg(feature = "chaos")]
    let config = crate::chaos::audited(config);
    config.check().map_err(|error| Usage(error.to_string()))?;
    let target = connect::for_node(connection)?;
    let place = format!("fleet {} on {target}", connection.fleet);

    let stop = Stop::on_signals().context("cannot listen for signals")?;
    let name = Arc::new(OnceLock::new());
    let log = Log::new(args.log, stop.clone(), Arc::clone(&name));
    let handler = PretendedWork::new(args);
    let source = RandomText::new();
    #[cfg(feature = "chaos")]
    let source = crate::chaos::Texts::around(source);
    let observe = move |event: &baton::Event| log.tell(event);
    let node = Node::new(target, config, source, handler, observe)?;
    // Nobody else has the key to this lock.
    let _ = name.set(node.name().to_owned());

    let asked = async move {
        stop.asked().await;
    };
    runtime::block_on(async move { node.run(asked).await.context(place) })?;
    Ok(ExitCode::SUCCESS)
}
