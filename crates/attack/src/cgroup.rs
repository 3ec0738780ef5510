//! A memory cgroup: the kernel kills processes in it when they exceed the limit.
//!
//! Invariant: dropping the value removes the group. The servers in it must have ended by then.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};

/// The directories of memory groups in versions 1 and 2 of cgroups, and the file with the limit of a
/// group.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];

/// A memory cgroup of this process.
#[derive(Debug)]
pub struct MemoryCgroup {
    directory: PathBuf,
}

impl MemoryCgroup {
    /// Creates a group with a memory limit in bytes.
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
        bail!("cannot create a memory cgroup below /sys/fs/cgroup: run as root, where memory is delegated")
    }

    /// Returns the file to which a process writes its id in order to join the group.
    pub fn entrance(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // A group that cannot be removed has no processes and costs nothing.
        let _ = fs::remove_dir(&self.directory);
    }
}
