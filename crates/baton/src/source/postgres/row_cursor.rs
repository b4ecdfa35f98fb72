//! Where an outbox stands: a row, and all rows before it in the order of `(xid, id)`.

use std::fmt;

use crate::source::SourceError;

/// The transaction and the id of a row. The default is before all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowCursor {
    pub(super) xid: i64,
    pub(super) id: i64,
}

impl Default for RowCursor {
    fn default() -> Self {
        Self {
            xid: 0,
            id: i64::MIN,
        }
    }
}

impl RowCursor {
    pub(super) fn parse(cursor: &[u8]) -> Result<Self, SourceError> {
        let numbers = || {
            let (xid, id) = str::from_utf8(cursor).ok()?.split_once(' ')?;
            let (xid, id) = (xid.parse().ok()?, id.parse().ok()?);
            (xid >= 0).then_some(Self { xid, id })
        };
        numbers().ok_or_else(|| {
            SourceError::Fatal(format!(
                "'{}' is no cursor of an outbox, such as '742 15'",
                cursor.escape_ascii()
            ))
        })
    }
}

impl fmt::Display for RowCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.xid, self.id)
    }
}
