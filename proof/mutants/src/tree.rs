//! A copy of the source that can be broken, with a build folder of its own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::mutant::Mutant;

/// What of the source is needed to build and to test.
const PARTS: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "bench/measure",
    "bench/programs",
    "contrib",
    "crates",
    "docs",
    "proof",
];
/// What the compiler said is kept in this file of the build folder.
const LOG: &str = "build.log";

/// The top of the source.
pub fn top() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The copy.
pub struct Tree {
    source: PathBuf,
    build: PathBuf,
}

impl Tree {
    /// A copy in a folder, which is kept for the next time: it saves most of the building.
    pub fn new(folder: &Path) -> Result<Self> {
        let (source, build) = (folder.join("source"), folder.join("build"));
        fs::create_dir_all(&source)?;
        for part in PARTS {
            copy(&top().join(part), &source.join(part))?;
        }
        fs::create_dir_all(&build)?;
        Ok(Self { source, build })
    }

    /// Breaks the copy.
    pub fn break_with(&self, mutant: &Mutant) -> Result<()> {
        let source = fs::read_to_string(top().join(&mutant.file))?;
        fs::write(self.source.join(&mutant.file), mutant.apply(&source)?)?;
        Ok(())
    }

    /// Mends what [`Tree::break_with`] broke.
    pub fn mend(&self, mutant: &Mutant) -> Result<()> {
        copy(&top().join(&mutant.file), &self.source.join(&mutant.file))
    }

    /// Builds the program, with crash points.
    pub fn baton(&self) -> Result<PathBuf> {
        self.compile(&["build", "-p", "baton-cli", "--features", "chaos"], false)
    }

    /// Builds a test program of a package; `lib` has its unit tests.
    pub fn tests(&self, package: &str, target: &str) -> Result<PathBuf> {
        let test = ["test", "--no-run", "-p", package];
        match target {
            "lib" => self.compile(&[&test[..], &["--lib"]].concat(), true),
            _ => self.compile(&[&test[..], &["--test", target]].concat(), true),
        }
    }

    /// Builds one program. A test program comes with the programs that it starts.
    fn compile(&self, arguments: &[&str], is_test: bool) -> Result<PathBuf> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(arguments)
            .arg("--message-format=json-render-diagnostics")
            .current_dir(&self.source)
            .env("CARGO_TARGET_DIR", &self.build)
            .stdin(Stdio::null())
            .output()
            .context("cannot run cargo")?;
        fs::File::create(self.build.join(LOG))?.write_all(&output.stderr)?;
        if !output.status.success() {
            bail!("see {}", self.build.join(LOG).display());
        }
        let lines = String::from_utf8_lossy(&output.stdout);
        let path = lines.lines().find_map(|line| {
            let built: Value = serde_json::from_str(line).ok()?;
            let path = built["executable"].as_str()?;
            (built["profile"]["test"] == is_test).then(|| PathBuf::from(path))
        });
        path.with_context(|| format!("cargo {} built no program", arguments.join(" ")))
    }
}

/// Copies what changed, and leaves the times of all else: cargo goes by them.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if from.is_file() {
        let content = fs::read(from)?;
        if fs::read(to).ok().as_ref() != Some(&content) {
            fs::write(to, content).with_context(|| format!("cannot write {}", to.display()))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    // What is gone from the source must not be built.
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !from.join(entry.file_name()).exists() {
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}
