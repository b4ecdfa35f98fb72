//! The README in other languages has the same commands.

use std::fs;
use std::path::Path;

use crate::shared::markdown::{self, blocks};

/// The code of a README: what must be the same in all languages. Comments may be translated, and so
/// may blocks without a language, which are pictures.
fn code(readme: &Path) -> Vec<String> {
    let text = fs::read_to_string(readme).unwrap();
    let fenced = |line: usize| {
        text.lines()
            .nth(line - 2)
            .unwrap_or_default()
            .starts_with("```")
    };
    let blocks = blocks(&text).into_iter();
    let blocks = blocks.filter(|block| !block.language.is_empty() || !fenced(block.line));
    let lines = blocks.flat_map(|block| {
        let mark = if block.language == "rust" {
            "// "
        } else {
            "# "
        };
        let code = move |line: String| {
            line.split(mark)
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        block.lines.into_iter().map(code)
    });
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn every_translation_of_the_readme_has_its_commands() {
    let readme = markdown::root().join("README.md");
    let text = fs::read_to_string(&readme).unwrap();
    let original = code(&readme);
    assert!(original.len() > 50, "{original:?}");
    for translation in markdown::readmes().iter().filter(|path| **path != readme) {
        let name = translation.file_name().unwrap().to_str().unwrap();
        assert!(
            text.contains(&format!("]({name})")),
            "README.md has no link to {name}"
        );
        for (ours, theirs) in original.iter().zip(code(translation)) {
            assert_eq!(*ours, theirs, "README.md and {name}");
        }
        assert_eq!(
            original.len(),
            code(translation).len(),
            "lines of code in {name}"
        );
    }
}
