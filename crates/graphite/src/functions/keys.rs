//! Keys for grouping and naming series: nodes of their paths and values of their tags.

use sandur_memory::job::spend;

use crate::call::NodeOrTag;
use crate::combine::Groups;
use crate::error::{Error, Result};
use crate::grammar::parse;
use crate::series::Series;

/// An index into a list with Python's rules: a negative one counts from the end.
pub(super) fn place_in(length: usize, place: i64) -> Option<usize> {
    let place = if place < 0 { place.checked_add(length as i64)? } else { place };
    usize::try_from(place).ok().filter(|place| *place < length)
}

/// A bound of a slice with Python's rules: a negative one counts from the end.
pub(super) fn bound_in(length: usize, place: i64) -> usize {
    let place = if place < 0 { place.saturating_add(length as i64).max(0) } else { place };
    usize::try_from(place).unwrap_or(usize::MAX).min(length)
}

/// `list[:count]`
pub(super) fn take_first<T>(mut list: Vec<T>, count: i64) -> Vec<T> {
    list.truncate(bound_in(list.len(), count));
    list
}

fn node_or_tag<'a>(series: &'a Series, nodes: &[&'a str], wanted: &NodeOrTag) -> &'a str {
    match wanted {
        NodeOrTag::Node(place) => {
            let node = place_in(nodes.len(), *place).map(|place| nodes[place]);
            node.unwrap_or_else(|| series.tags.get(&place.to_string()).unwrap_or_default())
        }
        NodeOrTag::Tag(tag) => series.tags.get(tag).unwrap_or_default(),
    }
}

/// The longest key, in bytes: a request may list the same nodes many times.
const KEY_BYTES_MAX: usize = 64 << 10;

/// The nodes and tags of a series, joined by dots. Of a name that looks like a function call, the first
/// path in it is used.
pub(super) fn aggregation_key(series: &Series, nodes: &[NodeOrTag]) -> Result<String> {
    let parsed;
    let mut path = series.name.as_str();
    if path.is_empty() {
        return Err(Error::invalid("a series without a name has no nodes"));
    }
    if path.ends_with(')') {
        parsed = parse(path)?;
        path = parsed.first_path().unwrap_or(path);
    }
    spend(path.len() + nodes.len() * (series.tags.len() + 1))?;
    let of_path: Vec<&str> = path.split(';').next().unwrap_or_default().split('.').collect();
    let parts: Vec<&str> = nodes.iter().map(|wanted| node_or_tag(series, &of_path, wanted)).collect();
    let bytes = parts.iter().map(|part| part.len() + 1).sum::<usize>();
    if bytes > KEY_BYTES_MAX {
        return Err(Error::Limit(format!(
            "nodes and tags make a name of {bytes} bytes, more than {KEY_BYTES_MAX}"
        )));
    }
    Ok(parts.join("."))
}

/// Groups series by key, in the order of the first series of each group.
pub(super) fn group_by_key(list: Vec<Series>, nodes: &[NodeOrTag]) -> Result<Groups<Vec<Series>>> {
    let mut groups = Groups::<Vec<Series>>::new();
    for series in list {
        let key = aggregation_key(&series, nodes)?;
        groups.of(&key).push(series);
    }
    Ok(groups)
}
