//! Groups of targets, and the patterns of files with groups, as they are written in a configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use sandur_yaml::{ConfigError, Data, Keys, Node};

/// How often files of targets are read if the configuration does not say so.
const REFRESH: Duration = Duration::from_secs(300);

/// Targets with common labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetGroup {
    /// The addresses of the targets.
    pub targets: Vec<String>,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// Files with groups of targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDiscovery {
    /// Patterns of paths.
    pub patterns: Vec<String>,
    /// How often the files are read.
    pub refresh: Duration,
}

/// Reads a list of groups: the value of `static_configs`, or a file.
pub fn groups(list: &Node) -> Result<Vec<TargetGroup>, ConfigError> {
    let Data::List(items) = &list.data else {
        return Err(ConfigError::at(list.line, "expected a list of groups of targets".to_owned()));
    };
    let groups = items.iter().map(|item| {
        let mut keys = Keys::of(item)?;
        let targets = keys.texts("targets")?;
        let labels = keys.map("labels")?.into_iter().collect();
        keys.finish(&[], &mut Vec::new())?;
        Ok(TargetGroup { targets, labels })
    });
    groups.collect()
}

/// Reads `file_sd_configs`.
pub fn files(keys: &mut Keys<'_>, warnings: &mut Vec<String>) -> Result<Vec<FileDiscovery>, ConfigError> {
    let mut found = Vec::new();
    for node in keys.list("file_sd_configs")? {
        let mut files = Keys::of(node)?;
        let patterns = files.texts("files")?;
        let refresh = files.duration("refresh_interval")?.unwrap_or(REFRESH);
        files.finish(&[], warnings)?;
        found.push(FileDiscovery { patterns, refresh });
    }
    Ok(found)
}
