//! Flags that name the Redis and the fleet. They work before and after a command's name.

use std::path::PathBuf;

use baton::FleetName;
use clap::value_parser;

/// Which Redis, and which fleet in it.
#[derive(clap::Args, Debug, Clone)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// Redis to use: redis://[user[:password]@]host[:port][/db], unix:///path/to/socket,
    /// redis+sentinel://host[:port],…/master[/db] or redis+cluster://host[:port],…; with rediss for TLS.
    /// Sentinels have a login of their own: ?sentinel_user=NAME&sentinel_password=PASSWORD
    // Text, not a parsed URL: a complaint about it would repeat the password.
    #[arg(long, global = true, value_name = "URL", env = "REDIS_URL")]
    pub(crate) redis: Option<String>,
    /// Redis to use, as host:port [default: localhost:6379]
    #[arg(long, global = true, value_name = "HOST:PORT", env = "BATON_ADDR")]
    pub(crate) addr: Option<String>,
    /// Host of the Redis to use [default: localhost]
    #[arg(long, global = true, value_name = "HOST", env = "BATON_HOST")]
    pub(crate) host: Option<String>,
    /// Port of the Redis to use [default: 6379]
    #[arg(
        long,
        global = true,
        value_name = "PORT",
        env = "BATON_PORT",
        value_parser = value_parser!(u16).range(1..)
    )]
    pub(crate) port: Option<u16>,
    /// Number of the Redis database [default: the URL's, or 0]
    #[arg(
        long,
        global = true,
        value_name = "N",
        env = "BATON_DB",
        value_parser = value_parser!(i64).range(0..=i64::from(i32::MAX))
    )]
    pub(crate) db: Option<i64>,
    /// File with the password [default: the URL's, or the variable REDIS_PASSWORD]
    #[arg(long, global = true, value_name = "FILE", env = "BATON_PASSWORD_FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// File with the authorities (PEM) that sign the server's certificate [default: those that this
    /// machine trusts]. The certificate must have the host of the URL as a name, or the host or IP
    /// address that Sentinels or a cluster give
    #[arg(long, global = true, value_name = "FILE", env = "BATON_TLS_CA")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// File with this program's own certificate (PEM), for servers that ask for one
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "BATON_TLS_CERT",
        requires = "tls_key"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the key (PEM) of --tls-cert
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "BATON_TLS_KEY",
        requires = "tls_cert"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Name of the fleet; fleets of different names never touch each other
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "BATON_FLEET",
        default_value = "default",
        value_parser = |name: &str| FleetName::new(name)
    )]
    pub(crate) fleet: FleetName,
    /// Never start a server; `run` waits until one answers on localhost
    #[arg(long, global = true, env = "BATON_NO_EMBEDDED")]
    pub(crate) no_embedded: bool,
    /// Port of localhost where `run` finds a server or starts one
    ///
    /// Not in the help: it is for tests, and for machines where 6379 is taken.
    #[arg(
        long,
        global = true,
        hide = true,
        value_name = "PORT",
        env = "BATON_EMBEDDED_PORT",
        default_value_t = 6379,
        value_parser = value_parser!(u16).range(1..)
    )]
    pub(crate) embedded_port: u16,
    /// Which of these flags the user typed: they take precedence over the environment.
    #[arg(skip)]
    pub(crate) typed: Typed,
}

/// Flags that were typed, as opposed to variables that are set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Typed {
    pub(crate) redis: bool,
    pub(crate) addr: bool,
    pub(crate) host: bool,
    pub(crate) port: bool,
}

impl Typed {
    pub(crate) fn new(is_typed: impl Fn(&str) -> bool) -> Self {
        Self {
            redis: is_typed("redis"),
            addr: is_typed("addr"),
            host: is_typed("host"),
            port: is_typed("port"),
        }
    }
}
