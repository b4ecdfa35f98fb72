//! The documents: their links lead somewhere, and the files they name are there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders with documents, from the root of the source.
const FOLDERS: [&str; 3] = ["", "docs", "bench/peers"];
/// A word in backticks is a path if it begins with one of these.
const PARTS: [&str; 6] = [
    "bench/", "contrib/", "crates/", "docs/", "proof/", "scripts/",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> Vec<PathBuf> {
    let entries = FOLDERS.map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    let documents: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    assert!(documents.len() > 8, "{documents:?}");
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
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            assert!(target.exists(), "{}: {link}", document.display());
            if !anchor.is_empty() {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(headings.contains(anchor), "{}: {link}", document.display());
            }
        }
    }
    assert!(links > 40, "{links}");
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
