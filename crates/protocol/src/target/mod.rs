//! Which Redis to use, and with what credentials. Never shows a password.

mod place;
mod tls;

use std::borrow::Cow;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use crate::{Error, Setting};
pub(crate) use place::{Place, at};
pub use tls::TlsFiles;

/// Where a Redis server is, and the credentials for it. `Debug` and `Display` show neither user nor
/// password.
#[derive(Clone)]
pub struct Target {
    /// The credentials, and the address if it is fixed.
    info: ConnectionInfo,
    place: Place,
    tls: Option<TlsFiles>,
}

impl Target {
    /// Parses `redis://`, `rediss://` (TLS), `unix://` or `redis+unix://`, with user,
    /// password and database; `redis+sentinel://host,host/master`, which follows the master of that
    /// name; and `redis+cluster://host,host`, which follows the server with the fleet's slot. The last
    /// two exist with `rediss+`, too.
    pub fn parse(url: &str) -> Result<Self, Error> {
        let (place, info) = match place::parse(url) {
            Some(parsed) => parsed.map_err(unfit)?,
            None => (Place::Server, parse_server(url)?),
        };
        let redis = info
            .redis_settings()
            .clone()
            // RESP3 lets one connection carry calls and its own presence.
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("baton", env!("CARGO_PKG_VERSION"));
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(Self {
            info: info.set_redis_settings(redis).set_tcp_settings(tcp),
            place,
            tls: None,
        })
    }

    /// The same target with these certificates. Only a URL of TLS (`rediss`) can have them.
    pub fn with_tls(mut self, files: TlsFiles) -> Result<Self, Error> {
        if !matches!(self.info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(unfit(
                "certificates need a URL that begins with rediss".to_owned(),
            ));
        }
        self.tls = Some(files);
        // Reads the certificates now, so the caller learns of a wrong file at once.
        self.client()?;
        Ok(self)
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// A client of a server whose address is fixed. Opens no connection.
    pub(crate) fn client(&self) -> Result<redis::Client, Error> {
        open(self.info.clone(), self.tls.as_ref())
    }

    /// A client of the server at an address that Sentinels or a cluster gave.
    pub(crate) fn client_at(&self, host: &str, port: u16) -> Result<redis::Client, Error> {
        open(at(&self.info, host, port), self.tls.as_ref())
    }

    /// A client of a Sentinel.
    pub(crate) fn sentinel_client(
        &self,
        sentinel: &ConnectionInfo,
    ) -> Result<redis::Client, Error> {
        open(sentinel.clone(), self.tls.as_ref())
    }

    /// The same target with this password, unless its URL had one.
    pub fn with_default_password(mut self, password: &str) -> Self {
        let redis = self.info.redis_settings();
        if redis.password().is_none() {
            let redis = redis.clone().set_password(password);
            self.info = self.info.set_redis_settings(redis);
        }
        self
    }

    /// The same target with another database number.
    pub fn with_db(mut self, db: i64) -> Self {
        let redis = self.info.redis_settings().clone().set_db(db);
        self.info = self.info.set_redis_settings(redis);
        self
    }

    /// The port, if the target is a port of this machine's IPv4 loopback interface.
    pub fn loopback_port(&self) -> Option<u16> {
        let is_server = matches!(self.place, Place::Server);
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port)
                if is_server && (host == "localhost" || host == "127.0.0.1") =>
            {
                Some(*port)
            }
            _ => None,
        }
    }

    /// The same target at the address 127.0.0.1. The name `localhost` may also mean ::1, where
    /// another server may listen.
    pub fn on_ipv4_loopback(mut self) -> Self {
        if let Some(port) = self.loopback_port() {
            let address = ConnectionAddr::Tcp("127.0.0.1".to_owned(), port);
            self.info = self.info.set_addr(address);
        }
        self
    }
}

/// How to connect to a server, in the forms of a URL that has one.
fn parse_server(url: &str) -> Result<ConnectionInfo, Error> {
    const FORMS: &str = "use redis://[user[:password]@]host[:port][/db], rediss://… for TLS, \
         unix:///path/to/socket[?db=N], redis+sentinel://host,…/master or redis+cluster://host,…";
    // Neither the text is repeated nor what the client says of it, which repeats parts: it may hold a
    // password.
    let info = url
        .into_connection_info()
        .map_err(|_| unfit(format!("this is not a Redis URL: {FORMS}")))?;
    match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } if host.is_empty() => {
            Err(unfit(format!("this Redis URL has no host: {FORMS}")))
        }
        _ => Ok(info),
    }
}

/// A client of a server whose address is fixed. Opens no connection.
pub fn redis_client(target: &Target) -> Result<redis::Client, Error> {
    target.client()
}

/// What a target says about its server before anything connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetFacts {
    /// What the addresses of the URL are.
    pub kind: TargetKind,
    /// The number of the database.
    pub database: i64,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// Whether all bytes stay on this machine.
    pub is_local: bool,
}

/// What the addresses of a URL are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetKind {
    /// One server.
    Server,
    /// Sentinels, which name the server.
    Sentinels,
    /// Servers of a cluster, which name the server.
    Cluster,
}

