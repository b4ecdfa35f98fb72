//! The command of a run with `--source rows`.

use std::io::{self, BufRead as _, Write as _};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ROW_MS, messages_until, text_of};

/// A group of rows ends with each third one, and so does a pack at the latest.
const GROUP: u64 = 3;

/// The first line that a source reads.
#[derive(Deserialize)]
struct Hello {
    next: u64,
    cursor: Option<String>,
}

/// Prints rows until this process is killed.
pub fn print_rows() -> Result<()> {
    let pause = std::env::var(ROW_MS).context(ROW_MS)?.parse()?;
    let mut hello = String::new();
    io::stdin().lock().read_line(&mut hello)?;
    let mut row = begin(serde_json::from_str(&hello)?)?;
    loop {
        std::thread::sleep(Duration::from_millis(pause));
        row += 1;
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", line(row))?;
        stdout.flush()?;
    }
}

/// The last row that Redis has.
fn begin(Hello { next, cursor }: Hello) -> Result<u64> {
    let row = cursor.as_deref().unwrap_or("0").parse()?;
    let expected = messages_until(row) + 1;
    ensure!(
        next == expected,
        "row {row} is followed by message {expected}, not {next}"
    );
    Ok(row)
}

/// What the source prints for a row.
fn line(row: u64) -> Value {
    let text = text_of(row);
    let mut line = Map::new();
    if row.is_multiple_of(GROUP) || text.is_none() {
        line.insert("cursor".to_owned(), row.to_string().into());
    }
    match text.map(String::from_utf8) {
        Some(Ok(text)) => line.insert("text".to_owned(), text.into()),
        Some(Err(other)) => {
            let base64 = STANDARD.encode(other.into_bytes());
            line.insert("base64".to_owned(), base64.into())
        }
        None => None,
    };
    line.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(next: u64, cursor: Option<&str>) -> Hello {
        Hello {
            next,
            cursor: cursor.map(str::to_owned),
        }
    }

    #[test]
    fn it_begins_behind_its_cursor_and_only_if_the_number_fits() {
        assert_eq!(begin(hello(1, None)).unwrap(), 0);
        assert_eq!(begin(hello(21, Some("22"))).unwrap(), 22);
        assert!(begin(hello(22, Some("22"))).is_err());
        assert!(begin(hello(2, None)).is_err());
    }

    #[test]
    fn every_third_row_has_a_cursor_and_a_row_without_a_message_has_nothing_else() {
        let cursors = (1..=12).filter(|row| line(*row).get("cursor").is_some());
        assert_eq!(cursors.collect::<Vec<_>>(), [3, 6, 9, 11, 12]);
        assert_eq!(line(11).to_string(), r#"{"cursor":"11"}"#);
    }
}
