//! Reads a group.

use std::sync::Arc;

use sandur_yaml::{Data, Keys, Node};

use super::reading::{Errors, ReadOptions, duration, language, pairs};
use super::rule;
use crate::spec::GroupSpec;

/// Reads a group. What is wrong goes to `errors`; `None` if nothing of the group could be read.
pub(super) fn read(
    node: &Node,
    file: &Arc<str>,
    options: ReadOptions,
    errors: &mut Errors,
) -> Option<GroupSpec> {
    let mut keys = errors.note(Keys::of(node))?;
    let name = errors.note(keys.text("name"))?.unwrap_or_default();
    if name.is_empty() {
        errors.add(node.line, "Groupname must not be empty: add a key `name`");
    }
    let interval = duration(&mut keys, "interval", errors).filter(|interval| !interval.is_zero());
    let query_offset = duration(&mut keys, "query_offset", errors).unwrap_or_default();
    let limit = limit(&mut keys, errors);
    let language = language(&mut keys, errors).unwrap_or(options.language);
    let labels = pairs(&mut keys, "labels", errors);
    rule::check_labels(&labels, errors);
    let nodes = errors.note(keys.list("rules")).unwrap_or_default();
    errors.note(keys.finish(&[], &mut Vec::new()));
    let rules = nodes.iter().filter_map(|node| rule::read(node, language, &labels, errors)).collect();
    let interval = interval.unwrap_or(options.interval);
    Some(GroupSpec { name, file: Arc::clone(file), interval, limit, query_offset, rules })
}

fn limit(keys: &mut Keys<'_>, errors: &mut Errors) -> usize {
    let Some(node) = keys.take("limit") else { return 0 };
    let number = match &node.data {
        Data::Scalar(text) => text.parse::<i64>().ok(),
        _ => None,
    };
    match number {
        Some(number) => usize::try_from(number).unwrap_or(0),
        None => {
            errors.add(node.line, "limit: expected a whole number");
            0
        }
    }
}
