//! The way to the server: encryption, clock, latency.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use baton_protocol::TargetKind;

use super::facts::Facts;
use super::finding::Finding;

/// A certificate that ends sooner is worth a warning.
const EXPIRES_SOON: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest round trip that leaves time to notice a dead generator: standbys beat every 50 ms.
const MAX_P99: Duration = Duration::from_millis(50);
/// How far two clocks may be apart.
const MAX_AHEAD_MS: u64 = 1000;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![tls(facts), clock(facts), latency(facts)]
}

fn tls(facts: &Facts) -> Finding {
    if !facts.target.is_encrypted {
        let stays_here = match facts.target.kind {
            TargetKind::Server => facts.target.is_local,
            _ => {
                let address = facts.place.parse();
                address.is_ok_and(|address: SocketAddr| address.ip().is_loopback())
            }
        };
        return match stays_here {
            true => Finding::ok("tls", "not encrypted, and the bytes stay on this machine"),
            false => Finding::warn(
                "tls",
                "not encrypted: the network sees passwords and messages",
                "use a URL with rediss",
            ),
        };
    }
    let left = facts
        .certificate_expiry
        .map(|end| end.duration_since(SystemTime::now()).unwrap_or_default());
    match left {
        None => Finding::ok("tls", "encrypted"),
        Some(left) => {
            let days = left.as_secs() / (24 * 3600);
            let found = format!("encrypted; the server's certificate expires in {days} days");
            match left < EXPIRES_SOON {
                true => Finding::warn("tls", found, "renew it"),
                false => Finding::ok("tls", found),
            }
        }
    }
}

fn clock(facts: &Facts) -> Finding {
    let mut ahead: Vec<i64> = facts.trips.iter().map(|trip| trip.ahead_ms).collect();
    ahead.sort_unstable();
    let ahead = ahead.get(ahead.len() / 2).copied().unwrap_or_default();
    let direction = match ahead < 0 {
        true => "behind",
        false => "ahead of",
    };
    let found = format!(
        "the server's clock is {} ms {direction} this machine's",
        ahead.unsigned_abs()
    );
    match ahead.unsigned_abs() > MAX_AHEAD_MS {
        true => Finding::warn(
            "clock",
            found,
            "cron and the times of messages follow the server's: synchronize both with NTP",
        ),
        false => Finding::ok("clock", found),
    }
}

fn latency(facts: &Facts) -> Finding {
    let mut took: Vec<Duration> = facts.trips.iter().map(|trip| trip.took).collect();
    took.sort_unstable();
    let percentile = |percent: usize| {
        let at = (took.len() * percent).div_ceil(100).saturating_sub(1);
        took.get(at).copied().unwrap_or_default()
    };
    let (p50, p99) = (percentile(50), percentile(99));
    let found = format!(
        "p50 {:.2} ms, p99 {:.2} ms of {} round trips",
        p50.as_secs_f64() * 1e3,
        p99.as_secs_f64() * 1e3,
        took.len()
    );
    match p99 > MAX_P99 {
        true => Finding::warn(
            "latency",
            found,
            "takeovers take as long: run the nodes nearer to the server, or look for what keeps it busy",
        ),
        false => Finding::ok("latency", found),
    }
}
