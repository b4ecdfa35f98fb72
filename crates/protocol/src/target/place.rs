//! Where a fleet's server is: at an address, where Sentinels say, or where a cluster has its slot.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// Port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;
/// Port of a server that names none.
const SERVER_PORT: u16 = 6379;

/// Where a fleet's server is.
#[derive(Clone)]
pub(crate) enum Place {
    /// At one address.
    Server,
    /// Where these Sentinels say that the master of this name is.
    Sentinels {
        sentinels: Vec<ConnectionInfo>,
        master: String,
    },
    /// Where the cluster that one of these servers belongs to has the fleet's slot.
    Cluster { seeds: Vec<(String, u16)> },
}

/// A URL of several hosts, in its parts.
#[derive(Debug)]
struct Parts<'a> {
    /// `redis` or `rediss`.
    scheme: &'a str,
    /// User and password with the @, or nothing.
    login: &'a str,
    hosts: Vec<(String, u16)>,
    /// What stands between the hosts and the query.
    path: &'a str,
    query: &'a str,
}

/// The place and the settings of a URL with several hosts. None if it is not one.
pub(super) fn parse(url: &str) -> Option<Result<(Place, ConnectionInfo), String>> {
    let (scheme, rest) = url.split_once("://")?;
    let (scheme, kind) = scheme.split_once('+')?;
    match (scheme, kind) {
        ("redis" | "rediss", "sentinel") => Some(sentinels(scheme, rest)),
        ("redis" | "rediss", "cluster") => Some(cluster(scheme, rest)),
        _ => None,
    }
}

fn sentinels(scheme: &str, rest: &str) -> Result<(Place, ConnectionInfo), String> {
    const FORM: &str = "use redis+sentinel://[user[:password]@]host[:port],…/master[/db], rediss+sentinel://… for TLS";
    let wrong = |what: &str| format!("{what}: {FORM}");
    let parts = Parts::read(scheme, rest, SENTINEL_PORT).map_err(wrong)?;
    let (master, db) = parts.path.split_once('/').unwrap_or((parts.path, ""));
    if master.is_empty() {
        return Err(wrong("this URL names no master"));
    }
    let db = match db {
        "" => "0",
        db => db,
    };
    // The Sentinels tell the address.
    let server = parts
        .info(parts.login, &parts.hosts[0], db)
        .map_err(wrong)?;
    let login = parts.sentinel_login().map_err(wrong)?;
    let sentinels = parts.hosts.iter();
    let sentinels: Result<Vec<_>, _> = sentinels
        .map(|host| parts.info(&login, host, "0"))
        .collect();
    let place = Place::Sentinels {
        sentinels: sentinels.map_err(wrong)?,
        master: decoded(master).ok_or_else(|| wrong("this URL has a wrong % sign"))?,
    };
    Ok((place, server))
}

fn cluster(scheme: &str, rest: &str) -> Result<(Place, ConnectionInfo), String> {
    const FORM: &str =
        "use redis+cluster://[user[:password]@]host[:port],…, rediss+cluster://… for TLS";
    let wrong = |what: &str| format!("{what}: {FORM}");
    let parts = Parts::read(scheme, rest, SERVER_PORT).map_err(wrong)?;
    if !matches!(parts.path, "" | "0") {
        return Err(wrong("a cluster has no database but 0"));
    }
    if !parts.query.is_empty() {
        return Err(wrong("the URL of a cluster has no parameters"));
    }
    let server = parts
        .info(parts.login, &parts.hosts[0], "0")
        .map_err(wrong)?;
    let seeds = parts.hosts;
    Ok((Place::Cluster { seeds }, server))
}

