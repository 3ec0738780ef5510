//! `nodelist`: the distinct names of the nodes at one position of the paths.

use std::collections::BTreeSet;

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::json::quoted;
use crate::error::{Error, Result};

pub(super) const FORMAT: FindFormat =
    FindFormat { name: "nodelist", content_type: "application/json", is_json: true, write };

fn write(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    let mut names = BTreeSet::new();
    for node in nodes {
        let found = match usize::try_from(request.position) {
            Ok(place) => node.path.split('.').nth(place),
            Err(_) => {
                let from_end = request.position.unsigned_abs() - 1;
                node.path.rsplit('.').nth(usize::try_from(from_end).unwrap_or(usize::MAX))
            }
        };
        let wrong = || Error::invalid(format!("'{}' has no node {}", node.path, request.position));
        names.insert(found.ok_or_else(wrong)?);
    }
    let layout = request.style();
    let names: Vec<String> = names.into_iter().map(quoted).collect();
    let names = format!("\"nodes\": {}", layout.join(('[', ']'), 1, &names));
    out.extend_from_slice(layout.join(('{', '}'), 0, &[names]).as_bytes());
    Ok(())
}
