//! Crash points: places at which a test can make this process die as by `kill -9`.
//!
//! Only the feature `chaos`, for tests, compiles them in; without it [`point`] does nothing. With
//! it, the variable `BATON_CRASH_AT` names the point at which to die, and optionally at which
//! visit: `after-claim` is the first, `after-claim:3` the third.

/// The names of all points.
pub const POINTS: &[&str] = &[
    "after-beat-took-lease",
    "before-seal",
    "after-seal",
    "before-publish",
    "after-publish",
    "after-claim",
    "mid-handling",
    "before-commit",
    "after-commit",
    "before-give-back",
    "after-give-back",
    "before-extend",
    "after-extend",
    "after-reclaim",
    "drain-after-claim",
    "drain-after-print",
    "drain-after-commit",
    "before-leave",
];

/// Dies here if `BATON_CRASH_AT` says so.
#[cfg(not(feature = "chaos"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

#[cfg(feature = "chaos")]
pub use armed::{check, point};

#[cfg(feature = "chaos")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    use super::POINTS;

    const VARIABLE: &str = "BATON_CRASH_AT";

    /// Where this process must die.
    #[derive(Debug, PartialEq, Eq)]
    struct Armed {
        name: String,
        /// Which time the point is reached, counted from 1.
        time: u64,
    }

    impl Armed {
        fn parse(text: &str) -> Result<Self, String> {
            let (name, time) = text.split_once(':').unwrap_or((text, "1"));
            if !POINTS.contains(&name) {
                return Err(format!(
                    "{VARIABLE} names no crash point: {name}; there are {}",
                    POINTS.join(", ")
                ));
            }
            match time.parse() {
                Ok(time) if time > 0 => Ok(Self {
                    name: name.to_owned(),
                    time,
                }),
                _ => Err(format!("{VARIABLE} needs a number from 1 behind {name}:")),
            }
        }

        fn from_env() -> Result<Option<Self>, String> {
            let Some(text) = std::env::var_os(VARIABLE) else {
                return Ok(None);
            };
            Self::parse(&text.to_string_lossy()).map(Some)
        }
    }

    /// Whether the variable, if set, names a point: a typo would test nothing.
    pub fn check() -> Result<(), String> {
        Armed::from_env().map(|_| ())
    }

    /// Dies here if `BATON_CRASH_AT` says so.
    pub fn point(name: &'static str) {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        static REACHED: AtomicU64 = AtomicU64::new(0);
        let Some(armed) = ARMED.get_or_init(|| Armed::from_env().ok().flatten()) else {
            return;
        };
        if armed.name == name && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == armed.time {
            let _ = kill_process(getpid(), Signal::KILL);
            // The kernel ends this thread too, perhaps a moment later.
            loop {
                std::thread::park();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_point_has_a_name_from_the_list_and_perhaps_a_number() {
            let armed = |name: &str, time| {
                let name = name.to_owned();
                Ok(Armed { name, time })
            };
            assert_eq!(Armed::parse("after-claim"), armed("after-claim", 1));
            assert_eq!(Armed::parse("before-seal:12"), armed("before-seal", 12));
            for bad in ["", "after-clam", "after-claim:", "after-claim:0", ":2"] {
                assert!(Armed::parse(bad).is_err(), "{bad}");
            }
        }
    }
}
