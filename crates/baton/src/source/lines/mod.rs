//! A source with the lines of a file that grows.

mod growing_file;
mod line_cursor;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use self::growing_file::{Found, GrowingFile, Read};
use self::line_cursor::{Fingerprint, LineCursor};
use super::{Batch, Flow, Position, Source, SourceError};

/// Max bytes of a line.
const MAX_LINE_BYTES: usize = 1 << 20;
/// The pause at the end of the file.
const POLL: Duration = Duration::from_millis(100);

/// A source with one message for each line of a file, also of lines that are appended later:
///
/// ```
/// let source = baton::lines("orders.csv");
/// ```
///
/// A message is the exact bytes before the newline; a carriage return stays. A last line without a newline
/// waits for it. A line over 1 MiB ends the source for good.
///
/// Its cursor has the place in the file and a digest of what comes before, so a successor goes on there, on
/// any machine that sees the file. A file that became shorter or was replaced is an error until the right
/// file is back: [`Lines::after`] tells which file came before.
pub fn lines(path: impl Into<PathBuf>) -> Lines {
    Lines {
        path: path.into(),
        before: None,
        file: None,
        at: LineCursor::default(),
        print: Fingerprint::default(),
        in_hand: Vec::new(),
        taken: 0,
    }
}

/// The lines of a file that grows; [`lines`] makes it.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    /// The file before it.
    before: Option<PathBuf>,
    file: Option<GrowingFile>,
    /// Behind the last line that is in a batch.
    at: LineCursor,
    print: Fingerprint,
    /// What was read behind the last batch of lines, and how much of it is in a batch.
    in_hand: Vec<u8>,
    taken: usize,
}

impl Lines {
    /// Tells that this file came before: a source that stands in it reads it to its end, and goes on with
    /// the beginning of its own. For files of which there is one a day, or for a file that is rotated:
    ///
    /// ```
    /// let source = baton::lines("orders.log").after("orders.log.1");
    /// ```
    ///
    /// Nothing may write to a file any more when the next one takes its place.
    pub fn after(mut self, path: impl Into<PathBuf>) -> Self {
        self.before = Some(path.into());
        self
    }

    /// Opens the file in which the cursor stands.
    async fn find(&mut self, from: Option<LineCursor>) -> Result<GrowingFile, SourceError> {
        let Some(cursor) = from else {
            return GrowingFile::open(&self.path).await;
        };
        let file = match GrowingFile::open(&self.path).await {
            Ok(file) => file.at(cursor).await?,
            Err(error) if self.before.is_none() => return Err(error),
            Err(_) => None,
        };
        let file = match (file, &self.before) {
            (None, Some(before)) => GrowingFile::open(before).await?.at(cursor).await?,
            (file, _) => file,
        };
        file.ok_or_else(|| self.is_another(cursor))
    }

    fn is_another(&self, at: LineCursor) -> SourceError {
        let (path, lines, bytes) = (self.path.display(), at.lines, at.offset);
        SourceError::Retry(format!(
            "{path} is not the file of which {lines} lines ({bytes} bytes) were read: it was replaced, cut or \
             changed. Put that file back, or tell the source that {path} comes after it"
        ))
    }

    /// Puts whole lines into the batch.
    fn hand_over(&mut self, batch: &mut Batch) {
        let begin = self.taken;
        while batch.has_room() {
            let rest = &self.in_hand[self.taken..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            // `read` says what is wrong with a line that is too long.
            let Some(end) = end.filter(|end| *end <= MAX_LINE_BYTES) else {
                break;
            };
            batch.push(&rest[..end]);
            self.taken += end + 1;
            self.at.lines += 1;
        }
        self.print.add(&self.in_hand[begin..self.taken]);
        self.at.offset = self.print.bytes();
        self.at.digest = self.print.digest();
    }

    /// Reads on. Whether there was more.
    async fn read(&mut self) -> Result<bool, SourceError> {
        let Some(file) = &self.file else {
            return Err(SourceError::retry("the file is not open"));
        };
        self.in_hand.drain(..self.taken);
        self.taken = 0;
        if self.in_hand.len() > MAX_LINE_BYTES {
            return Err(SourceError::Fatal(format!(
                "{}, line {}: it has more than {MAX_LINE_BYTES} bytes",
                file.path().display(),
                self.at.lines + 1
            )));
        }
        let is_last = self.is_replaced(file).await?;
        let position = self.print.bytes() + self.in_hand.len() as u64;
        let more = match file.read(position, self.print.tail(&self.in_hand)).await? {
            Read::Bytes(more) => more,
            Read::Changed => return Err(self.is_another(self.at)),
        };
        if more.is_empty() && is_last {
            self.go_on().await?;
            return Ok(true);
        }
        self.in_hand.extend_from_slice(&more);
        Ok(!more.is_empty())
    }

    /// Whether the file that comes after this one is there.
    async fn is_replaced(&self, file: &GrowingFile) -> Result<bool, SourceError> {
        match file.compare(&self.path).await? {
            Found::Same => Ok(false),
            Found::Nothing if self.before.is_some() => Ok(false),
            Found::Another if self.before.is_some() => Ok(true),
            Found::Nothing => Err(SourceError::Retry(format!(
                "{} is gone",
                self.path.display()
            ))),
            Found::Another => Err(self.is_another(self.at)),
        }
    }

    /// Begins with the file that comes after this one.
    async fn go_on(&mut self) -> Result<(), SourceError> {
        let path = self.file.as_ref().map_or(Path::new(""), GrowingFile::path);
        if !self.in_hand.is_empty() {
            return Err(SourceError::Retry(format!(
                "{}, line {}: it is the last one and has no newline; end it or remove it",
                path.display(),
                self.at.lines + 1
            )));
        }
        self.file = Some(GrowingFile::open(&self.path).await?);
        self.at = LineCursor::default();
        self.print = Fingerprint::default();
        Ok(())
    }
}

impl Source for Lines {
    async fn open(&mut self, from: Position<'_>) -> Result<(), SourceError> {
        self.close().await;
        let cursor = from.cursor.map(LineCursor::parse).transpose()?;
        let file = self.find(cursor).await?;
        self.at = cursor.unwrap_or_default();
        self.print = file.fingerprint(self.at.offset).await?;
        self.file = Some(file);
        Ok(())
    }

    async fn next(&mut self, batch: &mut Batch) -> Result<Flow, SourceError> {
        loop {
            self.hand_over(batch);
            if batch.count() > 0 {
                batch.set_cursor(self.at.to_string());
                return Ok(Flow::More);
            }
            if !self.read().await? {
                tokio::time::sleep(POLL).await;
            }
        }
    }

    async fn close(&mut self) {
        self.file = None;
        self.in_hand.clear();
        self.taken = 0;
    }

    /// A file that is rewritten is refused: its fingerprint differs.
    fn replays(&self) -> bool {
        true
    }

    fn kind(&self) -> &str {
        "file"
    }
}
