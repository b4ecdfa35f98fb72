//! The password of a server: from its URL, from the embedded server's folder, or as given.

use std::env::VarError;

use anyhow::{Context, bail};
use baton::{Target, TlsFiles};

use super::local;
use crate::args::ConnectionArgs;
use crate::small_file;

/// The target with the database and the password that it needs. The password of its URL comes
/// first, then that of the embedded server, then the one that the user gave.
pub(super) fn complete(target: Target, args: &ConnectionArgs) -> anyhow::Result<Target> {
    let given = given_password(args)?;
    let target = match tls_files(args) {
        Some(files) => target.with_tls(files).context("--tls-ca, --tls-cert")?,
        None => target,
    };
    let target = match args.db {
        Some(db) => target.with_db(db),
        None => target,
    };
    let access = target
        .loopback_port()
        .map_or(Access::Unknown, embedded_access);
    Ok(match (access, given) {
        (Access::Password(password), _) => {
            target.on_ipv4_loopback().with_default_password(&password)
        }
        // A server without a password refuses a client that sends one.
        (Access::Open, _) | (Access::Unknown, None) => target,
        (Access::Unknown, Some(password)) => target.with_default_password(&password),
    })
}

/// The certificates that the user gave.
fn tls_files(args: &ConnectionArgs) -> Option<TlsFiles> {
    let client = args.tls_cert.clone().zip(args.tls_key.clone());
    let files = TlsFiles {
        ca: args.tls_ca.clone(),
        client,
    };
    (files != TlsFiles::default()).then_some(files)
}

/// What the server on a port of this machine wants from a client.
enum Access {
    /// The embedded server of this user, with this password.
    Password(String),
    /// The embedded server of this user, which an older version started without a password.
    Open,
    /// Another server.
    Unknown,
}

fn embedded_access(port: u16) -> Access {
    let Ok(embedded) = local::embedded(port) else {
        return Access::Unknown;
    };
    match embedded.password() {
        Some(password) => Access::Password(password),
        None if embedded.is_open() => Access::Open,
        None => Access::Unknown,
    }
}

/// The password of the file or of the environment.
fn given_password(args: &ConnectionArgs) -> anyhow::Result<Option<String>> {
    let Some(file) = &args.password_file else {
        return match std::env::var("REDIS_PASSWORD") {
            Ok(password) => Ok(Some(password).filter(|password| !password.is_empty())),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => bail!("REDIS_PASSWORD is not valid UTF-8"),
        };
    };
    let text = small_file::read_text(file)
        .with_context(|| format!("cannot read the password file {}", file.display()))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => bail!("the password file {} is empty", file.display()),
        password => Ok(Some(password.to_owned())),
    }
}
