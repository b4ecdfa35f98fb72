//! Which Redis to use, and with what credentials. Never shows a password.

use std::borrow::Cow;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};

use crate::{Error, Setting};

/// The address of a Redis server and the credentials for it. `Debug` and `Display` show
/// neither user nor password.
#[derive(Clone)]
pub struct Target {
    info: ConnectionInfo,
}

impl Target {
    /// Parses `redis://`, `rediss://` (TLS), `unix://` or `redis+unix://`, with user,
    /// password and database.
    pub fn parse(url: &str) -> Result<Self, Error> {
        const FORMS: &str = "use redis://[user[:password]@]host[:port][/db], rediss://… for TLS, \
             or unix:///path/to/socket[?db=N]";
        // Neither the text is repeated nor what the client says of it, which repeats parts: it
        // may hold a password.
        let info = url
            .into_connection_info()
            .map_err(|_| unfit(format!("this is not a Redis URL: {FORMS}")))?;
        if let ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } = info.addr()
            && host.is_empty()
        {
            return Err(unfit(format!("this Redis URL has no host: {FORMS}")));
        }
        let redis = info
            .redis_settings()
            .clone()
            // RESP3 lets one connection carry calls and its own presence.
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("baton", env!("CARGO_PKG_VERSION"));
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(Self {
            info: info.set_redis_settings(redis).set_tcp_settings(tcp),
        })
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
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) if host == "localhost" || host == "127.0.0.1" => {
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

/// A client for a target. Opens no connection.
pub fn redis_client(target: &Target) -> Result<redis::Client, Error> {
    if matches!(target.info.addr(), ConnectionAddr::TcpTls { .. }) {
        // The client library bundles no provider, and a program that uses this library may
        // have several. An error means that one is installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let mut info = target.info.clone();
    let redis = info.redis_settings();
    if redis.username().is_some() && redis.password().is_none() {
        // Without a password the client library would not log in at all, and act as the default
        // user, who may have more rights.
        let redis = redis.clone().set_password("");
        info = info.set_redis_settings(redis);
    }
    redis::Client::open(info).map_err(|error| unfit(crate::error::plain(&error)))
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
fn bracketed(host: &str) -> Cow<'_, str> {
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
