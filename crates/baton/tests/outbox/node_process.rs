//! A node as a process of its own, which can be killed with -9: this test program, started once more.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton::{Effects, FleetName, GeneratorWorks, Node, OwnedMessage, Source, Target, handler};

use super::naive::Naive;

pub(crate) const FLEET: &str = "outbox";
const REDIS: &str = "BATON_TEST_REDIS";
const POSTGRES: &str = "BATON_TEST_POSTGRES";
const SOURCE: &str = "BATON_TEST_SOURCE";

/// Which source a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relay {
    Outbox,
    /// Continues behind the highest id.
    Naive,
}

/// A running node. It is killed with -9 when this value is dropped.
pub(crate) struct NodeProcess {
    pub(crate) name: String,
    child: Child,
}

impl NodeProcess {
    pub(crate) fn start(redis: &str, postgres: &str, relay: Relay) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "node_process::a_node",
                "--ignored",
                "--nocapture",
            ])
            .env(REDIS, redis)
            .env(POSTGRES, postgres)
            .env(SOURCE, format!("{relay:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let name = lines
            .map(Result::unwrap)
            .find_map(|line| Some(line.strip_prefix("node ")?.to_owned()))
            .unwrap();
        Self { name, child }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[tokio::test]
#[ignore = "a node of another test, which starts it"]
async fn a_node() {
    let var = |name| std::env::var(name).unwrap();
    let postgres = var(POSTGRES);
    match var(SOURCE).as_str() {
        "Naive" => run(&var(REDIS), Naive::new(&postgres)).await,
        _ => run(&var(REDIS), baton::Outbox::new(&postgres).unwrap()).await,
    }
}

async fn run(redis: &str, source: impl Source) {
    let keep = handler(|message: OwnedMessage| async move {
        let mut effects = Effects::default();
        effects.rpush("texts", &message.text);
        Ok(effects)
    });
    let node = Node::builder(FleetName::new(FLEET).unwrap())
        .lease_ttl(Duration::from_millis(600))
        .generator_works(GeneratorWorks::Alone)
        .build(Target::parse(redis).unwrap(), source, keep)
        .unwrap();
    // The test runner writes `test NAME ...` without a newline before it.
    let _ = writeln!(std::io::stdout(), "\nnode {}", node.name());
    // It ends with the test, even if that is killed.
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = end.send(());
    });
    let stopped = async { ended.await.unwrap_or_default() };
    node.run(stopped).await.unwrap();
}
