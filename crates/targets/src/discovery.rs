//! Discovers targets from files, which are JSON or YAML lists of groups. If a file cannot be read, its
//! previous groups are kept.

use std::collections::BTreeMap;

use sandur_base::small_file;
use sandur_memory::{MemoryBudget, Reservation};

use crate::group::{TargetGroup, groups};
use sandur_yaml::Node;

/// The largest file in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The largest number of files of all patterns of a job.
const FILES_MAX: usize = 10_000;

/// Bytes of the list of groups per byte of a file. There are two lists while targets are discovered.
const LISTED_BYTES: u64 = 16;
/// Additional bytes per byte of a file while it is parsed.
const READING_BYTES: u64 = 16;

/// The groups of a file, and the memory that is reserved for them.
struct Listed {
    groups: Vec<TargetGroup>,
    _held: Reservation,
}

/// The groups that files had when they were last read.
#[derive(Default)]
pub struct KnownFiles {
    listed: BTreeMap<String, Listed>,
    /// Why the last reads failed, by path or pattern.
    errors: BTreeMap<String, String>,
}

impl KnownFiles {
    /// The files and patterns that could not be read the last time, and why.
    pub fn errors(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.errors.iter().map(|(path, error)| (path.as_str(), error.as_str()))
    }

    /// Reads all files of the patterns. Blocks on file I/O.
    pub fn read(&mut self, patterns: &[String], memory: &MemoryBudget) -> Vec<TargetGroup> {
        let (mut paths, mut errors) = (Vec::new(), BTreeMap::new());
        for pattern in patterns {
            match glob::glob(pattern) {
                Ok(found) => paths.extend(found.flatten().map(|path| path.to_string_lossy().into_owned())),
                Err(error) => drop(errors.insert(pattern.clone(), error.to_string())),
            }
        }
        paths.truncate(FILES_MAX);
        self.listed.retain(|path, _| paths.contains(path));
        for path in paths {
            match read_file(&path, memory) {
                Ok(listed) => drop(self.listed.insert(path, listed)),
                Err(error) => drop(errors.insert(path, error)),
            }
        }
        // Once for a failure that lasts.
        for (path, error) in errors.iter().filter(|(path, error)| self.errors.get(*path) != Some(error)) {
            tracing::error!(path, error, "cannot read a file of targets; its previous targets are kept");
        }
        for path in self.errors.keys().filter(|path| !errors.contains_key(*path)) {
            tracing::info!(path, "the file of targets can be read again, or is gone");
        }
        self.errors = errors;
        let with_path = |(path, listed): (&String, &Listed)| {
            let named = |group: &TargetGroup| {
                let mut group = group.clone();
                group.labels.insert("__meta_filepath".to_owned(), path.clone());
                group
            };
            listed.groups.iter().map(named).collect::<Vec<_>>()
        };
        self.listed.iter().flat_map(with_path).collect()
    }
}

fn read_file(path: &str, memory: &MemoryBudget) -> Result<Listed, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is not a file".to_owned());
    }
    let size = about.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes, at most {FILE_BYTES_MAX} are read"));
    }
    let held = memory.reserve(size * LISTED_BYTES).map_err(|error| error.to_string())?;
    let _reading = memory.reserve(size * READING_BYTES).map_err(|error| error.to_string())?;
    // If the file has grown since, it is read at the next refresh.
    let text = small_file::read_text(path, size).map_err(|error| error.to_string())?;
    // JSON is a subset of YAML.
    let tree = Node::parse(&text).map_err(|error| error.to_string())?;
    Ok(Listed { groups: groups(&tree).map_err(|error| error.to_string())?, _held: held })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_becomes_invalid_keeps_its_targets() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let patterns = [path("*.json").to_string_lossy().into_owned()];
        let mut known = KnownFiles::default();
        let memory = MemoryBudget::root("scrapes", 1 << 20);
        std::fs::write(path("a.json"), r#"[{"targets": ["a:1"], "labels": {"x": "y"}}]"#).unwrap();
        let targets =
            |groups: Vec<TargetGroup>| groups.into_iter().flat_map(|g| g.targets).collect::<Vec<_>>();
        assert_eq!(targets(known.read(&patterns, &memory)), ["a:1"]);
        std::fs::write(path("a.json"), r#"[{"targets": ["#).unwrap();
        std::fs::write(path("b.json"), "- targets: [b:1]").unwrap();
        assert_eq!(targets(known.read(&patterns, &memory)), ["a:1", "b:1"]);
        let [(path_of_error, _)] = known.errors().collect::<Vec<_>>()[..] else { panic!("one error") };
        assert!(path_of_error.ends_with("a.json"), "{path_of_error}");
        std::fs::remove_file(path("a.json")).unwrap();
        assert_eq!(targets(known.read(&patterns, &memory)), ["b:1"]);
        assert_eq!(known.errors().len(), 0);
    }

    #[test]
    fn a_file_that_exceeds_the_memory_or_is_not_regular_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let pattern = directory.path().join("*").to_string_lossy().into_owned();
        std::fs::create_dir(directory.path().join("folder")).unwrap();
        let many: Vec<String> = (0..10_000).map(|n| format!("\"a:{n}\"")).collect();
        std::fs::write(directory.path().join("b"), format!("[{{\"targets\": [{}]}}]", many.join(",")))
            .unwrap();
        let (mut known, small) = (KnownFiles::default(), MemoryBudget::root("scrapes", 1 << 20));
        assert!(known.read(std::slice::from_ref(&pattern), &small).is_empty());
        assert_eq!(small.used(), 0, "no memory is reserved for a file that was not read");
        let large = MemoryBudget::root("scrapes", 8 << 20);
        assert_eq!(known.read(&[pattern], &large)[0].targets.len(), 10_000);
        assert!(large.used() > 1 << 20);
    }
}
