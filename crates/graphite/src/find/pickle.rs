//! `pickle`: nodes in the form that older graphite-web servers exchange, with lists for intervals, so that
//! reading it needs no class.

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::pickle::{
    begin, begin_dictionary, begin_list, end, end_dictionary, end_list, end_pair, flag, integer, text,
};
use crate::error::Result;

pub(super) const FORMAT: FindFormat =
    FindFormat { name: "pickle", content_type: "application/pickle", is_json: false, write };

fn write(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    let (from, until) = request.interval();
    begin(out);
    begin_list(out);
    for node in nodes {
        begin_dictionary(out);
        // Versions before 1.0 and clients of carbonserver use the second name of each field.
        for (name, older) in [("path", "metric_path"), ("is_leaf", "isLeaf")] {
            for name in [name, older] {
                text(out, name)?;
                match name {
                    "path" | "metric_path" => text(out, &node.path)?,
                    _ => flag(out, node.is_leaf),
                }
            }
        }
        if node.is_leaf {
            text(out, "intervals")?;
            begin_list(out);
            integer(out, from);
            integer(out, until);
            end_pair(out);
            end_list(out);
        }
        end_dictionary(out);
    }
    end_list(out);
    end(out);
    Ok(())
}
