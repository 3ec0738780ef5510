//! Checks that external crates are built with the same features for every selection of packages.
//!
//! `cargo test -p CRATE` compiles a dependency again if the crate and the workspace need different
//! features of it. `crates/feature-set` makes these features equal; this check finds the ones that it
//! lacks.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::process::{cargo, output};

/// Representative selections: the lowest crates, crates with few dependencies of their own, and the
/// store.
const SELECTIONS: &[&str] =
    &["sandur-base", "sandur-runtime", "sandur-model", "sandur-cache", "sandur-logql", "sandur-store"];

/// Returns the external crates that a selection builds with fewer features than the complete workspace:
/// the selection, the crate, and the missing features.
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

/// Returns the features of each external crate that a selection and its tests need.
fn features(selection: &[&str]) -> Result<BTreeMap<String, Vec<String>>> {
    let mut command = cargo();
    command.args(["tree", "--offline", "--locked", "--prefix", "none"]);
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
