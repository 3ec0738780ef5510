//! The text of a configuration file with its name, and the errors of reading it.

use std::path::{Path, PathBuf};

use sandur_base::small_file;

/// The largest size of a file in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Why a configuration cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("cannot read {file}: {reason}")]
    Unreadable {
        /// The name of the file.
        file: String,
        /// The system's error.
        reason: String,
    },
    /// A line cannot be understood.
    #[error("{file}:{line}: {reason}")]
    Line {
        /// The name of the file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Several lines cannot be understood or are not supported.
    #[error("{}", .findings.join("\n"))]
    Several {
        /// One text for each line.
        findings: Vec<String>,
    },
}

/// A file's text.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, ConfigError> {
        let name = path.display().to_string();
        let wrong = |reason: String| ConfigError::Unreadable { file: name.clone(), reason };
        let text = small_file::read_text(path, FILE_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { path: path.to_owned(), text, name })
    }

    /// Opens a file in the same directory, if it exists.
    pub(super) fn sibling(&self, name: &str) -> Result<Option<Self>, ConfigError> {
        let path = self.path.parent().unwrap_or(Path::new(".")).join(name);
        if path.exists() { Self::open(&path).map(Some) } else { Ok(None) }
    }

    /// Makes an error that names a line.
    pub(super) fn wrong(&self, line: usize, reason: impl Into<String>) -> ConfigError {
        ConfigError::Line { file: self.name.clone(), line, reason: reason.into() }
    }

    /// Returns the line, from 1, of a byte offset.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + memchr::memchr_iter(b'\n', before).count()
    }
}
