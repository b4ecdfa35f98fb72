//! The page of the program: a running `baton web`, and a client of what it serves.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use baton_processes::command;
use baton_server::PrivateServer;
use tempfile::TempDir;

use super::TIMEOUT;

/// What visitors must know.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A running `baton web`. Dropping it kills the process.
pub(crate) struct Page {
    process: Child,
    /// Where it listens.
    pub(crate) addr: SocketAddr,
    /// The address of its page, with a slash at the end.
    pub(crate) url: String,
    token: Option<TempDir>,
}

impl Page {
    /// A page on any free port, without a token.
    #[track_caller]
    pub(crate) fn start(server: &PrivateServer, args: &[&str]) -> Self {
        let mut process = command(Path::new(env!("CARGO_BIN_EXE_baton")))
            .args(["web", "--redis", &server.url(), "--http", "127.0.0.1:0"])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let addr = line.split(['/', ' ']).find_map(|word| word.parse().ok());
        let addr = addr.unwrap_or_else(|| panic!("no address: {line:?}"));
        Self {
            process,
            addr,
            url: format!("http://{addr}/"),
            token: None,
        }
    }

    /// A page whose visitors must know the [`TOKEN`] and may act.
    #[track_caller]
    pub(crate) fn with_token(server: &PrivateServer, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
        let file = file.display().to_string();
        let mut all = vec!["--allow-actions", "--token-file", &file];
        all.extend(args);
        let mut page = Self::start(server, &all);
        page.token = Some(folder);
        page
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The whole answer to a GET, head included.
#[track_caller]
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Whether the answer to a GET has this status and these words.
pub(crate) fn answers(address: &str, path: &str, status: &str, words: &str) -> bool {
    let answer = get(address, path);
    answer.split(' ').nth(1) == Some(status) && answer.contains(words)
}

/// The address in the line that a program prints when it listens.
#[track_caller]
pub(crate) fn address_in(line: &str) -> &str {
    let (_, rest) = line.split_once("http://").unwrap();
    rest.split('/').next().unwrap()
}
