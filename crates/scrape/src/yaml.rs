//! Parses YAML to a tree with line numbers, so that every message can name a line.
//!
//! Depth and number of nodes are bounded. Anchors and aliases are not supported, because they let a file
//! expand without bound.

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::config::ConfigError;

/// The largest depth of a file.
const DEPTH_MAX: usize = 32;
/// The largest number of nodes of a file.
const NODES_MAX: usize = 1_000_000;

/// A value and the line where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Null,
    Scalar(String),
    List(Vec<Node>),
    /// Keys with their lines, in the order of the file.
    Map(Vec<(String, usize, Node)>),
}

/// A list or map whose end was not reached yet.
struct Open {
    line: usize,
    items: Vec<Node>,
    is_map: bool,
}

impl Node {
    /// Parses one document.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut open: Vec<Open> = Vec::new();
        let (mut root, mut nodes) = (None, 0usize);
        for event in Parser::new_from_str(text) {
            let (event, span) =
                event.map_err(|error| ConfigError::at(error.marker().line(), error.info().to_owned()))?;
            let line = span.start.line();
            nodes += 1;
            if nodes > NODES_MAX {
                return Err(ConfigError::at(line, format!("more than {NODES_MAX} values")));
            }
            let node = match event {
                Event::Scalar(text, style, ..) => Node { line, data: scalar(&text, style) },
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    if open.len() >= DEPTH_MAX {
                        return Err(ConfigError::at(line, format!("more than {DEPTH_MAX} levels")));
                    }
                    let is_map = matches!(event, Event::MappingStart(..));
                    open.push(Open { line, items: Vec::new(), is_map });
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                    Some(ended) => ended.close()?,
                    None => continue,
                },
                Event::Alias(_) => {
                    return Err(ConfigError::at(line, "anchors and aliases are not supported".to_owned()));
                }
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(ConfigError::at(line, "a second document".to_owned()));
                }
                _ => continue,
            };
            match open.last_mut() {
                Some(parent) => parent.items.push(node),
                None => root = Some(node),
            }
        }
        Ok(root.unwrap_or(Node { line: 1, data: Data::Null }))
    }
}

impl Open {
    fn close(self) -> Result<Node, ConfigError> {
        let Self { line, items, is_map } = self;
        if !is_map {
            return Ok(Node { line, data: Data::List(items) });
        }
        let mut pairs: Vec<(String, usize, Node)> = Vec::with_capacity(items.len() / 2);
        let mut names = std::collections::HashSet::new();
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            let Data::Scalar(name) = key.data else {
                return Err(ConfigError::at(key.line, "a key is not a text".to_owned()));
            };
            if !names.insert(name.clone()) {
                return Err(ConfigError::at(key.line, format!("key '{name}' occurs twice")));
            }
            pairs.push((name, key.line, value));
        }
        Ok(Node { line, data: Data::Map(pairs) })
    }
}

fn scalar(text: &str, style: ScalarStyle) -> Data {
    match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => Data::Null,
        _ => Data::Scalar(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_know_their_lines() {
        let node = Node::parse("a:\n  - b\n  - c: 1\nd: ''\ne:\n").unwrap();
        let Data::Map(pairs) = node.data else { panic!() };
        let keys: Vec<(&str, usize)> = pairs.iter().map(|(name, line, _)| (name.as_str(), *line)).collect();
        assert_eq!(keys, [("a", 1), ("d", 4), ("e", 5)]);
        assert_eq!(pairs[1].2.data, Data::Scalar(String::new()), "a quoted text is a text");
        assert_eq!(pairs[2].2.data, Data::Null);
    }

    #[test]
    fn deep_nesting_aliases_and_duplicate_keys_are_refused() {
        for text in
            ["[".repeat(10_000), "- ".repeat(10_000), "{a: ".repeat(1_000), "a: &x 1\nb: *x".to_owned()]
        {
            assert!(Node::parse(&text).is_err());
        }
        let error = Node::parse("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: key 'a' occurs twice");
    }
}
