//! The server's own figures: the answer to `INFO`.

use anyhow::{Context, Result};

/// One section of `INFO`, read at one moment.
pub struct Info(String);

impl Info {
    /// Asks the server.
    pub fn read(redis: &mut redis::Connection, section: &str) -> Result<Self> {
        Ok(Self(redis::cmd("INFO").arg(section).query(redis)?))
    }

    /// The text of a field.
    pub fn text(&self, field: &str) -> Result<&str> {
        self.0
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .map(str::trim)
            .with_context(|| format!("the server has no field {field}"))
    }

    /// The number in a field.
    pub fn number(&self, field: &str) -> Result<f64> {
        Ok(self.text(field)?.parse()?)
    }
}

/// Processor time of the server's main thread so far, in µs.
pub fn redis_cpu_us(redis: &mut redis::Connection) -> Result<f64> {
    let cpu = Info::read(redis, "cpu")?;
    let both = |user, system| Ok::<_, anyhow::Error>(cpu.number(user)? + cpu.number(system)?);
    // Old servers have only the sum of all threads.
    both("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
        .or_else(|_| both("used_cpu_user", "used_cpu_sys"))
        .map(|seconds| seconds * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let info = Info("# Memory\r\nused_memory_peak:7\r\nused_memory:5\r\n".to_owned());
        assert_eq!(info.text("used_memory").unwrap(), "5");
        assert_eq!(info.number("used_memory_peak").unwrap(), 7.0);
        assert!(info.text("used").is_err());
    }
}