impl<'a> Parts<'a> {
    fn read(scheme: &'a str, rest: &'a str, port: u16) -> Result<Self, &'static str> {
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts_at = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(hosts_at);
        let hosts: Option<Vec<_>> = hosts.split(',').map(|host| address(host, port)).collect();
        Ok(Self {
            scheme,
            login,
            hosts: hosts.ok_or("this URL has a wrong host")?,
            path: path.trim_end_matches('/'),
            query,
        })
    }

    /// How to connect to one of the hosts.
    fn info(
        &self,
        login: &str,
        (host, port): &(String, u16),
        db: &str,
    ) -> Result<ConnectionInfo, &'static str> {
        let (scheme, host) = (self.scheme, super::bracketed(host));
        let url = format!("{scheme}://{login}{host}:{port}/{db}");
        url.into_connection_info()
            .map_err(|_| "this is not a Redis URL")
    }

    /// The login of the Sentinels, which they have for themselves.
    fn sentinel_login(&self) -> Result<String, &'static str> {
        let (mut user, mut password) = ("", "");
        for pair in self.query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sentinel_user", value)) => user = value,
                Some(("sentinel_password", value)) => password = value,
                _ => {
                    return Err(
                        "this URL has an unknown parameter (sentinel_user and sentinel_password are known)",
                    );
                }
            }
        }
        Ok(match (user, password) {
            ("", "") => String::new(),
            (user, "") => format!("{user}@"),
            (user, password) => format!("{user}:{password}@"),
        })
    }
}

/// Splits `host:port`, `[address]:port` and `host`.
fn address(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (
                host,
                port.strip_prefix(':').or(port.is_empty().then_some(""))?,
            )
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => default_port,
        port => port.parse().ok().filter(|port| *port > 0)?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// A text without its % signs.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The same settings at another address.
pub(crate) fn at(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let addr = match info.addr() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host: host.to_owned(),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    info.clone().set_addr(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> (Place, ConnectionInfo) {
        parse(url).unwrap().unwrap()
    }

    #[test]
    fn a_url_of_sentinels_has_hosts_a_master_and_two_logins() {
        let url =
            "rediss+sentinel://al:p%40ss@h1,[::1]:7000,h3:26380/my%20master/2?sentinel_password=s";
        let (place, server) = read(url);
        let Place::Sentinels { sentinels, master } = place else {
            panic!("no Sentinels");
        };
        assert_eq!(master, "my master");
        let shown: Vec<_> = sentinels
            .iter()
            .map(|info| info.addr().to_string())
            .collect();
        assert_eq!(shown, ["h1:26379", "::1:7000", "h3:26380"]);
        assert_eq!(sentinels[0].redis_settings().password(), Some("s"));
        assert_eq!(sentinels[0].redis_settings().username(), None);
        let settings = server.redis_settings();
        assert_eq!(
            (settings.username(), settings.password()),
            (Some("al"), Some("p@ss"))
        );
        assert_eq!(settings.db(), 2);
        let there = at(&server, "10.0.0.7", 6380);
        assert!(matches!(there.addr(), ConnectionAddr::TcpTls { .. }));
        assert_eq!(there.addr().to_string(), "10.0.0.7:6380");
    }

    #[test]
    fn a_url_of_a_cluster_has_seeds() {
        let (place, _) = read("redis+cluster://:pw@h1,h2:7001,[::1]");
        let Place::Cluster { seeds } = place else {
            panic!("no cluster");
        };
        let seed = |host: &str, port| (host.to_owned(), port);
        assert_eq!(
            seeds,
            [seed("h1", 6379), seed("h2", 7001), seed("::1", 6379)]
        );
    }

    #[test]
    fn a_wrong_url_is_explained_without_being_repeated() {
        for url in [
            "redis+sentinel://:s3cret@h1,h2",
            "redis+sentinel://:s3cret@h1//0",
            "redis+sentinel://:s3cret@/m",
            "redis+sentinel://:s3cret@h1,,h2/m",
            "redis+sentinel://:s3cret@h:99999/m",
            "redis+sentinel://:s3cret@h/m/x",
            "redis+sentinel://h/m?password=s3cret",
            "redis+sentinel://h/m%2",
            "redis+cluster://:s3cret@h/3",
            "redis+cluster://h?password=s3cret",
            "redis+cluster://",
        ] {
            let error = parse(url).unwrap().err().unwrap();
            assert!(
                error.contains(": use redis+") && !error.contains("s3cret"),
                "{error}"
            );
        }
        for other in ["redis://h", "redis+unix:///x", "http+cluster://h", ""] {
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
