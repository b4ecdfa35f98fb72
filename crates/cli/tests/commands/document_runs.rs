//! The commands of the documents, run as they stand there.
//!
//! A block ```` ```sh ```` is run by bash, and a block ```` ```text ```` right behind it is what it
//! prints: `…` stands for anything, and on a line of its own for any lines. All blocks of a document
//! share a shell, a home folder and a private server. Comments above a block direct the test:
//!
//! - `<!-- not run: REASON -->`: it is left out;
//! - `<!-- wait for: COMMAND -->`: it runs when this command succeeds, where a reader would wait;
//! - `<!-- files: NAME… -->`: programs of docs/handlers.md that the reader has saved;
//! - `<!-- needs: PROGRAM… -->`: the document is left out on a machine without it.

use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use baton_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::document_output::output_matches;
use crate::shared::markdown::{self, Block, blocks};
use crate::shared::{TIMEOUT, server, tool};

const HANDLERS: &str = include_str!("../../../../docs/handlers.md");
const REDIS_CLI: &str = include_str!("../shared/redis_cli.py");

/// Ports that documents name. Each run has others.
const PORTS: [&str; 2] = ["9464", "7070"];

/// The documents whose commands are run.
fn documents() -> Vec<PathBuf> {
    let docs = markdown::root().join("docs");
    let mut all = markdown::readmes();
    all.extend(["tour.md", "tutorial.md"].map(|name| docs.join(name)));
    all.extend(markdown::documents("docs/recipes", true));
    all
}

/// Where the commands of a document run.
struct Sandbox {
    server: PrivateServer,
    home: PathBuf,
    programs: PathBuf,
    outputs: PathBuf,
    _folder: TempDir,
}

impl Sandbox {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [home, programs, outputs] = ["home", "bin", "out"].map(|name| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        });
        symlink(env!("CARGO_BIN_EXE_baton"), programs.join("baton")).unwrap();
        write_program(&programs.join("redis-cli"), REDIS_CLI);
        Self {
            server: server(),
            home,
            programs,
            outputs,
            _folder: folder,
        }
    }

    /// What a block printed, or where the script is.
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.outputs.join(name)).unwrap_or_default()
    }

    /// The script of a document. The block on line N prints to `N.out` and `N.err`.
    fn script(&self, blocks: &[&Block]) -> String {
        let mut script = "set -e\n".to_owned();
        let folder = self.outputs.display();
        for block in blocks {
            let number = block.line;
            if let Some(condition) = block.comment("wait for") {
                let _ = writeln!(script, "echo {number} > {folder}/at");
                let _ = writeln!(script, "until ({condition}) >{folder}/{number}.out 2>&1");
                let _ = writeln!(script, "do sleep 0.2; done");
            }
            let _ = writeln!(script, "echo {number} > {folder}/at");
            let _ = writeln!(
                script,
                "exec >{folder}/{number}.out 2>{folder}/{number}.err"
            );
            let _ = writeln!(script, "{}", block.lines.join("\n"));
        }
        let port = self.server.port().unwrap();
        let mut script = script.replace("@localhost", &format!("@127.0.0.1:{port}"));
        for named in PORTS {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let free = listener.local_addr().unwrap().to_string();
            script = script.replace(&format!("127.0.0.1:{named}"), &free);
        }
        script
    }

    /// Lets bash run a script. Kills it and what it left running; returns whether it succeeded in time.
    fn run(&self, script: &str) -> bool {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .current_dir(&self.home)
            .env_clear()
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .env("PATH", format!("{}:{path}", self.programs.display()))
            .env("REDIS_URL", self.server.url())
            .env("TEST_PORT", self.server.port().unwrap().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A group of its own, so that all nodes can be killed at once.
            .process_group(0);
        let mut bash = command.spawn().unwrap();
        let group = Pid::from_child(&bash);
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            match bash.try_wait().unwrap() {
                None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                status => break status,
            }
        };
        // Nodes that the document leaves running. There may be none.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = bash.wait();
        status.is_some_and(|status| status.success())
    }
}

