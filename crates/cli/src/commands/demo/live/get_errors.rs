//! Runs `baton getErrors` as a user would.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use baton::FailedMessage;
use baton_processes::command;
use baton_protocol::text::moment;

/// Max lines for the window.
const MAX_LINES: usize = 200;
/// Pause between two checks whether the process has ended.
const POLL: Duration = Duration::from_millis(10);

/// The failed messages that were printed and removed.
pub(super) struct Taken {
    pub(super) count: usize,
    /// The last lines, oldest first.
    pub(super) last: Vec<String>,
}

/// Runs the command to its end, with its output in files of this folder. Kills it if the user has
/// left the demo.
pub(super) fn run(
    program: &Path,
    url: &str,
    folder: &Path,
    has_left: impl Fn() -> bool,
) -> Result<Taken> {
    let (printed, complaints) = (folder.join("getErrors.out"), folder.join("getErrors.err"));
    let mut child = command(program)
        .args(["getErrors", "--json", "--redis", url])
        .stdin(Stdio::null())
        .stdout(File::create(&printed)?)
        .stderr(File::create(&complaints)?)
        .process_group(0)
        .spawn()?;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if has_left() {
            child.kill()?;
            child.wait()?;
            bail!("the demo ends");
        }
        thread::sleep(POLL);
    };
    let complaints = fs::read(&complaints)?;
    ensure!(
        status.success(),
        "{}",
        String::from_utf8_lossy(&complaints).trim()
    );
    Ok(Taken::new(&String::from_utf8_lossy(&fs::read(&printed)?)))
}

impl Taken {
    /// Reads what `getErrors --json` printed.
    fn new(printed: &str) -> Self {
        let lines: Vec<&str> = printed.lines().collect();
        let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
        Self {
            count: lines.len(),
            last: last.iter().map(|line| text(line)).collect(),
        }
    }
}

/// A failed message as a line for people. The view escapes the texts.
fn text(line: &str) -> String {
    let Ok(failed) = serde_json::from_str::<FailedMessage>(line) else {
        return line.to_owned();
    };
    format!(
        "{}  #{}  {}  {}  {}",
        moment(failed.at_ms).as_deref().unwrap_or("-"),
        failed.seq,
        failed.node,
        failed.reason,
        String::from_utf8_lossy(&failed.text)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_counted_and_the_last_ones_become_text() {
        let line = |seq| {
            let at = "2023-11-14T22:13:20.123Z";
            format!(
                r#"{{"seq":{seq},"at":"{at}","node":"n1","reason":"r","attempt":1,"text":"a b"}}"#
            )
        };
        let printed: String = (1..=300).map(|seq| line(seq) + "\n").collect();
        let taken = Taken::new(&printed);
        assert_eq!((taken.count, taken.last.len()), (300, MAX_LINES));
        assert_eq!(taken.last[0], "2023-11-14T22:13:20.123Z  #101  n1  r  a b");
        assert!(taken.last[MAX_LINES - 1].contains("#300"));
        assert_eq!(Taken::new("").count, 0);
    }
}
