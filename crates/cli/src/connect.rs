//! Which Redis: what was said on the command line, then the environment, then localhost,
//! then, for a node, a server that is started here.

use std::env::VarError;
use std::fs;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use baton::Target;
use baton_print::errln;
use baton_protocol::Store;
use baton_server::{Embedded, Heard, Started};

use crate::args::ConnectionArgs;
use crate::usage::Usage;

/// Redis's own port.
const DEFAULT_PORT: u16 = 6379;
/// How long a command that is not a node waits for a connection.
const PATIENCE: Duration = Duration::from_millis(4500);
/// How long a connection may take before a person wants to know what is waited for.
const SILENCE: Duration = Duration::from_millis(1500);
/// How long a command that looks again and again waits for a refusal before it begins.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(1);
/// How long a server on this machine may take to accept a connection.
const LOCAL_PATIENCE: Duration = Duration::from_millis(500);

/// What was said about the server to use.
enum Said<'a> {
    Url(&'a str),
    Addr(&'a str),
    HostPort(&'a str, u16),
    Nothing,
}

/// The server for a node. Starts one if nothing was said, none answers, and it may.
pub(crate) fn for_node(args: &ConnectionArgs) -> anyhow::Result<Target> {
    if let Some(target) = named(args)? {
        return Ok(target);
    }
    let port = args.embedded_port;
    match local(port) {
        Local::At(url) => dress(Target::parse(&url)?, args),
        _ if args.no_embedded => dress(Target::parse(&format!("redis://localhost:{port}"))?, args),
        heard => {
            if let Local::Silent = heard {
                errln!(
                    "baton: a program listens on 127.0.0.1:{port} and does not answer; trying to start \
                     a server there"
                );
            }
            dress(start_embedded(port)?, args)
        }
    }
}

/// The server for a command that ends by itself. Starts none.
pub(crate) fn for_command(args: &ConnectionArgs) -> anyhow::Result<Target> {
    if let Some(target) = named(args)? {
        return Ok(target);
    }
    let port = args.embedded_port;
    match local(port) {
        Local::At(url) => dress(Target::parse(&url)?, args),
        Local::Silent => bail!(
            "a program listens on 127.0.0.1:{port}, but it did not answer like a Redis within a \
             second; name another server with --redis URL or REDIS_URL"
        ),
        Local::Nothing => bail!(
            "no Redis answers on localhost:{port}; name one with --redis URL or REDIS_URL, or start a \
             node with `baton run`, which starts a server"
        ),
    }
}

/// A connection for a command that ends by itself, with a name that others see while it lives.
pub(crate) async fn open(args: &ConnectionArgs, target: &Target) -> anyhow::Result<Store> {
    let name = baton_protocol::new_name();
    in_time(target, Store::open(target, &args.fleet, &name, |_| {})).await
}

/// A connection for a command that only reads.
pub(crate) async fn view(args: &ConnectionArgs, target: &Target) -> anyhow::Result<Store> {
    in_time(target, Store::view(target, &args.fleet)).await
}

async fn in_time(
    target: &Target,
    store: impl Future<Output = Result<Store, baton::Error>>,
) -> anyhow::Result<Store> {
    let mut store = std::pin::pin!(tokio::time::timeout(PATIENCE, store));
    let store = tokio::select! {
        store = &mut store => store,
        () = tokio::time::sleep(SILENCE) => {
            errln!("baton: no answer from {target} yet; waiting for it");
            store.await
        }
    };
    match store {
        Ok(store) => store.with_context(|| format!("cannot use {target}")),
        Err(_) => bail!("cannot use {target}: no answer within {PATIENCE:?}"),
    }
}

/// Ends a command that reads again and again if the server will never let it in: it is in cluster
/// mode, or wants another password. A server that is only away may come back.
pub(crate) async fn refuse_at_once(args: &ConnectionArgs, target: &Target) -> anyhow::Result<()> {
    let view = Store::view(target, &args.fleet);
    match tokio::time::timeout(REFUSAL_PATIENCE, view).await {
        Ok(Err(error)) if !error.is_transient() => {
            Err(error).with_context(|| format!("cannot use {target}"))
        }
        _ => Ok(()),
    }
}

/// The server that was named, if one was; localhost is not tried, and none is started.
pub(crate) fn named(args: &ConnectionArgs) -> anyhow::Result<Option<Target>> {
    given(args)?.map(|target| dress(target, args)).transpose()
}

/// Variables that let a copy of this program find the server that was named.
pub(crate) fn environment(args: &ConnectionArgs) -> Result<Vec<(String, String)>, Usage> {
    let mut variables = match said(args)? {
        Said::Url(url) => vec![("REDIS_URL", url.to_owned())],
        Said::Addr(addr) => vec![("BATON_ADDR", addr.to_owned())],
        Said::HostPort(host, port) => {
            vec![
                ("BATON_HOST", host.to_owned()),
                ("BATON_PORT", port.to_string()),
            ]
        }
        Said::Nothing => Vec::new(),
    };
    variables.extend(args.db.map(|db| ("BATON_DB", db.to_string())));
    if let Some(file) = &args.password_file {
        variables.push(("BATON_PASSWORD_FILE", file.display().to_string()));
    }
    if let Ok(password) = std::env::var("REDIS_PASSWORD") {
        variables.push(("REDIS_PASSWORD", password));
    }
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    Ok(variables.into_iter().map(owned).collect())
}

/// Refuses a typed server for `baton server`, unless it is the embedded one: if the flag were
/// ignored, users would stop the wrong server.
pub(crate) fn check_embedded(args: &ConnectionArgs) -> Result<(), Usage> {
    let typed = args.typed;
    if !(typed.redis || typed.addr || typed.host || typed.port) {
        return Ok(());
    }
    let port = args.embedded_port;
    match given(args)? {
        Some(target) if target.loopback_port() == Some(port) => Ok(()),
        Some(target) => Err(Usage(format!(
            "`baton server` controls only the server that `baton run` starts on 127.0.0.1:{port}; \
             {target} is another one"
        ))),
        None => Ok(()),
    }
}

/// The server that `baton run` starts if no Redis answers.
pub(crate) fn embedded(port: u16) -> anyhow::Result<Embedded> {
    Ok(Embedded::new(port, baton_server::default_data_dir()?))
}

fn given(args: &ConnectionArgs) -> Result<Option<Target>, Usage> {
    let parse = |url: &str, flag: &str| {
        Target::parse(url).map_err(|error| Usage(format!("{flag}: {error}")))
    };
    Ok(Some(match said(args)? {
        Said::Nothing => return Ok(None),
        Said::Url(url) => parse(url, "--redis")?,
        Said::Addr(addr) => {
            let (host, port) = split(addr).ok_or_else(|| {
                Usage(
                    "--addr: write it as host:port, such as localhost:6379 or [::1]:6379; \
                     credentials go into --redis"
                        .to_owned(),
                )
            })?;
            parse(&url(host, port), "--addr")?
        }
        Said::HostPort(host, port) => {
            let host = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            if !is_host(host) {
                return Err(Usage(
                    "--host: write a name or an address; a port goes into --port, credentials into \
                     --redis"
                        .to_owned(),
                ));
            }
            parse(&url(host, port), "--host")?
        }
    }))
}

/// What was typed, else what the environment says.
fn said(args: &ConnectionArgs) -> Result<Said<'_>, Usage> {
    let typed = args.typed;
    let host_port = || {
        let host = args.host.as_deref().unwrap_or("localhost");
        Said::HostPort(host, args.port.unwrap_or(DEFAULT_PORT))
    };
    let ways = [
        (typed.redis, "--redis"),
        (typed.addr, "--addr"),
        (typed.host, "--host"),
        (typed.port && !typed.host, "--port"),
    ];
    let named: Vec<&str> = ways
        .iter()
        .filter(|(typed, _)| *typed)
        .map(|(_, flag)| *flag)
        .collect();
    if let [first, second, ..] = named[..] {
        return Err(Usage(format!(
            "{first} cannot be used with {second}: each names a server"
        )));
    }
    Ok(match (&args.redis, &args.addr) {
        (Some(url), _) if typed.redis => Said::Url(url),
        (_, Some(addr)) if typed.addr => Said::Addr(addr),
        _ if typed.host || typed.port => host_port(),
        (_, Some(addr)) => Said::Addr(addr),
        _ if args.host.is_some() || args.port.is_some() => host_port(),
        (Some(url), None) => Said::Url(url),
        (None, None) => Said::Nothing,
    })
}

/// Splits `host:port`, `[address]:port`, `:port`, `host` and a bare IPv6 address.
pub(crate) fn split(addr: &str) -> Option<(&str, u16)> {
    if addr.parse::<Ipv6Addr>().is_ok() {
        return Some((addr, DEFAULT_PORT));
    }
    let (host, port) = match addr.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (
                host,
                if port.is_empty() {
                    None
                } else {
                    Some(port.strip_prefix(':')?)
                },
            )
        }
        None => match addr.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (addr, None),
        },
    };
    let host = if host.is_empty() && port.is_some() {
        "localhost"
    } else {
        host
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0)?,
        None => DEFAULT_PORT,
    };
    is_host(host).then_some((host, port))
}

