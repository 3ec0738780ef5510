//! A memory cgroup: what runs in it is killed by the kernel when it takes more than the limit.
//!
//! Invariant: the group is removed with its value, and the servers in it have ended by then.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// Where version 1 and version 2 of cgroups keep memory, and the file of a group that has its limit.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A group of this process's own.
#[derive(Debug)]
pub struct MemoryCgroup {
    directory: PathBuf,
}

impl MemoryCgroup {
    /// Makes a group that may have so much memory.
    pub fn new(bytes: u64) -> Result<Self> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("sandur-attack-{}-{number}", std::process::id());
        for (hierarchy, limit) in HIERARCHIES {
            let group = Self { directory: Path::new(hierarchy).join(&name) };
            if fs::create_dir(&group.directory).is_err() {
                continue;
            }
            if group.directory.join(limit).exists() {
                let limit = group.directory.join(limit);
                fs::write(&limit, bytes.to_string()).with_context(|| limit.display().to_string())?;
                return Ok(group);
            }
        }
        bail!("no memory cgroup can be made below /sys/fs/cgroup: run as root, where memory is delegated")
    }

    /// The file that processes enter the group by: they write their number to it.
    pub fn entrance(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // A group that is left behind has no processes and costs nothing.
        let _ = fs::remove_dir(&self.directory);
    }
}
