//! The resources of the machine: memory (or the limit of the cgroup), processors and open files.

use std::fs;
use std::net::{IpAddr, UdpSocket};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes of memory that this process may use: the lower of the cgroup's limit and the machine's memory.
/// 1 GiB when neither can be read.
pub fn memory_bytes() -> u64 {
    let machine = total_memory().unwrap_or(1 << 30);
    cgroup_limit().map_or(machine, |limit| limit.min(machine))
}

/// Processors that this process may run on.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The most files, including sockets, that this process may have open.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit on open files to `wanted` (`None`: as far as possible), or as far as the system
/// permits; returns the resulting limit. Never lowers it.
pub fn raise_open_files_max(wanted: Option<u64>) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let set = |current, maximum| setrlimit(Resource::Nofile, Rlimit { current, maximum }).is_ok();
    let least = wanted.or(limit.maximum);
    let is_enough = match (limit.current, least) {
        (None, _) => true,
        (Some(current), Some(least)) => current >= least,
        (Some(_), None) => false,
    };
    // Only a privileged process can raise the hard limit; others raise the soft limit up to it.
    let maximum = limit.maximum.map(|maximum| maximum.max(least.unwrap_or(maximum)));
    if !is_enough && !set(least, maximum) {
        set(limit.maximum, limit.maximum);
    }
    open_files_max()
}

/// The address of the interface that has the default route. Sends nothing: connecting a socket of UDP only
/// chooses its own address.
pub fn default_route_address() -> Option<IpAddr> {
    // Addresses that are reserved for documentation are reached by the default route.
    let of = |local: &str, remote: &str| {
        let socket = UdpSocket::bind(local).ok()?;
        socket.connect(remote).ok()?;
        Some(socket.local_addr().ok()?.ip())
            .filter(|address| !address.is_unspecified() && !address.is_loopback())
    };
    of("0.0.0.0:0", "192.0.2.1:9").or_else(|| of("[::]:0", "[2001:db8::1]:9"))
}

fn total_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The limit of cgroup v2, or of the memory controller of v1. `None` when it is "max".
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

/// Resident memory of this process in bytes, as the kernel reports it.
pub fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Figures of this process, as the kernel reports them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessFigures {
    /// Processor time in seconds, in user mode and in the kernel.
    pub cpu_seconds: f64,
    /// Start of the process, in seconds since the epoch.
    pub start_seconds: f64,
    /// Bytes of address space.
    pub virtual_bytes: u64,
    /// Bytes of resident memory.
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Number of open file descriptors.
    pub open_files: u64,
    /// Limit on open file descriptors; 0 if unknown.
    pub open_files_max: u64,
}

/// Linux reports process times in units of 10 ms (`USER_HZ`) on every common platform.
const TICKS_PER_SECOND: f64 = 100.0;

/// The figures of this process; `None` where `/proc` cannot be read.
pub fn process_figures() -> Option<ProcessFigures> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<f64>().ok()?;
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open_files_max = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let open_files_max = open_files_max.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    Some(ProcessFigures {
        open_files: fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
        open_files_max: open_files_max.unwrap_or(0),
        ..parse_stat(&stat, boot)?
    })
}

/// Parses `/proc/PID/stat`. The program name is in parentheses and may contain any character, so fields
/// are counted from its end.
fn parse_stat(stat: &str, boot_seconds: f64) -> Option<ProcessFigures> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    // `man 5 proc` counts from 1; the first field after the name is number 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(ProcessFigures {
        cpu_seconds: (field(14)? + field(15)?) as f64 / TICKS_PER_SECOND,
        start_seconds: boot_seconds + field(22)? as f64 / TICKS_PER_SECOND,
        virtual_bytes: field(23)?,
        resident_bytes: field(24)? * 4096,
        threads: field(20)?,
        open_files: 0,
        open_files_max: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_figures_are_parsed_for_any_program_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1000 8192000 50 18446744";
        let figures = parse_stat(stat, 1_000.0).unwrap();
        assert_eq!((figures.cpu_seconds, figures.start_seconds), (3.0, 1_010.0));
        assert_eq!((figures.threads, figures.virtual_bytes, figures.resident_bytes), (9, 8_192_000, 204_800));
        assert_eq!(parse_stat("7 (a", 0.0), None);
        let own = process_figures().unwrap();
        assert!(own.resident_bytes > 0 && own.open_files > 0 && own.threads > 0, "{own:?}");
    }
}
