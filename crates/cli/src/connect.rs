//! Which Redis: what was said on the command line, then the environment, then localhost,
//! then, for a node, a server that is started here.

use std::env::VarError;
use std::fs;
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, bail};
use baton::Target;
use baton::protocol::Store;
use baton_server::{Embedded, Started};

use crate::args::ConnectionArgs;
use crate::usage::Usage;

/// Redis's own port.
const DEFAULT_PORT: u16 = 6379;
/// How long a command that is not a node waits for a connection.
const PATIENCE: Duration = Duration::from_millis(4500);
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
    if let Some(target) = given(args)? {
        return Ok(dress(target, args, password(args)?));
    }
    let port = args.embedded_port;
    match local(port) {
        Some(url) => local_target(args, &url),
        None if args.no_embedded => {
            let target = Target::parse(&format!("redis://localhost:{port}"))?;
            Ok(dress(target, args, password(args)?))
        }
        None => Ok(dress(start_embedded(port)?, args, None)),
    }
}

/// The server for a command that ends by itself. Starts none.
pub(crate) fn for_command(args: &ConnectionArgs) -> anyhow::Result<Target> {
    if let Some(target) = given(args)? {
        return Ok(dress(target, args, password(args)?));
    }
    let port = args.embedded_port;
    let Some(url) = local(port) else {
        bail!(
            "no Redis answers on localhost:{port}; name one with --redis URL or REDIS_URL, \
             or start a fleet with `baton run`, which brings its own"
        );
    };
    local_target(args, &url)
}

/// A connection for a command that ends by itself, with a name that others see while it lives.
pub(crate) async fn open(args: &ConnectionArgs, target: &Target) -> anyhow::Result<Store> {
    let name = baton::new_name();
    in_time(target, Store::open(target, &args.fleet, &name, |_| {})).await
}

/// A connection for a command that only looks.
pub(crate) async fn view(args: &ConnectionArgs, target: &Target) -> anyhow::Result<Store> {
    in_time(target, Store::view(target, &args.fleet)).await
}

async fn in_time(
    target: &Target,
    store: impl Future<Output = Result<Store, baton::Error>>,
) -> anyhow::Result<Store> {
    match tokio::time::timeout(PATIENCE, store).await {
        Ok(store) => store.with_context(|| format!("cannot use {target}")),
        Err(_) => bail!("cannot use {target}: no answer within {PATIENCE:?}"),
    }
}

/// Ends a command that looks again and again where the server will never let it in: in cluster
/// mode, or with another password. A server that is only away may come.
pub(crate) async fn refuse_at_once(args: &ConnectionArgs, target: &Target) -> anyhow::Result<()> {
    let view = Store::view(target, &args.fleet);
    match tokio::time::timeout(REFUSAL_PATIENCE, view).await {
        Ok(Err(error)) if !error.is_passing() => {
            Err(error).with_context(|| format!("cannot use {target}"))
        }
        _ => Ok(()),
    }
}

/// The server that was named, if one was; localhost is not tried, and none is started.
pub(crate) fn named(args: &ConnectionArgs) -> anyhow::Result<Option<Target>> {
    match given(args)? {
        Some(target) => Ok(Some(dress(target, args, password(args)?))),
        None => Ok(None),
    }
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

/// The server that runs here when there is no other.
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
                    "--host: a name or an address is needed; a port goes into --port, \
                     credentials into --redis"
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

/// The address of a server that answers on this machine. The exact one, and not the name
/// `localhost`: two servers may stand behind it, and a fleet must meet at one.
fn local(port: u16) -> Option<String> {
    if baton_server::answers(port) {
        return Some(format!("redis://127.0.0.1:{port}"));
    }
    let address = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, LOCAL_PATIENCE)
        .is_ok()
        .then(|| url("::1", port))
}

fn local_target(args: &ConnectionArgs, url: &str) -> anyhow::Result<Target> {
    let mut password = password(args)?;
    // The server that was started here has no password, and refuses to be given one.
    if password.is_some() && embedded(args.embedded_port)?.status().is_running() {
        password = None;
    }
    Ok(dress(Target::parse(url)?, args, password))
}

/// The target with the database and the password that were said beside it.
fn dress(target: Target, args: &ConnectionArgs, password: Option<String>) -> Target {
    let target = match args.db {
        Some(db) => target.with_db(db),
        None => target,
    };
    match password {
        Some(password) => target.with_default_password(&password),
        None => target,
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
        format!("no Redis answers on localhost:{port}, and none could be started (--redis names another)")
    })?;
    let status = embedded.status();
    match started {
        Started::Here => {
            let program = status.program.map_or_else(
                || "a server".to_owned(),
                |program| program.display().to_string(),
            );
            eprintln!(
                "baton: no Redis answered on localhost:{port}, so one was started: {program} on \
                 127.0.0.1:{port}\n\
                 baton: its data is in {}; it goes on when this node ends\n\
                 baton: `baton server status` looks at it, `baton server stop` ends it",
                status.data_dir.display()
            );
        }
        Started::Joined => {
            eprintln!("baton: using the server that another copy just started on 127.0.0.1:{port}")
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
