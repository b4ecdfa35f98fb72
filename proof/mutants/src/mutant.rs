//! The breaks, read from `mutants.txt`.

use anyhow::{Context, Result, bail, ensure};
use baton_model::flaw::Flaw;

/// The text they are kept in.
const TEXT: &str = include_str!("../mutants.txt");

/// One break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// The same break of the model, if it has it.
    pub flaw: Option<Flaw>,
    /// The test that must notice it, if it is out of reach of the other checks.
    pub test: Option<NamedTest>,
    /// Further arguments of its chaos run.
    pub chaos: Vec<String>,
    /// The file it is in, from the top of the source.
    pub file: String,
    old: String,
    new: String,
}

/// One test of a package.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedTest {
    /// The package.
    pub package: String,
    /// The test program of the package; `lib` has its unit tests.
    pub target: String,
    /// The test's name, with its modules.
    pub name: String,
}

impl NamedTest {
    fn parse(line: &str) -> Option<Self> {
        let [package, target, name]: [&str; 3] =
            line.split(' ').collect::<Vec<_>>().try_into().ok()?;
        Some(Self {
            package: package.to_owned(),
            target: target.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl Mutant {
    /// All of them.
    pub fn all() -> Result<Vec<Self>> {
        let comments_gone: Vec<&str> = TEXT.lines().filter(|l| !l.starts_with('#')).collect();
        comments_gone
            .join("\n")
            .split("\n\n")
            .map(str::trim_start)
            .filter(|entry| !entry.is_empty())
            .map(Self::parse)
            .collect()
    }

    fn parse(entry: &str) -> Result<Self> {
        let mut lines = entry.lines();
        let (name, about) = lines
            .next()
            .and_then(|line| line.split_once(": "))
            .with_context(|| format!("an entry begins with its name: {entry}"))?;
        let (mut flaw, mut test, mut chaos) = (None, None, Vec::new());
        let (mut file, mut old, mut new) = (None, None, None);
        for line in lines {
            if let Some(name) = line.strip_prefix("model ") {
                let found = Flaw::ALL.iter().find(|flaw| format!("{flaw:?}") == name);
                flaw = Some(*found.with_context(|| format!("the model has no flaw {name}"))?);
            } else if let Some(words) = line.strip_prefix("test ") {
                let named = NamedTest::parse(words);
                test = Some(named.with_context(|| format!("{name}: {words:?} is no test"))?);
            } else if let Some(words) = line.strip_prefix("chaos ") {
                chaos = words.split(' ').map(str::to_owned).collect();
            } else if let Some(path) = line.strip_prefix("file ") {
                file = Some(path);
            } else if let Some(line) = line.strip_prefix('-') {
                ensure!(old.replace(line).is_none(), "{name}: more than one line");
            } else if let Some(line) = line.strip_prefix('+') {
                ensure!(new.replace(line).is_none(), "{name}: more than one line");
            } else {
                bail!("{name}: {line:?} is no line of an entry");
            }
        }
        let needed = |part: Option<&str>| {
            let part = part.with_context(|| format!("{name}: needs file, - and +"))?;
            Ok::<_, anyhow::Error>(part.to_owned())
        };
        Ok(Self {
            name: name.to_owned(),
            about: about.to_owned(),
            flaw,
            test,
            chaos,
            file: needed(file)?,
            old: needed(old)?,
            new: needed(new)?,
        })
    }

    /// The file with the break in it.
    pub fn apply(&self, source: &str) -> Result<String> {
        let places = source.lines().filter(|line| *line == self.old).count();
        ensure!(
            places == 1,
            "{}: its line is {places} times in {}",
            self.name,
            self.file
        );
        let lines = source.lines().map(|line| match line == self.old {
            true => &self.new,
            false => line,
        });
        Ok(lines.flat_map(|line| [line, "\n"]).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::tree;

    /// Flaws of the model without a mutant. The model alone can end more than a commit names, and confirm
    /// more than a caller was told; a script or a node never learns of it.
    const WITHOUT_TWIN: [Flaw; 2] = [Flaw::CommitEndsAll, Flaw::ConfirmsTooMuch];

    #[test]
    fn every_mutant_still_fits_the_source() {
        let mutants = Mutant::all().unwrap();
        assert!(mutants.len() >= 12);
        for mutant in &mutants {
            let source = std::fs::read_to_string(tree::top().join(&mutant.file)).unwrap();
            let broken = mutant.apply(&source).unwrap();
            assert_ne!(broken, source, "{}", mutant.name);
        }
    }

    #[test]
    fn no_two_mutants_share_a_name_and_no_flaw_of_the_model_is_left_out() {
        let mutants = Mutant::all().unwrap();
        let mut names: Vec<&str> = mutants.iter().map(|m| m.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), mutants.len());
        for flaw in Flaw::ALL {
            let has_twin = mutants.iter().any(|mutant| mutant.flaw == Some(flaw));
            assert_ne!(has_twin, WITHOUT_TWIN.contains(&flaw), "{flaw:?}");
        }
    }

    #[test]
    fn the_documents_have_each_mutant_and_their_number() {
        let mutants = Mutant::all().unwrap();
        let read = |path| std::fs::read_to_string(tree::top().join(path)).unwrap();
        let table = read("docs/testing.md");
        for Mutant { name, about, .. } in &mutants {
            assert!(table.contains(&format!("| `{name}`: {about} |")), "{name}");
        }
        let count = mutants.len();
        for (path, words) in [
            ("Makefile", format!("in {count} ways")),
            ("README.md", format!("{count} deliberate breaks")),
            ("CHANGELOG.md", format!("{count} mutants")),
        ] {
            assert!(read(path).contains(&words), "{path} does not say {words}");
        }
    }

    #[test]
    fn every_named_test_is_in_its_package() {
        let mutants = Mutant::all().unwrap();
        for mutant in &mutants {
            let Some(NamedTest { package, name, .. }) = &mutant.test else {
                continue;
            };
            // Only the package of the library has another name than its folder.
            let folder = package.strip_prefix("baton-").unwrap();
            let folder = tree::top()
                .join("crates")
                .join(folder.replace("fleet", "baton"));
            let function = format!("fn {}()", name.rsplit("::").next().unwrap());
            assert!(has_line_with(&folder, &function), "{}", mutant.name);
        }
    }

    /// Whether a file in the folder, or below it, has the text.
    fn has_line_with(folder: &std::path::Path, text: &str) -> bool {
        std::fs::read_dir(folder).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => has_line_with(&path, text),
                false => std::fs::read_to_string(&path).is_ok_and(|file| file.contains(text)),
            }
        })
    }

    #[test]
    fn a_line_that_is_gone_or_there_twice_is_an_error() {
        let mutant = Mutant::parse("x: y\nfile f\n-a\n+b").unwrap();
        assert_eq!(mutant.apply("1\na\n2\n").unwrap(), "1\nb\n2\n");
        assert!(mutant.apply("1\n").is_err());
        assert!(mutant.apply("a\na\n").is_err());
    }
}
