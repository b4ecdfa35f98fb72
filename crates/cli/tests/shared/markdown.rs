//! The code in a document of Markdown.

use std::fs;
use std::path::{Path, PathBuf};

/// A block of code.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// The word behind the fence; empty if there is none, or if the block is indented.
    pub(crate) language: String,
    /// The line of the document on which the code begins, counted from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<String>,
    /// Comments of HTML right above the block, such as `not run: …`. Readers do not see them.
    pub(crate) comments: Vec<String>,
}

impl Block {
    /// The rest of the comment that begins with this word and a colon.
    pub(crate) fn comment(&self, word: &str) -> Option<&str> {
        let mut comments = self.comments.iter();
        let rest = comments.find_map(|comment| comment.strip_prefix(word)?.strip_prefix(':'));
        rest.map(str::trim)
    }
}

/// All blocks of code, fenced and indented.
pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut comments = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let inner = line.trim();
        let comment = inner
            .strip_prefix("<!--")
            .and_then(|c| c.strip_suffix("-->"));
        if let Some(comment) = comment {
            comments.push(comment.trim().to_owned());
        } else if let Some(language) = inner.strip_prefix("```") {
            let mut block = Block {
                language: language.to_owned(),
                line: number + 2,
                comments: std::mem::take(&mut comments),
                ..Block::default()
            };
            for (_, line) in lines.by_ref().take_while(|(_, line)| line.trim() != "```") {
                block.lines.push(line.to_owned());
            }
            found.push(block);
        } else if line.starts_with("    ") {
            let mut block = Block {
                line: number + 1,
                comments: std::mem::take(&mut comments),
                ..Block::default()
            };
            block.lines.push(inner.to_owned());
            while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("    ")) {
                block.lines.push(line.trim().to_owned());
            }
            found.push(block);
        } else if !inner.is_empty() {
            comments.clear();
        }
    }
    found
}

/// What stands between backticks in prose.
pub(crate) fn inline_code(text: &str) -> Vec<String> {
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        is_code ^= fence;
        !is_code && !fence && !line.starts_with("    ")
    });
    let prose = prose.collect::<Vec<_>>().join("\n");
    // A span may go on in the next line.
    let spans = prose.split('`').skip(1).step_by(2);
    spans.map(|span| span.replace('\n', " ")).collect()
}

/// The root of the source.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents below a folder, from the root of the source, in order. Folders in it count if
/// `deep`.
pub(crate) fn documents(folder: &str, deep: bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut found = Vec::new();
    for entry in entries.map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && deep {
            let name = entry.file_name().unwrap().to_str().unwrap();
            found.extend(documents(&format!("{folder}/{name}"), deep));
        } else if entry.extension().is_some_and(|end| end == "md") {
            found.push(entry);
        }
    }
    found.sort();
    found
}

/// The README and its translations.
pub(crate) fn readmes() -> Vec<PathBuf> {
    let mut found = documents("", false);
    found.retain(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("README.")
    });
    found
}
