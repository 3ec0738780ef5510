//! `json`: nodes by path; series include the time range in which they have values.

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::json::quoted;
use crate::error::Result;

pub(super) const FORMAT: FindFormat =
    FindFormat { name: "json", content_type: "application/json", is_json: true, write };

fn write(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    let layout = request.style();
    let (start, end) = request.interval();
    let part = |node: &&Node| {
        let mut members =
            vec![format!("\"path\": {}", quoted(&node.path)), format!("\"is_leaf\": {}", node.is_leaf)];
        if node.is_leaf {
            let times = [format!("\"start\": {start}"), format!("\"end\": {end}")];
            let interval = layout.join(('{', '}'), 3, &times);
            members.push(format!("\"intervals\": {}", layout.join(('[', ']'), 2, &[interval])));
        }
        layout.join(('{', '}'), 1, &members)
    };
    let mut nodes: Vec<&Node> = nodes.iter().collect();
    nodes.sort_by(|a, b| a.path.cmp(&b.path));
    let parts: Vec<String> = nodes.iter().map(part).collect();
    out.extend_from_slice(layout.join(('[', ']'), 0, &parts).as_bytes());
    Ok(())
}
