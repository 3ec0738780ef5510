//! Reads a file within a bound on memory.

use std::fs::File;
use std::path::Path;

use sandur_base::units::ByteSize;
use sandur_model::Labels;
use sandur_whisper::{Checks, Damage, Error, History, Kept, Left, Whisper};

use super::labels;

/// How files are read.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Whether checksums are verified.
    pub checks: Checks,
    /// How damaged archives and blocks are handled.
    pub damage: Damage,
    /// Points after this time (seconds since the epoch) are left out.
    pub until: u32,
    /// Maximum memory for one file, bytes.
    pub memory: u64,
    /// Number of files that are read concurrently, for messages.
    pub parallel: u64,
}

/// The contents of a file.
pub struct Contents {
    /// Labels and points of each archive.
    pub series: Vec<(Labels, Kept)>,
    /// Counts of what was left out.
    pub left: Left,
    /// Descriptions of damaged parts, which were left out.
    pub damaged: Vec<String>,
}

impl Reader {
    /// Reads a file below `folder`. The error says why it cannot be read.
    pub fn read(&self, folder: &Path, path: &Path) -> Result<Contents, String> {
        let metric = labels::of_file(folder, path)?;
        let file = File::open(path).map_err(|error| format!("cannot open it: {error}"))?;
        let whisper = Whisper::open_with(file, self.checks, self.damage).map_err(with_remedy)?;
        // The requests need at most a third of the memory of the points.
        let needed = whisper.memory_bytes().saturating_mul(4) / 3;
        if needed > self.memory {
            let (needed, share) = (ByteSize(needed), ByteSize(self.memory));
            return Err(format!(
                "it needs {needed} of memory, and each of {} files in flight may use {share}: raise \
                 --memory, or lower --parallel",
                self.parallel
            ));
        }
        let history = whisper.history(self.until).map_err(with_remedy)?;
        let History { archives, left, damaged } = history;
        let series = archives.into_iter().map(|kept| {
            let labels = labels::of_archive(&metric, kept.archive, kept.step);
            (labels, kept)
        });
        Ok(Contents { series: series.collect(), left, damaged })
    }
}

/// The error of a file, with the option that imports its intact parts.
fn with_remedy(error: Error) -> String {
    match error {
        Error::Archive { .. } | Error::Block { .. } => format!("{error}; --salvage imports the intact parts"),
        other => other.to_string(),
    }
}
