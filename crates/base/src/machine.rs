//! What the machine offers: memory (the cgroup's limit where there is one) and processors.

use std::fs;

/// Bytes of memory that this process may use: the cgroup's limit or the machine's memory.
/// 1 GiB when neither can be read.
pub fn memory_bytes() -> u64 {
    let machine = total_memory().unwrap_or(1 << 30);
    cgroup_limit().map_or(machine, |limit| limit.min(machine))
}

/// Processors that this process may run on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn total_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The limit of cgroup v2, or of v1's memory controller. A limit of "max" is none.
fn cgroup_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let v2 = own.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/").to_owned();
    let candidates = [
        format!("/sys/fs/cgroup{v2}/memory.max"),
        "/sys/fs/cgroup/memory.max".to_owned(),
        "/sys/fs/cgroup/memory/memory.limit_in_bytes".to_owned(),
    ];
    candidates.iter().find_map(|path| fs::read_to_string(path).ok()?.trim().parse().ok())
}

/// Resident memory of this process in bytes, from the kernel.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}
