//! The findings of a check, and their severity.

use std::sync::Arc;

use crate::snapshot::Snapshot;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost; for information.
    Note,
    /// The store holds no evidence whether something is lost.
    Unknown,
    /// Data or its description is missing or damaged.
    Damage,
}

/// A deviation that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The object's name in the store.
    pub object: String,
    /// The fault of the object.
    pub problem: String,
}

/// The result of [`check`](crate::check()).
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Entries that were read.
    pub entries: u64,
    /// Checkpoints that were read.
    pub checkpoints: u64,
    /// Blocks in the catalog whose objects exist with the right size.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// Block objects that the catalog does not name: left by a crash, or being written now.
    pub unreferenced: u64,
    /// WAL frames that were verified.
    pub frames: u64,
    /// Rows in these frames.
    pub wal_rows: u64,
    /// Faults, and objects that could not be judged.
    pub findings: Vec<Finding>,
    /// Whether the catalog itself is damaged; `sandur repair` rebuilds it.
    pub catalog_is_damaged: bool,
    /// The last state to which the log can be followed.
    pub snapshot: Arc<Snapshot>,
}

impl CheckReport {
    /// Whether all objects could be verified and none is damaged.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|f| f.severity < Severity::Unknown)
    }

    /// Whether no object is known to be damaged.
    pub fn is_undamaged(&self) -> bool {
        self.findings.iter().all(|f| f.severity < Severity::Damage)
    }

    /// Returns the number of findings of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }

    pub(crate) fn add(&mut self, severity: Severity, object: impl Into<String>, problem: impl Into<String>) {
        self.findings.push(Finding { severity, object: object.into(), problem: problem.into() });
    }

    pub(crate) fn damage(&mut self, object: impl Into<String>, problem: impl Into<String>) {
        self.add(Severity::Damage, object, problem);
    }
}
