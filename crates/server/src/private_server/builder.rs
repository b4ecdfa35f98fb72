//! The settings of a private server.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::PrivateServer;
use crate::port::{free_cluster_port, free_port};
use crate::probe::{Address, Login};
use crate::program::{find_program, require};
use crate::watchdog::Watchdog;
use crate::{Error, password};

/// How many ports a start tries before it gives up.
const PORT_ATTEMPTS: usize = 10;
/// Max bytes of the socket's path: `sun_path` has 104 bytes on macOS and 108 on Linux.
const MAX_SOCKET_PATH: usize = 100;

/// How often the append-only file is forced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fsync {
    /// Before every answer.
    Always,
    /// Once a second.
    EverySec,
    /// When the operating system sees fit.
    No,
}

impl Fsync {
    fn as_str(self) -> &'static str {
        match self {
            Fsync::Always => "always",
            Fsync::EverySec => "everysec",
            Fsync::No => "no",
        }
    }
}

/// PEM files with which a server or a client speaks TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The authority that must have signed the certificates of the others.
    pub ca: PathBuf,
    /// The own certificate.
    pub cert: PathBuf,
    /// The key to the own certificate.
    pub key: PathBuf,
}

/// The settings of a [`PrivateServer`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct PrivateServerBuilder {
    unix_socket: bool,
    /// Whether it is a Sentinel.
    pub(super) sentinel: bool,
    /// Whether it is in cluster mode.
    cluster: bool,
    appendonly: Option<Fsync>,
    pub(super) password: Option<String>,
    /// The only user, if it has a name.
    user: Option<String>,
    pub(crate) tls: Option<CertificateFiles>,
    config: Vec<(String, String)>,
    pub(crate) program: Option<PathBuf>,
}

impl PrivateServerBuilder {
    /// Listens on a free port of 127.0.0.1. This is the default.
    pub fn tcp(mut self) -> Self {
        self.unix_socket = false;
        self
    }

    /// Listens on a socket in the server's folder, and on no port.
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Keeps an append-only file, so that the data survives [`PrivateServer::restart`]. By default
    /// the server keeps nothing.
    pub fn appendonly(mut self, fsync: Fsync) -> Self {
        self.appendonly = Some(fsync);
        self
    }

