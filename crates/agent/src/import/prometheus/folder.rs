//! Finds the blocks below a folder.

use std::fs;
use std::path::{Path, PathBuf};

use super::place::{BLOCKS_MAX, DELETION_MARK, DEPTH_MAX, Files, Found, META};
use crate::import::series::Sink;

/// Finds the blocks at or below a folder. Links to folders are not followed.
pub fn find(folder: &Path, sink: &mut dyn Sink) -> Vec<Found> {
    let mut found = Vec::new();
    find_below(folder, 0, &mut found, sink);
    found
}

/// The name of a folder that is the data directory of Prometheus with samples in its WAL.
pub fn live(folder: &Path) -> Option<String> {
    let has_files =
        |name: &str| fs::read_dir(folder.join(name)).is_ok_and(|mut files| files.next().is_some());
    (has_files("wal") || has_files("chunks_head")).then(|| folder.display().to_string())
}

fn find_below(folder: &Path, depth: usize, found: &mut Vec<Found>, sink: &mut dyn Sink) {
    let name = folder.display().to_string();
    if folder.join(META).is_file() {
        let is_marked = folder.join(DELETION_MARK).is_file();
        return found.push(Found { name, is_marked, files: Files::Folder(folder.to_owned()) });
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return sink.failure(&name, &format!("cannot read the folder: {error}")),
    };
    let folders = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_type().is_ok_and(|kind| kind.is_dir()).then(|| entry.path())
    });
    let mut folders: Vec<PathBuf> = folders.collect();
    folders.sort_unstable();
    for below in folders {
        if found.len() >= BLOCKS_MAX {
            return sink
                .failure(&name, &format!("has more than {BLOCKS_MAX} blocks: import its folders apart"));
        }
        if depth < DEPTH_MAX {
            find_below(&below, depth + 1, found, sink);
        }
    }
}
