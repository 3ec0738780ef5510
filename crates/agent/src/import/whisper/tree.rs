//! Finds the files of a tree, folder by folder in the order of names.
//!
//! Links to folders are reported and not followed, so that the walk ends; links to files are followed.
//! Memory holds the names of the open folders and of the entries of one folder each.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum depth of folders.
const DEPTH_MAX: usize = 256;
/// Extension of the files.
const ENDING: &str = "wsp";

/// A file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Path of the file.
    pub path: PathBuf,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification, nanoseconds since the epoch.
    pub modified_ns: i128,
}

impl Found {
    /// Its line in the state file: size, modification time and name, which is escaped. So a file is known
    /// until it changes.
    pub fn line(&self, name: &str) -> String {
        format!("{} {} {}", self.size, self.modified_ns, name.escape_default())
    }
}

/// Walks a tree. An item is a file, or a message about something that could not be read.
pub struct Tree {
    /// What is still to be visited; the last is next.
    open: Vec<(PathBuf, usize)>,
}

impl Tree {
    /// The tree below a folder.
    pub fn below(folder: &Path) -> Self {
        Self { open: vec![(folder.to_owned(), 0)] }
    }

    fn enter(&mut self, folder: &Path, depth: usize) -> Result<(), String> {
        let shown = folder.display();
        if depth >= DEPTH_MAX {
            return Err(format!("{shown}: more than {DEPTH_MAX} nested folders: deeper ones are left out"));
        }
        let unreadable = |error: std::io::Error| format!("{shown}: cannot read the folder: {error}");
        let entries = fs::read_dir(folder).map_err(unreadable)?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(unreadable)?.path());
        }
        paths.sort_unstable_by(|a, b| b.cmp(a));
        self.open.extend(paths.into_iter().map(|path| (path, depth + 1)));
        Ok(())
    }
}

impl Iterator for Tree {
    type Item = Result<Found, String>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some((path, depth)) = self.open.pop() {
            let kind = fs::symlink_metadata(&path).map(|metadata| metadata.file_type());
            if kind.as_ref().is_ok_and(|kind| kind.is_dir()) || depth == 0 {
                if let Err(text) = self.enter(&path, depth) {
                    return Some(Err(text));
                }
                continue;
            }
            if kind.is_ok_and(|kind| kind.is_symlink()) && path.is_dir() {
                let shown = path.display();
                return Some(Err(format!(
                    "{shown}: a link to a folder, which is not followed; mount the folder here in its place \
                     (mount --bind) to import what is below"
                )));
            }
            if path.extension().is_none_or(|ending| ending != ENDING) {
                continue;
            }
            let metadata = match fs::metadata(&path) {
                Ok(metadata) if metadata.is_file() => metadata,
                Ok(_) => continue,
                Err(error) => return Some(Err(format!("{}: {error}", path.display()))),
            };
            let modified_ns =
                i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
            return Some(Ok(Found { path, size: metadata.len(), modified_ns }));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_file_changes_with_it_and_is_one_line() {
        let found = |size| Found { path: "x".into(), size, modified_ns: 5 };
        assert_eq!(found(1).line("a\nb"), "1 5 a\\nb");
        assert_ne!(found(2).line("c"), found(3).line("c"));
    }

    #[test]
    fn files_are_found_in_order_and_links_to_folders_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["b/c.wsp", "b/a.wsp", "a.wsp", "b/other.txt", "_tagged/0/1/x;y=z.wsp"] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "x").unwrap();
        }
        std::os::unix::fs::symlink(root, root.join("b/loop")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("z.wsp")).unwrap();
        let all: Vec<_> = Tree::below(root).collect();
        let names: Vec<String> = all
            .iter()
            .filter_map(|one| one.as_ref().ok())
            .map(|found| found.path.strip_prefix(root).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["_tagged/0/1/x;y=z.wsp", "a.wsp", "b/a.wsp", "b/c.wsp"]);
        let failures: Vec<&String> = all.iter().filter_map(|one| one.as_ref().err()).collect();
        assert_eq!(failures.len(), 2);
        assert!(failures[0].contains("b/loop: a link to a folder"), "{failures:?}");
        assert!(failures[1].contains("z.wsp"), "{failures:?}");
    }
}
