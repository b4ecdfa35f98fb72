//! The server that the command line or the environment names.

use baton::Target;

use super::address::{self, DEFAULT_PORT};
use crate::args::ConnectionArgs;
use crate::usage_error::UsageError;

/// How a server is named.
enum Name<'a> {
    Url(&'a str),
    Addr(&'a str),
    HostPort(&'a str, u16),
}

/// The server that is named, if one is. It has only the credentials and database of its URL.
pub(super) fn target(args: &ConnectionArgs) -> Result<Option<Target>, UsageError> {
    name(args)?.map(|name| resolve(&name)).transpose()
}

/// Variables that let a copy of this program find the server that is named.
pub(crate) fn environment(args: &ConnectionArgs) -> Result<Vec<(String, String)>, UsageError> {
    let mut variables = match name(args)? {
        Some(Name::Url(url)) => vec![("REDIS_URL", url.to_owned())],
        Some(Name::Addr(addr)) => vec![("BATON_ADDR", addr.to_owned())],
        Some(Name::HostPort(host, port)) => {
            vec![
                ("BATON_HOST", host.to_owned()),
                ("BATON_PORT", port.to_string()),
            ]
        }
        None => Vec::new(),
    };
    variables.extend(args.db.map(|db| ("BATON_DB", db.to_string())));
    for (name, file) in [
        ("BATON_PASSWORD_FILE", &args.password_file),
        ("BATON_TLS_CA", &args.tls_ca),
        ("BATON_TLS_CERT", &args.tls_cert),
        ("BATON_TLS_KEY", &args.tls_key),
    ] {
        variables.extend(file.as_ref().map(|file| (name, file.display().to_string())));
    }
    if let Ok(password) = std::env::var("REDIS_PASSWORD") {
        variables.push(("REDIS_PASSWORD", password));
    }
    let owned = |(name, value): (&str, String)| (name.to_owned(), value);
    Ok(variables.into_iter().map(owned).collect())
}

/// Refuses a server that the user typed beside `baton server`, unless it is the embedded one: if
/// the flag were ignored, the user would stop the wrong server.
pub(crate) fn check_embedded(args: &ConnectionArgs) -> Result<(), UsageError> {
    let typed = args.typed;
    if !(typed.redis || typed.addr || typed.host || typed.port) {
        return Ok(());
    }
    let port = args.embedded_port;
    match target(args)? {
        Some(target) if target.loopback_port() == Some(port) => Ok(()),
        Some(target) => Err(UsageError(format!(
            "`baton server` controls only the server that `baton run` starts on 127.0.0.1:{port}; \
             {target} is another one"
        ))),
        None => Ok(()),
    }
}

fn resolve(name: &Name<'_>) -> Result<Target, UsageError> {
    let parse = |url: &str, flag: &str| {
        Target::parse(url).map_err(|error| UsageError(format!("{flag}: {error}")))
    };
    match *name {
        Name::Url(url) => parse(url, "--redis"),
        Name::Addr(addr) => {
            let (host, port) = address::split(addr).ok_or_else(|| {
                UsageError(
                    "--addr: write it as host:port, such as localhost:6379 or [::1]:6379; \
                     credentials go into --redis"
                        .to_owned(),
                )
            })?;
            parse(&address::url(host, port), "--addr")
        }
        Name::HostPort(host, port) => {
            let host = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            if !address::is_host(host) {
                return Err(UsageError(
                    "--host: write a name or an address; a port goes into --port, credentials into \
                     --redis"
                        .to_owned(),
                ));
            }
            parse(&address::url(host, port), "--host")
        }
    }
}

/// What the user typed, else what the environment says.
fn name(args: &ConnectionArgs) -> Result<Option<Name<'_>>, UsageError> {
    refuse_two_names(args)?;
    let typed = args.typed;
    let host_port = || {
        let host = args.host.as_deref().unwrap_or("localhost");
        Name::HostPort(host, args.port.unwrap_or(DEFAULT_PORT))
    };
    Ok(match (&args.redis, &args.addr) {
        (Some(url), _) if typed.redis => Some(Name::Url(url)),
        (_, Some(addr)) if typed.addr => Some(Name::Addr(addr)),
        _ if typed.host || typed.port => Some(host_port()),
        (_, Some(addr)) => Some(Name::Addr(addr)),
        _ if args.host.is_some() || args.port.is_some() => Some(host_port()),
        (Some(url), None) => Some(Name::Url(url)),
        (None, None) => None,
    })
}

fn refuse_two_names(args: &ConnectionArgs) -> Result<(), UsageError> {
    let typed = args.typed;
    let flags = [
        (typed.redis, "--redis"),
        (typed.addr, "--addr"),
        (typed.host, "--host"),
        (typed.port && !typed.host, "--port"),
    ];
    let mut names = flags.iter().filter(|(typed, _)| *typed);
    match (names.next(), names.next()) {
        (Some((_, first)), Some((_, second))) => Err(UsageError(format!(
            "{first} cannot be used with {second}: each names a server"
        ))),
        _ => Ok(()),
    }
}
