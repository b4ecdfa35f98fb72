//! The page of the program, and failed messages for it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use baton_processes::command;
use baton_server::PrivateServer;
use tempfile::TempDir;

/// What visitors must know.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A program that serves HTTP. It is killed when this is dropped.
pub(crate) struct Page {
    process: Child,
    _folder: TempDir,
    pub(crate) addr: SocketAddr,
}

impl Page {
    /// A page with a token, whose visitors may act.
    pub(crate) fn start(server: &PrivateServer, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut process = command(Path::new(env!("CARGO_BIN_EXE_baton")))
            .args(["web", "--redis", &server.url(), "--http", "127.0.0.1:0"])
            .arg("--token-file")
            .arg(token)
            .arg("--allow-actions")
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let addr = line.split(['/', ' ']).find_map(|word| word.parse().ok());
        Self {
            process,
            _folder: folder,
            addr: addr.unwrap_or_else(|| panic!("no address: {line:?}")),
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
