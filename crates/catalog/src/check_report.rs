//! What a check of a store finds, and how bad it is.

use std::sync::Arc;

use crate::snapshot::Snapshot;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost; it is worth knowing.
    Note,
    /// Nothing in the store can tell whether something is lost.
    Unknown,
    /// Data or its description is missing or damaged.
    Damage,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The object's name in the store.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What [`check`](crate::check()) saw.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Entries that were read.
    pub entries: u64,
    /// Checkpoints that were read.
    pub checkpoints: u64,
    /// Blocks that the catalog mentions and that are there with the right size.
    pub blocks: u64,
    /// Their bytes.
    pub block_bytes: u64,
    /// Block objects that the catalog does not mention: left by a crash, or being written now.
    pub unreferenced: u64,
    /// WAL frames that were verified.
    pub frames: u64,
    /// Rows in them.
    pub wal_rows: u64,
    /// What is wrong, or cannot be told.
    pub findings: Vec<Finding>,
    /// Whether the catalog itself is damaged: `sandur repair` deals with that.
    pub catalog_is_damaged: bool,
    /// The farthest state that can be followed to.
    pub snapshot: Arc<Snapshot>,
}

impl CheckReport {
    /// Whether everything could be verified, and nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.findings.iter().all(|f| f.severity < Severity::Unknown)
    }

    /// Whether nothing is known to be damaged.
    pub fn is_undamaged(&self) -> bool {
        self.findings.iter().all(|f| f.severity < Severity::Damage)
    }

    /// How many findings are that bad.
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
