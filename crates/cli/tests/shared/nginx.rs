//! A real nginx on a port of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

use super::{tool, wait_until};

/// The documented configuration.
pub(crate) const DOCUMENTED: &str = include_str!("../../../../contrib/nginx/baton.conf");
/// The smallest configuration that works: nginx's defaults for everything else, also for Host.
pub(crate) const LEAST: &str = "server {
    listen 443 ssl;
    ssl_certificate /etc/ssl/certs/baton.example.pem;
    ssl_certificate_key /etc/ssl/private/baton.example.key;
    auth_basic Baton;
    auth_basic_user_file /etc/nginx/baton.htpasswd;
    location / { proxy_pass http://127.0.0.1:7070; }
}";
/// A name in the certificate, and the password.
pub(crate) const NAME: &str = "baton.example";
pub(crate) const PASSWORD: &str = "visitor:open sesame";

/// A running nginx. Dropping it kills the process.
pub(crate) struct Nginx {
    process: Child,
    folder: TempDir,
    pub(crate) addr: SocketAddr,
    /// Its certificate, which signs itself.
    pub(crate) certificate: rcgen::CertifiedKey<rcgen::KeyPair>,
}

impl Nginx {
    /// Reserves a port and makes a certificate; none if there is no nginx.
    pub(crate) fn prepare() -> Option<Prepared> {
        let program = program()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = port.local_addr().unwrap();
        Some(Prepared { program, addr })
    }
}

/// An nginx that is not started yet: its port is needed to start the page.
pub(crate) struct Prepared {
    program: PathBuf,
    pub(crate) addr: SocketAddr,
}

impl Prepared {
    /// Where browsers find it.
    pub(crate) fn url(&self) -> String {
        format!("https://{NAME}:{}", self.addr.port())
    }

    /// Starts it in front of a page, with this configuration except for ports and paths.
    pub(crate) fn start(self, conf: &str, page: SocketAddr) -> Nginx {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let path = |name: &str| file(name).display().to_string();
        let names = [NAME.to_owned(), "localhost".to_owned()];
        let certificate = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(file("cert.pem"), certificate.cert.pem()).unwrap();
        let key = certificate.signing_key.serialize_pem();
        std::fs::write(file("key.pem"), key).unwrap();
        let (user, password) = PASSWORD.split_once(':').unwrap();
        std::fs::write(file("htpasswd"), format!("{user}:{{PLAIN}}{password}\n")).unwrap();
        let mut server = conf.to_owned();
        for (known, here) in [
            ("listen 443 ", format!("listen {} ", self.addr)),
            ("127.0.0.1:7070", page.to_string()),
            ("/etc/ssl/certs/baton.example.pem", path("cert.pem")),
            ("/etc/ssl/private/baton.example.key", path("key.pem")),
            ("/etc/nginx/baton.htpasswd", path("htpasswd")),
        ] {
            assert!(server.contains(known), "{known}");
            server = server.replace(known, &here);
        }
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", path(kind)))
            .concat();
        // One process, which can be killed, under the user of the test.
        let conf = format!(
            "daemon off;\nmaster_process off;\npid {};\nerror_log {} info;\n\
             events {{ worker_connections 512; }}\n\
             http {{\naccess_log off;\n{temporary}\n{server}\n}}\n",
            path("pid"),
            path("error.log"),
        );
        std::fs::write(file("nginx.conf"), conf).unwrap();
        let process = Command::new(&self.program)
            .args(["-p", &path("")])
            .args(["-e", &path("error.log")])
            .args(["-c", &path("nginx.conf")])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut nginx = Nginx {
            process,
            folder,
            addr: self.addr,
            certificate,
        };
        nginx.wait();
        nginx
    }
}

impl Nginx {
    fn wait(&mut self) {
        wait_until("nginx to listen", || {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "{}", self.log());
            TcpStream::connect(self.addr).is_ok()
        });
    }

    /// Its error log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("error.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program, found once. Debian keeps it where only root's PATH leads.
fn program() -> Option<PathBuf> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        tool::find(
            "BATON_NGINX",
            &["nginx", "/usr/sbin/nginx"],
            "-v",
            "no nginx, so the page was not tested behind one; see scripts/setup-nginx",
        )
    });
    tool::require("nginx", FOUND.as_ref());
    FOUND.clone()
}
