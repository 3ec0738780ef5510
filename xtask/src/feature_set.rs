//! Whether every selection of packages builds outside crates with the same features.
//!
//! `cargo test -p CRATE` compiles a dependency again when the crate and the workspace ask for different
//! features of it. `crates/feature-set` makes them agree; this finds what it lacks.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Result;

use crate::process::{output, root};

/// Selections that stand for all: the lowest crate, those with few dependencies of their own, the store.
const SELECTIONS: &[&str] = &["sandur-base", "sandur-model", "sandur-cache", "sandur-logql", "sandur-store"];

/// Outside crates that are built otherwise for a selection than for the whole workspace: the selection, the
/// crate, and the features that the selection lacks.
pub fn differences() -> Result<Vec<(String, String, String)>> {
    let whole = features(&["--workspace"])?;
    let mut found = Vec::new();
    for selection in SELECTIONS {
        for (name, features) in features(&["-p", selection])? {
            let lacking: Vec<&str> = match whole.get(&name) {
                Some(all) => all.iter().filter(|one| !features.contains(one)).map(String::as_str).collect(),
                None => Vec::new(),
            };
            if !lacking.is_empty() {
                found.push(((*selection).to_owned(), name, lacking.join(",")));
            }
        }
    }
    Ok(found)
}

/// The features of each outside crate that a selection and its tests need.
fn features(selection: &[&str]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root()).args(["tree", "--offline", "--locked", "--prefix", "none"]);
    command.args(["--edges", "normal,dev", "--format", "{p}|{f}"]).args(selection);
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in output(&mut command)?.lines() {
        let line = line.trim_end_matches(" (*)");
        let Some((name, features)) = line.split_once('|').filter(|(name, _)| !name.contains('/')) else {
            continue;
        };
        let known = found.entry(name.trim_end_matches(" (proc-macro)").to_owned()).or_default();
        for feature in features.split(',').filter(|feature| !feature.is_empty()) {
            if !known.iter().any(|one| one == feature) {
                known.push(feature.to_owned());
            }
        }
    }
    Ok(found)
}