    /// Wants this password from every client. By default there is none.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Lets in this user alone: there is no default user. By default there is no other.
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password(password)
    }

    /// Speaks TLS on its port, and lets in only clients with a certificate of the same authority.
    /// Beside it, a socket in the server's folder speaks none; this process uses it to see that the
    /// server answers. Not every program can do that: Debian's `redis-server` can.
    pub fn tls(mut self, files: CertificateFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// Wants a password that only the holder of [`PrivateServer::url_with_password`] knows: other
    /// users of the machine reach the port too.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn random_password(mut self) -> Result<Self, Error> {
        self.password = Some(password::random().map_err(Error::io("make a password"))?);
        Ok(self)
    }

    /// Runs as a Sentinel, which watches other servers. [`PrivateServerBuilder::config`] says which.
    pub fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Runs in cluster mode, without slots and on its own.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.config("cluster-enabled", "yes")
    }

    /// Can become a replica of a server with the same settings, and is one soon: it need not wait for
    /// others to follow with it.
    pub(crate) fn replicable(self) -> Self {
        let settings = match self.credentials() {
            None => self,
            Some(Login { user, password }) => self
                .config("masteruser", user)
                .config("masterauth", quote(&password)),
        };
        settings.config("repl-diskless-sync-delay", "0")
    }

    /// Adds a line to the server's configuration file, after those of the other methods. The value
    /// is written as it is, so it may be several words, and words with spaces need quotes.
    pub fn config(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }

    /// Runs this program instead of the one that [`find_program`] finds.
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    ///
    /// If there is no program, if it ends at once (the error holds the end of its log), or if it
    /// does not answer within 10 seconds.
    pub fn start(self) -> Result<PrivateServer, Error> {
        let program = match &self.program {
            Some(program) => require("PrivateServerBuilder::program", program)?,
            None => find_program()?,
        };
        let folder = create_folder()?;
        let watchdog = Watchdog::start(folder.path()).map_err(Error::io("start a watchdog"))?;
        let address = Address::Unix(folder.path().join("server.sock"));
        let mut server = PrivateServer {
            program,
            settings: self,
            address,
            process: None,
            watchdog,
            folder,
        };
        if server.settings.unix_socket {
            server.launch()?;
            return Ok(server);
        }
        let mut attempt = 1;
        loop {
            server.address = Address::Tcp(match server.settings.cluster {
                false => free_port()?,
                true => free_cluster_port()?,
            });
            match server.launch() {
                // Another program took the port after we found it free.
                Err(Error::PortTaken { .. }) if attempt < PORT_ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
                Ok(()) => return Ok(server),
            }
        }
    }

    /// How this process logs in; `None` if the server wants no password.
    pub(crate) fn credentials(&self) -> Option<Login> {
        let login = Login::of_default_user(self.password.clone()?);
        Some(match &self.user {
            None => login,
            Some(user) => Login {
                user: user.clone(),
                ..login
            },
        })
    }

    /// The configuration file's text.
    pub(super) fn render(&self, address: &Address, folder: &Path) -> String {
        let mut lines = vec![
            ("dir", quote(&folder.to_string_lossy())),
            ("daemonize", "no".to_owned()),
            // An RDB file would be written at a moment that no test has chosen.
            ("save", quote("")),
        ];
        match address {
            Address::Tcp(port) => {
                lines.push(("bind", "127.0.0.1".to_owned()));
                match self.tls {
                    None => lines.push(("port", port.to_string())),
                    Some(_) => lines.push(("tls-port", port.to_string())),
                }
            }
            Address::Unix(_) => {}
        }
        if let Address::Unix(path) = super::plain_address(self, address, folder) {
            lines.push(("port", "0".to_owned()));
            lines.push(("unixsocket", quote(&path.to_string_lossy())));
            lines.push(("unixsocketperm", "700".to_owned()));
        }
        if let Some(files) = &self.tls {
            for (name, file) in [
                ("tls-ca-cert-file", &files.ca),
                ("tls-cert-file", &files.cert),
                ("tls-key-file", &files.key),
            ] {
                lines.push((name, quote(&file.to_string_lossy())));
            }
            // Replicas speak TLS with their master, and Sentinels with all whom they watch.
            lines.push(("tls-replication", "yes".to_owned()));
        }
        if let Some(fsync) = self.appendonly {
            lines.push(("appendonly", "yes".to_owned()));
            lines.push(("appendfsync", fsync.as_str().to_owned()));
        }
        match (&self.user, &self.password) {
            (Some(user), Some(password)) => {
                lines.push(("user", "default off".to_owned()));
                let rights = format!("{user} on {} ~* &* +@all", quote(&format!(">{password}")));
                lines.push(("user", rights));
            }
            (_, Some(password)) => lines.push(("requirepass", quote(password))),
            (_, None) => {}
        }
        for (name, value) in &self.config {
            let value = if value.is_empty() {
                quote("")
            } else {
                value.clone()
            };
            lines.push((name, value));
        }
        let mut text = String::new();
        for (name, value) in lines {
            let _ = writeln!(text, "{name} {value}");
        }
        text
    }
}

fn create_folder() -> Result<TempDir, Error> {
    let create = |parent: &Path| {
        tempfile::Builder::new()
            .prefix("baton-server-")
            .tempdir_in(parent)
            .map_err(Error::io(format!(
                "create a folder in {}",
                parent.display()
            )))
    };
    let folder = create(&std::env::temp_dir())?;
    if folder.path().join("server.sock").as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok(folder);
    }
    create(Path::new("/tmp"))
}

/// A value as one quoted word of the configuration file.
pub(crate) fn quote(value: &str) -> String {
    let mut quoted = String::from('"');
    for byte in value.bytes() {
        match byte {
            b'"' | b'\\' => {
                quoted.push('\\');
                quoted.push(char::from(byte));
            }
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => {
                let _ = write!(quoted, "\\x{byte:02x}");
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_file_holds_every_setting_in_its_place() {
        let settings = PrivateServer::builder()
            .appendonly(Fsync::EverySec)
            .password("a \"b\" \\ é")
            .config("client-output-buffer-limit", "normal 0 0 0")
            .config("notify-keyspace-events", "");
        assert_eq!(
            settings.render(&Address::Tcp(7000), Path::new("/tmp/with space")),
            "dir \"/tmp/with space\"\n\
             daemonize no\n\
             save \"\"\n\
             bind 127.0.0.1\n\
             port 7000\n\
             appendonly yes\n\
             appendfsync everysec\n\
             requirepass \"a \\\"b\\\" \\\\ \\xc3\\xa9\"\n\
             client-output-buffer-limit normal 0 0 0\n\
             notify-keyspace-events \"\"\n"
        );
    }
}
