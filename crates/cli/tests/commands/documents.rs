//! The documents: their links lead somewhere, and the files they name are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shared::markdown::{self, root};

/// A word in backticks is a path if it begins with one of these.
const PARTS: [&str; 6] = [
    "bench/", "contrib/", "crates/", "docs/", "proof/", "scripts/",
];

fn documents() -> Vec<PathBuf> {
    let folders = [("", false), ("docs", true), ("bench/peers", false)];
    let documents = folders.map(|(folder, deep)| markdown::documents(folder, deep));
    let documents = documents.concat();
    assert!(documents.len() > 30, "{documents:?}");
    documents
}

/// What stands between each `open` and the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: char) -> impl Iterator<Item = &'a str> {
    let parts = text.split(open).skip(1);
    parts.filter_map(move |part| part.split_once(close).map(|(inside, _)| inside))
}

/// The names by which a link can lead to a heading of the document.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut links = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        for link in between(&text, "](", ')').filter(|link| !link.contains("://")) {
            links += 1;
            // A link to a test has the test's name as its title.
            let (link, test) = link.split_once(' ').unwrap_or((link, ""));
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            assert!(target.exists(), "{}: {link}", document.display());
            let test = test.trim_matches('"');
            if !test.is_empty() {
                let source = fs::read_to_string(&target).unwrap();
                let is_there = source.contains(&format!("fn {test}("));
                assert!(is_there, "{}: {link} has no {test}", document.display());
            }
            if !anchor.is_empty() {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(headings.contains(anchor), "{}: {link}", document.display());
            }
        }
    }
    assert!(links > 40, "{links}");
}

#[test]
fn every_document_is_in_the_table_of_contents_of_the_site() {
    let docs = root().join("docs");
    let contents = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<PathBuf> = between(&contents, "](", ')')
        .map(|link| docs.join(link).canonicalize().unwrap())
        .collect();
    for document in documents() {
        let is_it = document.ends_with("SUMMARY.md");
        let document = document.canonicalize().unwrap();
        assert!(
            is_it || listed.contains(&document),
            "{} is not in docs/SUMMARY.md",
            document.display()
        );
    }
}

#[test]
fn every_path_that_a_document_names_is_there() {
    let mut paths = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap();
        // Every second piece is code; a block of code begins with a line break or a language.
        let words = text.split('`').skip(1).step_by(2);
        for path in words.filter(|word| PARTS.iter().any(|part| word.starts_with(part))) {
            // `NAME` stands for any name.
            if path.contains(['*', '{', ' ']) || path.contains("NAME") {
                continue;
            }
            paths += 1;
            assert!(root().join(path).exists(), "{}: {path}", document.display());
        }
    }
    assert!(paths > 20, "{paths}");
}

/// The folders with source below a folder, each from the root.
fn source_folders(folder: &str, found: &mut BTreeSet<String>) {
    const NO_MODULES: [&str; 6] = ["bin", "examples", "fuzz", "peers", "tests", "vendor"];
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let (name, kind) = {
            let entry = entry.unwrap();
            (
                entry.file_name().into_string().unwrap(),
                entry.file_type().unwrap(),
            )
        };
        let extension = Path::new(&name).extension();
        if kind.is_dir() && !NO_MODULES.contains(&name.as_str()) {
            source_folders(&format!("{folder}/{name}"), found);
        } else if extension.is_some_and(|known| ["rs", "lua", "js"].iter().any(|e| known == *e)) {
            found.insert(folder.to_owned());
        }
    }
}

#[test]
fn the_map_of_the_architecture_has_every_folder() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, map) = text.split_once("## Where things are").unwrap();
    let (map, _) = map.split_once("\n## ").unwrap();
    let rows: BTreeSet<&str> = between(map, "\n| `", '`').collect();
    let mut folders = BTreeSet::new();
    for part in ["crates", "bench", "proof"] {
        source_folders(part, &mut folders);
    }
    assert!(folders.len() > 30, "{folders:?}");
    for folder in &folders {
        // A crate has a row, and so has each folder right below its `src`; the parts of a module
        // belong to the row of the module.
        let parts: Vec<&str> = folder.split('/').collect();
        for depth in [2, 4].into_iter().filter(|depth| *depth <= parts.len()) {
            let above = parts[..depth].join("/");
            assert!(
                rows.contains(above.as_str()),
                "{above} has no row in the map"
            );
        }
    }
}

#[test]
fn the_program_in_the_readme_is_an_example_that_compiles() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let readme = read("README.md");
    let (_, program) = readme.split_once("```rust\n").unwrap();
    let (program, _) = program.split_once("```\n").unwrap();
    let example = read("crates/baton/examples/readme.rs");
    let (_, example) = example.split_once("\n\n").unwrap();
    assert_eq!(program, example);
}
