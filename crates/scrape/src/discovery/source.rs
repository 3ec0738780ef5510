//! A source of targets in the network, and the targets that it found.
//!
//! **Invariants.** The number of targets of a source is bounded, and the memory of each is reserved before it
//! is added.

use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::{MemoryBudget, Reservation};
use sandur_targets::{LabelSet, TargetGroup};

use crate::scrape::short_of;

/// The largest number of targets of one source.
const TARGETS_MAX: usize = 10_000;
/// Copies of a target that exist at a time: of its source, of the list of all targets, its loop, the key of
/// its loop, and the board. A new list exists in addition to the previous one.
const COPIES: u64 = 5;
/// Bytes of a label without its texts, and of a target without its labels.
const LABEL_BYTES: u64 = 96;
const TARGET_BYTES: u64 = 512;

/// The targets of a source, and their memory.
pub(crate) struct Listed {
    pub(super) groups: Vec<TargetGroup>,
    held: Reservation,
}

/// Targets that are being collected. Their number is checked and their memory is reserved one by one.
pub(super) struct Found {
    listed: Listed,
    failure: Option<String>,
}

impl Found {
    pub(super) fn new(memory: &MemoryBudget) -> Self {
        Self { listed: Listed { groups: Vec::new(), held: memory.empty() }, failure: None }
    }

    /// Adds a target, unless a limit is exceeded.
    pub(super) fn add(&mut self, address: String, labels: LabelSet) {
        if self.failure.is_some() {
            return;
        }
        if self.listed.groups.len() == TARGETS_MAX {
            let what = format!("there are more than {TARGETS_MAX} targets, the limit of one source");
            self.failure = Some(what);
            return;
        }
        let group = TargetGroup { targets: vec![address], labels };
        match self.listed.held.grow(bytes_of(&group) * COPIES) {
            Ok(()) => self.listed.groups.push(group),
            Err(error) => self.failure = Some(short_of(&error)),
        }
    }

    pub(super) fn finish(self) -> Result<Listed, String> {
        self.failure.map_or(Ok(self.listed), Err)
    }
}

/// Returns the bytes of a group's targets, each with its labels.
fn bytes_of(group: &TargetGroup) -> u64 {
    let label = |(name, value): (&String, &String)| (name.len() + value.len()) as u64 + LABEL_BYTES;
    let labels: u64 = group.labels.iter().map(label).sum();
    group.targets.iter().map(|address| address.len() as u64 + TARGET_BYTES + labels).sum()
}

/// Something that knows targets.
pub(crate) trait Source: Send + Sync {
    /// Returns how targets are found, for metrics and users.
    fn kind(&self) -> &'static str;
    /// Returns what is looked up, for users.
    fn name(&self) -> &str;
    /// Returns the time between look-ups.
    fn refresh(&self) -> Duration;
    /// Looks the targets up.
    fn list(&self) -> BoxFuture<'_, Result<Listed, String>>;
}
