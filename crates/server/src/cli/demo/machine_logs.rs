//! The log files of this machine that the user may read.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// The directory of log files.
const DIRECTORY: &str = "/var/log";
/// Maximum number and total size of files that the demo ships.
const FILES_MAX: usize = 200;
const BYTES_MAX: u64 = 256 << 20;
/// Maximum depth of directories.
const DEPTH_MAX: u32 = 3;

/// Readable text files below `/var/log`, smallest first, within the bounds.
pub fn files() -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    collect(Path::new(DIRECTORY), 0, &mut found);
    found.sort_by_key(|(_, bytes)| *bytes);
    let mut sum = 0;
    found.retain(|(_, bytes)| {
        sum += bytes;
        sum <= BYTES_MAX
    });
    found.truncate(FILES_MAX);
    found
}

fn collect(directory: &Path, depth: u32, found: &mut Vec<(PathBuf, u64)>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        // Links are not followed: they may leave the directory or form cycles.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() && depth < DEPTH_MAX {
            collect(&path, depth + 1, found);
        } else if metadata.is_file() && metadata.len() > 0 && is_text(&path) {
            found.push((path, metadata.len()));
        }
    }
}

/// Whether the start of the file looks like text; a journal or an archive does not.
fn is_text(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4_096).read_to_end(&mut start));
    let valid = std::str::from_utf8(&start).map_or_else(|e| e.valid_up_to() + 4 >= start.len(), |_| true);
    read.is_ok() && valid && !start.contains(&0)
}

/// The name of a file without directory, number and extension: `/var/log/apt/history.log.1` becomes
/// `history`.
pub fn name_of(path: &Path) -> String {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('.').next().filter(|n| !n.is_empty()).unwrap_or("log").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_distinguished_from_other_files() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = directory.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        assert!(is_text(&file("a", "Grüße\n".as_bytes())));
        assert!(!is_text(&file("b", b"LPKSHHRH\0\0")));
        assert!(!is_text(&file("c", b"\x1f\x8b\x08\xff\xff\xff\xff\xff")));
        let mut found = Vec::new();
        collect(directory.path(), 0, &mut found);
        assert_eq!(found.len(), 1);
        assert_eq!(name_of(Path::new("/var/log/apt/history.log.1")), "history");
    }
}