/// Whether this can be a host: nothing that means something else in a URL.
fn is_host(host: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    host.parse::<Ipv6Addr>().is_ok() || (!host.is_empty() && host.chars().all(plain))
}

pub(crate) fn url(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("redis://[{host}]:{port}"),
        false => format!("redis://{host}:{port}"),
    }
}

/// What there is on this machine.
enum Local {
    /// A server, at exactly this URL. Not the name `localhost`: two servers may stand behind
    /// it, and a fleet must meet at one.
    At(String),
    /// A program that listens and answers nothing.
    Silent,
    Nothing,
}

fn local(port: u16) -> Local {
    let heard = baton_server::hear(port);
    if heard == Heard::Server {
        return Local::At(format!("redis://127.0.0.1:{port}"));
    }
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    match (TcpStream::connect_timeout(&address, LOCAL_PATIENCE), heard) {
        (Ok(_), _) => Local::At(url("::1", port)),
        (Err(_), Heard::Silence) => Local::Silent,
        _ => Local::Nothing,
    }
}

/// The target with the database that was said beside it, and with a password: its URL's, or
/// that of the server that was started here, or the one that was said.
fn dress(target: Target, args: &ConnectionArgs) -> anyhow::Result<Target> {
    let said = password(args)?;
    let target = match args.db {
        Some(db) => target.with_db(db),
        None => target,
    };
    let own = target.loopback_port().map(own_password);
    Ok(match own.unwrap_or(Own::Other) {
        Own::Password(password) => target.on_ipv4_loopback().with_default_password(&password),
        // It has no password, and refuses to be given one.
        Own::Open => target,
        Own::Other => match said {
            Some(password) => target.with_default_password(&password),
            None => target,
        },
    })
}

