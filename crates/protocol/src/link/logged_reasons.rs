//! Which reasons the log has already.

/// Max reasons that are remembered. If a server gives a new reason each time, each is logged.
const MAX_REASONS: usize = 16;

/// The reasons that were logged since the last success. A node reports each of them once.
#[derive(Debug, Default)]
pub struct LoggedReasons {
    reasons: Vec<String>,
}

impl LoggedReasons {
    /// Whether this reason is new. The next time it is not.
    pub fn is_new(&mut self, reason: &str) -> bool {
        if self.reasons.iter().any(|logged| logged == reason) {
            return false;
        }
        if self.reasons.len() == MAX_REASONS {
            self.reasons.remove(0);
        }
        self.reasons.push(reason.to_owned());
        true
    }

    /// Whether nothing was logged.
    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// After a success every reason is new.
    pub fn clear(&mut self) {
        self.reasons.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_new_once_until_the_next_success() {
        let mut logged = LoggedReasons::default();
        assert!(
            logged.is_new("a") && logged.is_new("b") && !logged.is_new("a") && !logged.is_new("b")
        );
        logged.clear();
        assert!(logged.is_empty() && logged.is_new("a"));
        for i in 0..100 {
            assert!(logged.is_new(&i.to_string()));
        }
        assert!(logged.reasons.len() <= MAX_REASONS);
    }
}
