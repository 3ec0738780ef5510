//! `treejson`: nodes in the form of Graphite's dashboard and Grafana, branches first.

use std::collections::HashSet;

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::json::quoted;
use crate::error::Result;

pub(super) const FORMAT: FindFormat =
    FindFormat { name: "treejson", content_type: "application/json", is_json: true, write };

fn write(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    let (layout, base) = (request.style(), request.base());
    let part = |text: &str, name: &str, is_leaf: bool| {
        let (leaf, branch) = (u8::from(is_leaf), u8::from(!is_leaf));
        let members = [
            format!("\"text\": {}", quoted(text)),
            format!("\"id\": {}", quoted(&format!("{base}{name}"))),
            format!("\"allowChildren\": {branch}"),
            format!("\"expandable\": {branch}"),
            format!("\"leaf\": {leaf}"),
        ];
        layout.join(('{', '}'), 1, &members)
    };
    let (mut first, mut leaves) = (Vec::new(), Vec::new());
    if nodes.len() > 1 && request.wildcards {
        first.push(part("*", "*", nodes.iter().all(|node| node.is_leaf)));
    }
    let mut seen = HashSet::new();
    for node in nodes.iter().filter(|node| seen.insert(node.name())) {
        let list = if node.is_leaf { &mut leaves } else { &mut first };
        list.push(part(&unquoted(node.name()), node.name(), node.is_leaf));
    }
    first.append(&mut leaves);
    out.extend_from_slice(layout.join(('[', ']'), 0, &first).as_bytes());
    Ok(())
}

/// Decodes `+` and `%41` in a name, as in a URL.
fn unquoted(name: &str) -> String {
    if !name.contains(['+', '%']) {
        return name.to_owned();
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let (bytes, mut read, mut at) = (name.as_bytes(), Vec::with_capacity(name.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                read.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', _, _) => read.push(b' '),
            (byte, _, _) => read.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&read).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_with_url_decoding() {
        for (name, shown) in [("a+b", "a b"), ("100%x", "100%x"), ("%41%c3%a9%", "Aé%"), ("%ff", "\u{fffd}")]
        {
            assert_eq!(unquoted(name), shown);
        }
    }
}
