//! Reads rule files of Prometheus and Loki.
//!
//! **Invariants.** An unknown key, a wrong value, an invalid expression or template is an error with its
//! line. Nothing of a file with an error is used. All errors of a file are reported, not only the first.

mod canonical;
mod group;
mod reading;
mod rule;

use std::collections::HashSet;
use std::sync::Arc;

use sandur_yaml::{Bounds, ConfigError, Keys, Node};

use crate::spec::GroupSpec;
use reading::Errors;
pub use reading::{FileErrors, ReadOptions};

/// Reads the groups of a file.
pub fn read(text: &str, file: &Arc<str>, options: ReadOptions) -> Result<Vec<GroupSpec>, FileErrors> {
    let root = Node::parse(text)?;
    let mut errors = Errors::default();
    let mut keys = Keys::of(&root)?;
    let nodes = keys.list("groups")?;
    errors.note(keys.finish(&[], &mut Vec::new()));
    let mut names = HashSet::new();
    let mut groups = Vec::new();
    for node in nodes {
        let Some(group) = group::read(node, file, options, &mut errors) else { continue };
        if !names.insert(group.name.clone()) {
            let what = format!(
                "groupname: \"{}\" is repeated in the same file: give each group a name of its own",
                group.name
            );
            errors.add(node.line, what);
        }
        groups.push(group);
    }
    errors.finish().map(|()| groups)
}

/// Reads one group, as clients send it; also returns its text in the form that is stored.
pub fn read_group(
    text: &str,
    file: &Arc<str>,
    options: ReadOptions,
) -> Result<(GroupSpec, String), FileErrors> {
    let root = Node::parse_within(text, Bounds::of_client(text))?;
    let mut errors = Errors::default();
    let group = group::read(&root, file, options, &mut errors);
    errors.finish()?;
    match group {
        Some(group) => Ok((group, canonical::text_of(&root))),
        None => Err(ConfigError::at(root.line, "expected a group of rules".to_owned()).into()),
    }
}

#[cfg(test)]
mod tests;