/// What a target says about its server before anything connects.
pub fn target_facts(target: &Target) -> TargetFacts {
    let is_loopback = |info: &ConnectionInfo| match info.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => {
            host == "localhost"
                || host
                    .parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        ConnectionAddr::Unix(_) => true,
        _ => false,
    };
    let kind = match target.place {
        Place::Server => TargetKind::Server,
        Place::Sentinels { .. } => TargetKind::Sentinels,
        Place::Cluster { .. } => TargetKind::Cluster,
    };
    TargetFacts {
        kind,
        database: target.info.redis_settings().db(),
        is_encrypted: matches!(target.info.addr(), ConnectionAddr::TcpTls { .. }),
        is_local: is_loopback(&target.info),
    }
}

/// A client with these settings. Opens no connection.
fn open(info: ConnectionInfo, tls: Option<&TlsFiles>) -> Result<redis::Client, Error> {
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        // The client library bundles no provider, and a program that uses this library may
        // have several. An error means that one is installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut info = info;
    let redis = info.redis_settings();
    if redis.username().is_some() && redis.password().is_none() {
        // Without a password the client library would not log in at all, and act as the default
        // user, who may have more rights.
        let redis = redis.clone().set_password("");
        info = info.set_redis_settings(redis);
    }
    let client = match tls {
        None => redis::Client::open(info),
        Some(files) => redis::Client::build_with_tls(info, files.certificates()?),
    };
    client.map_err(|error| unfit(crate::error::plain(&error)))
}

fn unfit(problem: String) -> Error {
    Error::setting(Setting::Target, problem)
}

impl std::str::FromStr for Target {
    type Err = Error;

    fn from_str(url: &str) -> Result<Self, Error> {
        Self::parse(url)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let host_of = |info: &ConnectionInfo| match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                format!("{}:{port}", bracketed(host))
            }
            other => other.to_string(),
        };
        let s = match self.info.addr() {
            ConnectionAddr::TcpTls { .. } => "s",
            _ => "",
        };
        match &self.place {
            Place::Server => {}
            Place::Sentinels { sentinels, master } => {
                let hosts: Vec<_> = sentinels.iter().map(host_of).collect();
                write!(f, "redis{s}+sentinel://{}/{master}", hosts.join(","))?;
                return match self.info.redis_settings().db() {
                    0 => Ok(()),
                    db => write!(f, " db {db}"),
                };
            }
            Place::Cluster { seeds } => {
                let seeds = seeds
                    .iter()
                    .map(|(host, port)| format!("{}:{port}", bracketed(host)));
                let seeds: Vec<_> = seeds.collect();
                return write!(f, "redis{s}+cluster://{}", seeds.join(","));
            }
        }
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) => write!(f, "redis://{}:{port}", bracketed(host))?,
            ConnectionAddr::TcpTls { host, port, .. } => {
                write!(f, "rediss://{}:{port}", bracketed(host))?;
            }
            ConnectionAddr::Unix(path) => write!(f, "unix://{}", path.display())?,
            _ => f.write_str("redis")?,
        }
        match self.info.redis_settings().db() {
            0 => Ok(()),
            db => write!(f, " db {db}"),
        }
    }
}

/// A host as a URL shows it: an IPv6 address in brackets.
pub(crate) fn bracketed(host: &str) -> Cow<'_, str> {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]").into(),
        false => host.into(),
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_target_shows_its_credentials() {
        for url in [
            "redis://alice:s3cret@example:7000/2",
            "rediss://:s3cret@example",
            "unix:///tmp/x.sock?db=1&user=alice&pass=s3cret",
        ] {
            let target = Target::parse(url).unwrap();
            for text in [format!("{target}"), format!("{target:?}")] {
                assert!(
                    !text.contains("s3cret") && !text.contains("alice"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_bad_url_is_explained_without_being_repeated() {
        for url in [
            "",
            "http://:s3cret@h",
            "redis://",
            "localhost:6379",
            "redis://h:99999",
            "redis://h/x",
            "redis://h?protocol=3?pass=s3cret",
        ] {
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(
                error.contains("redis://[user[:password]@]host"),
                "{url}: {error}"
            );
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_loopback_interface_is_known_by_name_and_by_address() {
        for (url, port, there) in [
            ("redis://localhost", Some(6379), "redis://127.0.0.1:6379"),
            (
                "redis://127.0.0.1:7000/2",
                Some(7000),
                "redis://127.0.0.1:7000 db 2",
            ),
            ("redis://[::1]:7000", None, "redis://[::1]:7000"),
            ("rediss://localhost", None, "rediss://localhost:6379"),
            ("redis://example", None, "redis://example:6379"),
            ("unix:///tmp/x.sock", None, "unix:///tmp/x.sock"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(target.loopback_port(), port, "{url}");
            assert_eq!(target.on_ipv4_loopback().to_string(), there);
        }
    }

    #[test]
    fn a_password_in_the_url_wins_over_the_default_one() {
        let target = Target::parse("redis://:first@h")
            .unwrap()
            .with_default_password("second");
        assert_eq!(target.info.redis_settings().password(), Some("first"));
        let target = Target::parse("redis://h")
            .unwrap()
            .with_default_password("second");
        assert_eq!(target.info.redis_settings().password(), Some("second"));
    }
}
