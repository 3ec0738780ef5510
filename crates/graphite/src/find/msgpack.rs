//! `msgpack`: nodes in the form that graphite-web servers exchange.

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::msgpack::{flag, integer, list, map, text};
use crate::error::Result;

pub(super) const FORMAT: FindFormat =
    FindFormat { name: "msgpack", content_type: "application/x-msgpack", is_json: false, write };

fn write(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    let (start, end) = request.interval();
    list(out, nodes.len())?;
    for node in nodes {
        map(out, if node.is_leaf { 3 } else { 2 })?;
        text(out, "path")?;
        text(out, &node.path)?;
        text(out, "is_leaf")?;
        flag(out, node.is_leaf);
        if node.is_leaf {
            text(out, "intervals")?;
            list(out, 1)?;
            list(out, 2)?;
            integer(out, start);
            integer(out, end);
        }
    }
    Ok(())
}
