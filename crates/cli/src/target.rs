//! Which Redis: the one that the command line names, else the one that the environment names,
//! else the one on localhost. If there is none, a node starts the embedded server.

mod address;
mod credentials;
mod local;
mod named;

use anyhow::bail;
use baton::Target;
use baton_print::errln;

#[cfg(any(test, feature = "fuzz"))]
pub(crate) use address::{split, url};
pub(crate) use local::embedded;
pub(crate) use named::{check_embedded, environment};

use crate::args::ConnectionArgs;
use local::Local;

/// The server for a node. Starts the embedded server if none is named, none answers, and no flag
/// forbids it.
pub(crate) fn for_node(args: &ConnectionArgs) -> anyhow::Result<Target> {
    if let Some(target) = named(args)? {
        return Ok(target);
    }
    let port = args.embedded_port;
    let target = match local::probe(port) {
        Local::Server(url) => Target::parse(&url)?,
        _ if args.no_embedded => Target::parse(&address::url("localhost", port))?,
        found => {
            if let Local::OtherProgram = found {
                errln!(
                    "baton: a program listens on 127.0.0.1:{port} and does not answer; trying to start \
                     a server there"
                );
            }
            local::start_embedded(port)?
        }
    };
    credentials::complete(target, args)
}

/// The server for any other command. Starts none.
pub(crate) fn for_command(args: &ConnectionArgs) -> anyhow::Result<Target> {
    if let Some(target) = named(args)? {
        return Ok(target);
    }
    let port = args.embedded_port;
    match local::probe(port) {
        Local::Server(url) => credentials::complete(Target::parse(&url)?, args),
        Local::OtherProgram => bail!(
            "a program listens on 127.0.0.1:{port}, but it did not answer like a Redis within a \
             second; name another server with --redis URL or REDIS_URL"
        ),
        Local::Nothing => bail!(
            "no Redis answers on localhost:{port}; name one with --redis URL or REDIS_URL, or start a \
             node with `baton run`, which starts a server"
        ),
    }
}

/// The server that is named, if one is. Does not try localhost and starts none.
pub(crate) fn named(args: &ConnectionArgs) -> anyhow::Result<Option<Target>> {
    let target = named::target(args)?;
    target
        .map(|target| credentials::complete(target, args))
        .transpose()
}