/// What the server on a port of this machine wants if it was started here.
enum Own {
    Password(String),
    Open,
    /// It was not started here, or not by this user.
    Other,
}

fn own_password(port: u16) -> Own {
    let Ok(embedded) = embedded(port) else {
        return Own::Other;
    };
    match embedded.password() {
        Some(password) => Own::Password(password),
        None if embedded.is_open() => Own::Open,
        None => Own::Other,
    }
}

/// The password of the file or of the environment.
fn password(args: &ConnectionArgs) -> anyhow::Result<Option<String>> {
    let Some(file) = &args.password_file else {
        return match std::env::var("REDIS_PASSWORD") {
            Ok(password) => Ok(Some(password).filter(|password| !password.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => bail!("REDIS_PASSWORD is not valid UTF-8"),
        };
    };
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the password file {}", file.display()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => bail!("the password file {} is empty", file.display()),
        password => Ok(Some(password.to_owned())),
    }
}

fn start_embedded(port: u16) -> anyhow::Result<Target> {
    let embedded = embedded(port)?;
    let started = embedded.start().with_context(|| {
        format!(
            "no Redis answers on localhost:{port}, and baton could not start one (name another \
             server with --redis URL)"
        )
    })?;
    let status = embedded.status();
    match started {
        Started::Here => {
            let program = status.program.map_or_else(
                || "a server".to_owned(),
                |program| program.display().to_string(),
            );
            errln!(
                "baton: no Redis answered on localhost:{port}, so this node started one: {program} on \
                 127.0.0.1:{port}\n\
                 baton: its data is in {}; it outlives this node, and other users cannot use it\n\
                 baton: `baton server status` describes it, `baton server stop` stops it",
                status.data_dir.display()
            );
        }
        Started::Joined => {
            errln!("baton: using the server that another copy just started on 127.0.0.1:{port}")
        }
    }
    Ok(Target::parse(&embedded.url())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for (addr, parts) in [
            ("localhost:6379", ("localhost", 6379)),
            ("h", ("h", 6379)),
            (":7000", ("localhost", 7000)),
            ("10.0.0.1:1", ("10.0.0.1", 1)),
            ("[::1]:7000", ("::1", 7000)),
            ("[::1]", ("::1", 6379)),
            ("::1", ("::1", 6379)),
        ] {
            assert_eq!(split(addr), Some(parts), "{addr}");
        }
        for bad in [
            "",
            ":",
            "h:",
            "h:0",
            "h:99999",
            "h:x",
            "user:pw@h:1",
            "[::1]x",
            "[h]:1",
            "a b:1",
            "h/1:2",
            "redis://h:1",
            "h?x:1",
        ] {
            assert_eq!(split(bad), None, "{bad}");
        }
    }
}
