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
        let whisper = Whisper::open_with(file, self.checks, self.damage)
            .map_err(|error| with_remedy(error, self.damage))?;
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
        let history = whisper.history(self.until).map_err(|error| with_remedy(error, self.damage))?;
        let History { archives, left, damaged } = history;
        let series = archives.into_iter().map(|kept| {
            let labels = labels::of_archive(&metric, kept.archive, kept.step);
            (labels, kept)
        });
        Ok(Contents { series: series.collect(), left, damaged })
    }
}

/// The error of a file, with the option that imports its intact parts. With this option, such an error
/// means that there are none.
fn with_remedy(error: Error, damage: Damage) -> String {
    match (&error, damage) {
        (Error::Archive { .. } | Error::Block { .. }, Damage::Refused) => {
            format!("{error}; --salvage imports the intact parts")
        }
        (Error::Archive { .. }, Damage::LeftOut) => format!("{error}; the file has no intact archive"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of such a file recommended the option that had been given.
    #[test]
    fn salvage_is_not_recommended_where_it_was_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wsp");
        // Average, one archive of 60 points of a minute, at offset 28; its points are missing.
        let header = [1u32, 3_600, 0x3f00_0000, 1, 28, 60, 60];
        std::fs::write(&path, header.map(u32::to_be_bytes).concat()).unwrap();
        let error = |damage| {
            let checks = Checks::All;
            let reader = Reader { checks, damage, until: u32::MAX, memory: 1 << 30, parallel: 1 };
            reader.read(folder.path(), &path).err().unwrap()
        };
        let refused = error(Damage::Refused);
        assert!(refused.ends_with("; --salvage imports the intact parts"), "{refused}");
        let left_out = error(Damage::LeftOut);
        assert!(left_out.ends_with("; the file has no intact archive"), "{left_out}");
    }
}