fn write_program(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

/// Saves a program of docs/handlers.md: its second line has its name.
fn save_program(name: &str, folder: &Path) {
    let is_it = |block: &Block| {
        let line = block.lines.get(1);
        line.is_some_and(|line| line.contains(&format!("{name}:")))
    };
    let program = blocks(HANDLERS).into_iter().find(is_it);
    let program = program.unwrap_or_else(|| panic!("docs/handlers.md has no program {name}"));
    write_program(&folder.join(name), &(program.lines.join("\n") + "\n"));
}

/// Whether this machine lacks a program that a document needs. If so, a line says it.
fn is_missing(name: &str, document: &Path) -> bool {
    let skipped = format!("the commands of {}: no {name}", document.display());
    let variable = format!("BATON_{}", name.to_uppercase());
    let found = tool::find(&variable, &[name], "--version", &skipped);
    tool::require(name, found.as_ref());
    found.is_none()
}

fn is_run(block: &Block) -> bool {
    block.language == "sh" && block.comment("not run").is_none()
}

/// Runs all blocks of a document. Returns how many it ran, or what went wrong.
fn run(document: &Path) -> Result<usize, String> {
    let all = blocks(&fs::read_to_string(document).unwrap());
    let run: Vec<&Block> = all.iter().filter(|block| is_run(block)).collect();
    let needs = run.iter().filter_map(|block| block.comment("needs"));
    let mut needs = needs.flat_map(str::split_whitespace).chain(["python3"]);
    if run.is_empty() || needs.any(|name| is_missing(name, document)) {
        return Ok(0);
    }
    let sandbox = Sandbox::new();
    for block in &run {
        let files = block.comment("files").unwrap_or_default();
        for name in files.split_whitespace() {
            save_program(name, &sandbox.home);
        }
    }
    if !sandbox.run(&sandbox.script(&run)) {
        let line = sandbox.read("at").trim().to_owned();
        let [out, err] = ["out", "err"].map(|end| sandbox.read(&format!("{line}.{end}")));
        let place = format!("{}, line {line}", document.display());
        return Err(format!("{place} failed, or waited too long\n{out}{err}"));
    }
    for (block, expected) in all.iter().zip(all.iter().skip(1)) {
        if !is_run(block) || expected.language != "text" {
            continue;
        }
        let output = sandbox.read(&format!("{}.out", block.line));
        let lines: Vec<&str> = output.lines().collect();
        if !output_matches(&expected.lines, &lines) {
            let place = format!("{}, line {}", document.display(), expected.line);
            let expected = expected.lines.join("\n");
            return Err(format!("{place}: expected\n{expected}\nand got\n{output}"));
        }
    }
    Ok(run.len())
}

#[test]
fn every_command_of_the_readme_tour_tutorial_and_recipes_runs() {
    let documents = documents().into_iter();
    let threads: Vec<_> = documents
        .map(|path| thread::spawn(move || run(&path)))
        .collect();
    let ended = threads.into_iter().map(|thread| thread.join().unwrap());
    let (ran, faults): (Vec<_>, Vec<_>) = ended.partition(Result::is_ok);
    let faults: Vec<String> = faults.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    let ran: usize = ran.into_iter().flatten().sum();
    assert!(ran > 25, "only {ran} blocks ran");
}

#[test]
fn no_command_of_the_tour_tutorial_and_recipes_hides_in_another_kind_of_block() {
    let readmes = markdown::readmes();
    for document in documents().iter().filter(|path| !readmes.contains(path)) {
        for block in blocks(&fs::read_to_string(document).unwrap()) {
            let place = format!("{}, line {}", document.display(), block.line);
            let shown = ["sh", "text", "ini"].contains(&block.language.as_str());
            let command = block.lines.iter().find(|line| line.contains("baton "));
            assert!(
                shown || command.is_none(),
                "{place}: a command in no `sh` block: {command:?}"
            );
            let reason = block.comment("not run");
            assert!(
                reason.is_none_or(|reason| reason.len() > 10),
                "{place}: why is it not run?"
            );
        }
    }
}
