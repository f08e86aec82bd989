//! What this process has used, from `/proc`. Zero where the system does not tell.

/// Most memory that was resident at once, in bytes.
pub fn peak_rss_bytes() -> u64 {
    status("VmHWM:")
}

/// Memory that is resident now, in bytes.
pub fn rss_bytes() -> u64 {
    status("VmRSS:")
}

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib: u64 = line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse().ok()).unwrap_or(0);
    kib * 1024
}

/// Processor time of all threads that are alive, in seconds.
pub fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanos: u64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok())
        .sum();
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_and_time_are_counted_where_proc_exists() {
        if std::path::Path::new("/proc/self/status").exists() {
            assert!(super::peak_rss_bytes() > 100_000);
            assert!(super::cpu_seconds() >= 0.0);
        }
    }
}
