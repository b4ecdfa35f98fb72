//! The clock that all nodes of a fleet share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::node::clock::Clock;

/// A wait looks at the clock again after this time at the latest: an operator may have set it.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Redis's clock, as this node knows it from its beats. Sources that depend on the time of day use it,
/// because the clocks of two nodes differ.
#[derive(Clone)]
pub struct FleetClock(Arc<Clock>);

impl FleetClock {
    pub(crate) fn new(clock: Arc<Clock>) -> Self {
        Self(clock)
    }

    /// The time, in ms since 1970.
    pub fn now_ms(&self) -> u64 {
        self.0.now_ms()
    }

    /// Waits until the clock shows this time, in ms since 1970.
    pub async fn sleep_until(&self, at_ms: u64) {
        loop {
            let left = Duration::from_millis(at_ms.saturating_sub(self.now_ms()));
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(LOOK_AGAIN)).await;
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0
    }
}

impl fmt::Debug for FleetClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FleetClock").field(&self.now_ms()).finish()
    }
}
