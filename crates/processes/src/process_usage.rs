//! What a process uses, read from `/proc`.

use std::fs;

/// Processor time that a process has used so far, in µs. `None` on a system without `/proc`.
pub fn process_cpu_us(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut total = None;
    for thread in threads.flatten() {
        // A thread may end meanwhile.
        let Ok(stat) = fs::read_to_string(thread.path().join("schedstat")) else {
            continue;
        };
        let ns: f64 = stat.split_whitespace().next()?.parse().ok()?;
        *total.get_or_insert(0.0) += ns / 1000.0;
    }
    total
}

/// The peak memory of a process, in MB. `None` on a system without `/proc`.
pub fn peak_rss_mb(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kb = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kb: f64 = kb.split_whitespace().next()?.parse().ok()?;
    Some(kb / 1024.0)
}
