//! A copy of the source that can be broken, with a build folder of its own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::mutant::Mutant;

/// What of the source is needed to build.
const PARTS: [&str; 6] = [
    "Cargo.toml",
    "Cargo.lock",
    "bench/measure",
    "bench/programs",
    "crates",
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

/// What was built of a mutant.
pub struct Built {
    /// The program, with crash points.
    pub baton: PathBuf,
    /// The conformance test.
    pub conformance: PathBuf,
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

    /// The source as it is, with one break, or without.
    pub fn build(&self, mutant: Option<&Mutant>) -> Result<Built> {
        let Some(mutant) = mutant else {
            return self.compile();
        };
        let (original, file) = (top().join(&mutant.file), self.source.join(&mutant.file));
        let source = fs::read_to_string(&original)?;
        fs::write(&file, mutant.apply(&source)?)?;
        let built = self.compile();
        fs::write(&file, source)?;
        built.with_context(|| format!("cannot build {}", mutant.name))
    }

    fn compile(&self) -> Result<Built> {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--message-format=json-render-diagnostics"])
            .args(["-p", "baton-cli", "-p", "baton-model"])
            .args(["--features", "baton-cli/chaos"])
            .args(["--bin", "baton", "--test", "conformance"])
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
        let built: Vec<Value> = lines
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let program = |name: &str| {
            let of = |line: &&Value| {
                line["target"]["name"] == name && line["executable"].as_str().is_some()
            };
            let line = built.iter().find(of);
            let path = line.and_then(|line| line["executable"].as_str());
            path.map(PathBuf::from)
                .with_context(|| format!("cargo built no {name}"))
        };
        Ok(Built {
            baton: program("baton")?,
            conformance: program("conformance")?,
        })
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
