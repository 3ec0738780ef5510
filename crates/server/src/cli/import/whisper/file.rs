//! Reads one file within the memory that it may take.

use std::fs::File;
use std::path::Path;

use sandur_base::units::ByteSize;
use sandur_model::Labels;
use sandur_whisper::{Checks, Damage, Error, History, Kept, Left, Whisper};

use super::labels;

/// How files are read.
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    /// Whether checksums must fit.
    pub checks: Checks,
    /// What becomes of archives and blocks that are damaged.
    pub damage: Damage,
    /// Points after this time are left out.
    pub until: u32,
    /// Memory of a file.
    pub memory: u64,
    /// Files that are read at once, for what is said.
    pub parallel: u64,
}

/// What a file holds.
pub struct Contents {
    /// For each archive its labels and points.
    pub series: Vec<(Labels, Kept)>,
    /// What was left out.
    pub left: Left,
    /// What is damaged and was left out, with the reasons.
    pub damaged: Vec<String>,
}

impl Reader {
    /// Reads a file below `folder`; an error says why it cannot be.
    pub fn read(&self, folder: &Path, path: &Path) -> Result<Contents, String> {
        let metric = labels::of_file(folder, path)?;
        let file = File::open(path).map_err(|error| format!("cannot open it: {error}"))?;
        let whisper = Whisper::open_with(file, self.checks, self.damage).map_err(with_remedy)?;
        // What is sent of it takes a third at most of what its points take.
        let needed = whisper.memory_bytes().saturating_mul(4) / 3;
        if needed > self.memory {
            let (needed, share) = (ByteSize(needed), ByteSize(self.memory));
            return Err(format!(
                "it needs {needed} of memory, and each of {} files under way may take {share}: raise \
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

/// Why a file is not imported, and how what is whole of it is.
fn with_remedy(error: Error) -> String {
    match error {
        Error::Archive { .. } | Error::Block { .. } => format!("{error}; --salvage imports what is whole"),
        other => other.to_string(),
    }
}
