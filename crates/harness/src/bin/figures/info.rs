//! What the server tells about itself.

use anyhow::{Context, Result};

/// One section of `INFO`, read at one moment.
pub(crate) struct Info(String);

impl Info {
    pub(crate) fn read(redis: &mut redis::Connection, section: &str) -> Result<Self> {
        Ok(Self(redis::cmd("INFO").arg(section).query(redis)?))
    }

    pub(crate) fn text(&self, field: &str) -> Result<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .with_context(|| format!("the server tells no {field}"))
    }

    pub(crate) fn number(&self, field: &str) -> Result<f64> {
        Ok(self.text(field)?.parse()?)
    }
}
