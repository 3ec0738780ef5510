//! Targets from files: JSON or YAML lists of groups. A file that cannot be read keeps the groups that it had.

use std::collections::BTreeMap;

use sandur_base::{MemoryBudget, Reservation, small_file};

use crate::config::{TargetGroup, groups};
use crate::scrape::short_of;
use crate::yaml::Node;

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files of all patterns of a job.
const FILES_MAX: usize = 10_000;

/// Bytes that a byte of a file becomes as a list of groups, of which there are two while targets are found.
const LISTED_BYTES: u64 = 16;
/// Bytes that it becomes beside that while it is read.
const READING_BYTES: u64 = 16;

/// What a file listed, and what pays for it.
struct Listed {
    groups: Vec<TargetGroup>,
    _held: Reservation,
}

/// What the files of a job listed last.
#[derive(Default)]
pub(crate) struct KnownFiles(BTreeMap<String, Listed>);

impl KnownFiles {
    /// Reads all files of the patterns again; waits for the disk.
    pub(crate) fn read(&mut self, patterns: &[String], memory: &MemoryBudget) -> Vec<TargetGroup> {
        let mut paths: Vec<String> = Vec::new();
        for pattern in patterns {
            match glob::glob(pattern) {
                Ok(found) => paths.extend(found.flatten().map(|path| path.to_string_lossy().into_owned())),
                Err(error) => tracing::error!(pattern, %error, "a pattern of target files cannot be read"),
            }
        }
        paths.truncate(FILES_MAX);
        self.0.retain(|path, _| paths.contains(path));
        for path in paths {
            match read_file(&path, memory) {
                Ok(listed) => drop(self.0.insert(path, listed)),
                Err(error) => tracing::error!(path, error, "a file of targets stays as it was"),
            }
        }
        let with_path = |(path, listed): (&String, &Listed)| {
            let named = |group: &TargetGroup| {
                let mut group = group.clone();
                group.labels.insert("__meta_filepath".to_owned(), path.clone());
                group
            };
            listed.groups.iter().map(named).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(with_path).collect()
    }
}

fn read_file(path: &str, memory: &MemoryBudget) -> Result<Listed, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no file".to_owned());
    }
    let size = about.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes, at most {FILE_BYTES_MAX} are read"));
    }
    let held = memory.reserve(size * LISTED_BYTES).map_err(|error| short_of(&error))?;
    let _reading = memory.reserve(size * READING_BYTES).map_err(|error| short_of(&error))?;
    // It may have grown meanwhile: then it is read at the next look.
    let text = small_file::read_text(path, size).map_err(|error| error.to_string())?;
    // JSON is YAML.
    let tree = Node::parse(&text).map_err(|error| error.to_string())?;
    Ok(Listed { groups: groups(&tree).map_err(|error| error.to_string())?, _held: held })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_breaks_keeps_its_targets() {
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
        std::fs::remove_file(path("a.json")).unwrap();
        assert_eq!(targets(known.read(&patterns, &memory)), ["b:1"]);
    }

    #[test]
    fn a_file_beyond_memory_or_that_is_none_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let pattern = directory.path().join("*").to_string_lossy().into_owned();
        std::fs::create_dir(directory.path().join("folder")).unwrap();
        let many: Vec<String> = (0..10_000).map(|n| format!("\"a:{n}\"")).collect();
        std::fs::write(directory.path().join("b"), format!("[{{\"targets\": [{}]}}]", many.join(",")))
            .unwrap();
        let (mut known, small) = (KnownFiles::default(), MemoryBudget::root("scrapes", 1 << 20));
        assert!(known.read(std::slice::from_ref(&pattern), &small).is_empty());
        assert_eq!(small.used(), 0, "nothing is held for what was not read");
        let large = MemoryBudget::root("scrapes", 8 << 20);
        assert_eq!(known.read(&[pattern], &large)[0].targets.len(), 10_000);
        assert!(large.used() > 1 << 20);
    }
}
