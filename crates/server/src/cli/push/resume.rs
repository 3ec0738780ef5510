//! The state file of `--resume`: how far each file was acknowledged.
//!
//! A file is known by its path and inode: after rotation the path names another file, which is read
//! from its start. The state is replaced as a whole, so that an interruption leaves the old one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::failed::Failed;

/// How far one file was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The file's number on its file system.
    pub inode: u64,
    /// Bytes that are acknowledged.
    pub offset: u64,
}

/// Positions of all files of earlier pushes.
#[derive(Debug, Default)]
pub struct Positions {
    path: Option<PathBuf>,
    files: BTreeMap<String, Position>,
}

impl Positions {
    /// Remembers nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the state file; absent means that nothing was acknowledged.
    pub fn load(path: &str) -> Result<Self, Failed> {
        let files = match fs::read(path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|e| {
                Failed::new(format!("'{path}' is no state file of --resume: {e}; delete it to start anew"))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Failed::new(format!("cannot read the state file '{path}': {error}"))),
        };
        Ok(Self { path: Some(path.into()), files })
    }

    /// Where to go on in a file of this length.
    pub fn start_of(&self, path: &str, inode: u64, length: u64) -> u64 {
        match self.files.get(path) {
            // Shorter than before: it was truncated and written anew.
            Some(known) if known.inode == inode && known.offset <= length => known.offset,
            _ => 0,
        }
    }

    /// Notes an acknowledgement and stores the state.
    pub fn note(&mut self, path: &str, position: Position) -> Result<(), Failed> {
        self.files.insert(path.to_owned(), position);
        match &self.path {
            Some(state) => store(state, &self.files),
            None => Ok(()),
        }
    }
}

fn store(path: &Path, files: &BTreeMap<String, Position>) -> Result<(), Failed> {
    let failed =
        |e: std::io::Error| Failed::new(format!("cannot write the state file '{}': {e}", path.display()));
    let text = serde_json::to_vec_pretty(files).map_err(|e| failed(e.into()))?;
    let beside = path.with_extension("new");
    fs::write(&beside, text).map_err(failed)?;
    fs::rename(&beside, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_and_rotation_starts_anew() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state.json");
        let state = state.to_str().unwrap();
        let mut positions = Positions::load(state).unwrap();
        positions.note("a.log", Position { inode: 7, offset: 100 }).unwrap();
        let again = Positions::load(state).unwrap();
        assert_eq!(again.start_of("a.log", 7, 150), 100);
        assert_eq!(again.start_of("a.log", 8, 150), 0, "rotated");
        assert_eq!(again.start_of("a.log", 7, 50), 0, "truncated");
        assert_eq!(again.start_of("b.log", 7, 150), 0);
        fs::write(state, "nonsense").unwrap();
        assert!(Positions::load(state).unwrap_err().message().contains("delete it"));
    }
}
