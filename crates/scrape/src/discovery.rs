//! Targets from files: JSON or YAML lists of groups. A file that cannot be read keeps the groups that it had.

use std::collections::BTreeMap;

use crate::config::{TargetGroup, groups};
use crate::yaml::Node;

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Files of all patterns of a job.
const FILES_MAX: usize = 10_000;

/// What the files of a job listed last.
#[derive(Default)]
pub(crate) struct KnownFiles(BTreeMap<String, Vec<TargetGroup>>);

impl KnownFiles {
    /// Reads all files of the patterns again; waits for the disk.
    pub(crate) fn read(&mut self, patterns: &[String]) -> Vec<TargetGroup> {
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
            match read_file(&path) {
                Ok(groups) => drop(self.0.insert(path, groups)),
                Err(error) => tracing::error!(path, error, "a file of targets stays as it was"),
            }
        }
        let with_path = |(path, groups): (&String, &Vec<TargetGroup>)| {
            let named = |group: &TargetGroup| {
                let mut group = group.clone();
                group.labels.insert("__meta_filepath".to_owned(), path.clone());
                group
            };
            groups.iter().map(named).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(with_path).collect()
    }
}

fn read_file(path: &str) -> Result<Vec<TargetGroup>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes, at most {FILE_BYTES_MAX} are read"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    // JSON is YAML.
    groups(&Node::parse(&text).map_err(|error| error.to_string())?).map_err(|error| error.to_string())
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
        std::fs::write(path("a.json"), r#"[{"targets": ["a:1"], "labels": {"x": "y"}}]"#).unwrap();
        let targets =
            |groups: Vec<TargetGroup>| groups.into_iter().flat_map(|g| g.targets).collect::<Vec<_>>();
        assert_eq!(targets(known.read(&patterns)), ["a:1"]);
        std::fs::write(path("a.json"), r#"[{"targets": ["#).unwrap();
        std::fs::write(path("b.json"), "- targets: [b:1]").unwrap();
        assert_eq!(targets(known.read(&patterns)), ["a:1", "b:1"]);
        std::fs::remove_file(path("a.json")).unwrap();
        assert_eq!(targets(known.read(&patterns)), ["b:1"]);
    }
}
