//! `completer`: completions of a path that is being typed.

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::json::quoted;
use crate::error::Result;

pub(super) const FORMAT: FindFormat =
    FindFormat { name: "completer", content_type: "application/json", is_json: true, write };

fn write(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    let layout = request.style();
    let part = |node: &Node| {
        let point = if node.is_leaf { "" } else { "." };
        let members = [
            format!("\"path\": {}", quoted(&format!("{}{point}", node.path))),
            format!("\"name\": {}", quoted(node.name())),
            format!("\"is_leaf\": \"{}\"", u8::from(node.is_leaf)),
        ];
        layout.join(('{', '}'), 2, &members)
    };
    let mut parts: Vec<String> = nodes.iter().map(part).collect();
    if parts.len() > 1 && request.wildcards {
        parts.push(layout.join(('{', '}'), 2, &["\"name\": \"*\"".to_owned()]));
    }
    let metrics = format!("\"metrics\": {}", layout.join(('[', ']'), 1, &parts));
    out.extend_from_slice(layout.join(('{', '}'), 0, &[metrics]).as_bytes());
    Ok(())
}
