//! The file that is imported, and what the effects of its messages wrote.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Result;

use crate::observer::Observer;

/// The list to which each message appends its line, as an effect. A list shows a line that came twice.
pub(super) const IMPORTED: &str = "imported";
/// Lines that one command reads.
const PAGE: isize = 10_000;

/// Order `number` as a line of the file: of any length, with quotes and letters of more than one byte.
fn order(number: u64) -> String {
    let cents = number * 7919 % 100_000;
    let name = "Ω,\"".repeat((number % 5) as usize);
    format!("{number},\"order {number}\",{cents},{name}")
}

/// Writes a file with so many lines.
pub(super) fn write(path: &Path, lines: u64) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for number in 1..=lines {
        writeln!(file, "{}", order(number))?;
    }
    Ok(file.into_inner()?.sync_all()?)
}

/// Writes what the effects have written into a file, in the order of the numbers. Returns the number of
/// lines.
pub(super) fn export(observer: &Observer, path: &Path) -> Result<usize> {
    let mut redis = observer.redis()?;
    let mut lines: Vec<Vec<u8>> = Vec::new();
    loop {
        let from = lines.len() as isize;
        let mut page = redis::cmd("LRANGE");
        page.arg(IMPORTED).arg(from).arg(from + PAGE - 1);
        let page: Vec<Vec<u8>> = page.query(&mut redis)?;
        if page.is_empty() {
            break;
        }
        lines.extend(page);
    }
    lines.sort_unstable_by_key(|line| number(line));
    let mut file = BufWriter::new(File::create(path)?);
    for line in &lines {
        file.write_all(line)?;
        file.write_all(b"\n")?;
    }
    file.into_inner()?.sync_all()?;
    Ok(lines.len())
}

/// The number of a line. A line that the file does not have may have none.
fn number(line: &[u8]) -> u64 {
    let digits = line.split(|byte| *byte == b',').next();
    let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// How two files differ; `None` if they have the same bytes.
pub(super) fn difference(original: &Path, imported: &Path) -> Result<Option<String>> {
    let (original, imported) = (std::fs::read(original)?, std::fs::read(imported)?);
    if original == imported {
        return Ok(None);
    }
    let mut pairs = lines(&original).zip(lines(&imported)).enumerate();
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    Ok(Some(
        match pairs.find(|(_, (theirs, ours))| theirs != ours) {
            Some((before, (theirs, ours))) => format!(
                "line {} of the file is '{}', and was imported as '{}'",
                before + 1,
                text(theirs),
                text(ours)
            ),
            None => format!(
                "the file has {} lines, and {} were imported",
                lines(&original).count(),
                lines(&imported).count()
            ),
        },
    ))
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_a_doubled_and_a_changed_line_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let [original, imported] = ["a", "b"].map(|name| folder.path().join(name));
        write(&original, 7).unwrap();
        let whole = std::fs::read_to_string(&original).unwrap();
        let lines: Vec<&str> = whole.lines().collect();
        let changed = lines[3].replace("order", "ordre");
        for (lines, words) in [
            (lines.clone(), None),
            ([&lines[..2], &lines[3..]].concat(), Some("line 3 ")),
            ([&lines[..3], &lines[2..]].concat(), Some("line 4 ")),
            (
                [&lines[..3], &[&changed], &lines[4..]].concat(),
                Some("line 4 "),
            ),
            (lines[..6].to_vec(), Some("7 lines, and 6 ")),
        ] {
            std::fs::write(&imported, lines.join("\n") + "\n").unwrap();
            let difference = difference(&original, &imported).unwrap();
            match words {
                None => assert_eq!(difference, None),
                Some(words) => assert!(
                    difference.as_ref().unwrap().contains(words),
                    "{difference:?}"
                ),
            }
        }
    }
}
