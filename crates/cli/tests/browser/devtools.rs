//! A headless browser, spoken to in the DevTools protocol over a pipe: JSON, each message with
//! a NUL byte behind it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::shared::{TIMEOUT, tool};

/// The browser reads what it is asked from file 3 and answers on file 4. The shell makes them of
/// its stdin and stdout: to hand a child further files takes unsafe code.
const PIPE: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >&2"#;

/// Nothing is fetched by itself, and a page in the background runs as fast as any other.
const FLAGS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-component-update",
    "--no-default-browser-check",
    "--no-first-run",
];

/// The names that `scripts/setup-browser` looks for, in the same order.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// The file with what the browser complains of.
const COMPLAINTS: &str = "complaints";

/// The one browser that tests share as long as any of them has it in hand.
static SHARED: Mutex<Weak<Browser>> = Mutex::new(Weak::new());

/// What the browser has said.
#[derive(Default)]
struct Said {
    /// By the number of the call.
    answers: HashMap<u64, Value>,
    /// By the page that they are about.
    events: HashMap<String, Vec<Value>>,
    /// Whether it will say no more.
    ended: bool,
}

#[derive(Default)]
struct Heard {
    said: Mutex<Said>,
    more: Condvar,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Mouth {
    pipe: ChildStdin,
    calls: u64,
}

/// A running browser. It is gone, with its folder, when this is dropped.
pub(crate) struct Browser {
    mouth: Mutex<Mouth>,
    heard: Arc<Heard>,
    reader: Option<JoinHandle<()>>,
    process: Child,
    // Dropped last: the folder goes when the browser is gone.
    folder: TempDir,
}

impl Browser {
    /// The browser of this test run; none if this machine has none, which is said once, where
    /// everybody sees it.
    pub(crate) fn shared() -> Option<Arc<Self>> {
        let program = program()?;
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(browser) = shared.upgrade() {
            return Some(browser);
        }
        let browser = Arc::new(Self::start(&program));
        *shared = Arc::downgrade(&browser);
        Some(browser)
    }

    fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command
            .args(["-c", PIPE])
            .arg(program)
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", folder.path().display()));
        if geteuid().is_root() {
            command.arg("--no-sandbox"); // it refuses to run as root with it
        }
        let mut process = command
            .env("TMPDIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(folder.path().join(COMPLAINTS)).unwrap())
            .process_group(0)
            .spawn()
            .unwrap();
        let pipe = process.stdin.take().unwrap();
        let stdout = process.stdout.take().unwrap();
        let heard = Arc::<Heard>::default();
        let reader = thread::spawn({
            let heard = Arc::clone(&heard);
            move || listen(stdout, &heard)
        });
        Self {
            mouth: Mutex::new(Mouth { pipe, calls: 0 }),
            heard,
            reader: Some(reader),
            process,
            folder,
        }
    }

    /// Calls a method, of a page if a session is named, and waits for its result.
    #[track_caller]
    pub(crate) fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        match self.try_call(session, method, params) {
            Ok(result) => result,
            Err(why) => panic!("{method}: {why}"),
        }
    }

    /// The same for what may be refused: a page that goes away answers no questions.
    #[track_caller]
    pub(crate) fn try_call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, Value> {
        let id = self.send(session, method, params);
        let deadline = Instant::now() + TIMEOUT;
        let mut said = self.heard.lock();
        loop {
            if let Some(mut answer) = said.answers.remove(&id) {
                return match answer["error"].take() {
                    Value::Null => Ok(answer["result"].take()),
                    why => Err(why),
                };
            }
            assert!(
                !said.ended,
                "{method}: the browser has ended: {}",
                self.complaints()
            );
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                panic!("{method}: no answer in {TIMEOUT:?}");
            };
            said = self
                .heard
                .more
                .wait_timeout(said, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Calls a method and does not wait.
    pub(crate) fn send(&self, session: Option<&str>, method: &str, params: Value) -> u64 {
        let mut mouth = self.mouth.lock().unwrap_or_else(PoisonError::into_inner);
        mouth.calls += 1;
        let id = mouth.calls;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        // A browser that is gone shows when its answer is missing.
        let _ = mouth.pipe.write_all(&bytes);
        id
    }

    fn complaints(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(COMPLAINTS)).unwrap_or_default()
    }

    /// All that a page told by itself so far.
    pub(crate) fn events(&self, session: &str) -> Vec<Value> {
        let said = self.heard.lock();
        said.events.get(session).cloned().unwrap_or_default()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Asked to, it ends its many processes in good order; they then write no more to the
        // folder. If it does not listen, it is killed.
        self.send(None, "Browser.close", json!({}));
        let deadline = Instant::now() + TIMEOUT;
        let mut said = self.heard.lock();
        while !said.ended {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                break;
            };
            let waited = self.heard.more.wait_timeout(said, left);
            said = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(said);
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn listen(stdout: ChildStdout, heard: &Heard) {
    for bytes in BufReader::new(stdout).split(0) {
        let Ok(Ok(mut message)) = bytes.map(|bytes| serde_json::from_slice::<Value>(&bytes)) else {
            break;
        };
        let mut said = heard.lock();
        if let Some(id) = message["id"].as_u64() {
            said.answers.insert(id, message);
        } else if let Value::String(session) = message["sessionId"].take() {
            said.events.entry(session).or_default().push(message);
        }
        drop(said);
        heard.more.notify_all();
    }
    heard.lock().ended = true;
    heard.more.notify_all();
}

/// The browser's program, found once.
fn program() -> Option<PathBuf> {
    static FOUND: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
        tool::find(
            "BATON_BROWSER",
            NAMES,
            "--version",
            "no browser, so the page was not tested in one; see scripts/setup-browser",
        )
    });
    tool::require("browser", FOUND.as_ref());
    FOUND.clone()
}
