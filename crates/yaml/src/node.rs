//! Parses YAML to a tree with line numbers, so that every message can name a line.
//!
//! Depth, number of nodes and bytes of texts are bounded, also those that aliases repeat. A merge key (`<<`)
//! adds the keys of other maps, as in Go's parser, which Prometheus and Loki use.

use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::error::ConfigError;

/// The largest depth of a file.
const DEPTH_MAX: usize = 32;

/// The bounds of a tree. What aliases repeat counts each time.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most nodes.
    pub nodes: usize,
    /// The most bytes of all texts.
    pub bytes: usize,
}

impl Bounds {
    /// For files that an operator wrote.
    pub const FILE: Self = Self { nodes: 1_000_000, bytes: 64 << 20 };
    /// Estimated bytes of a node without its text.
    const NODE_BYTES: u64 = 128;

    /// For a text that a client sent: a node for every two bytes, and texts of twice its size. Texts without
    /// aliases stay below that.
    pub fn of_client(text: &str) -> Self {
        Self { nodes: 1_000 + text.len() / 2, bytes: 1_000 + text.len() * 2 }
    }

    /// The most memory of a tree within these bounds.
    pub fn memory(self) -> u64 {
        self.nodes as u64 * Self::NODE_BYTES + self.bytes as u64
    }
}

/// A value and the line where it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The line, from 1.
    pub line: usize,
    /// The value.
    pub data: Data,
}

/// The value of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// No value.
    Null,
    /// A text, a number or a switch, as it is written.
    Scalar(String),
    /// A list.
    List(Vec<Node>),
    /// Keys with their lines, in the order of the file.
    Map(Vec<(String, usize, Node)>),
}

/// A list or map whose end was not reached yet.
struct Open {
    line: usize,
    anchor: usize,
    items: Vec<Item>,
    is_map: bool,
}

/// A node with the size of its tree.
#[derive(Clone)]
struct Item {
    node: Node,
    nodes: usize,
    bytes: usize,
    height: usize,
    /// Whether it is the plain text `<<`.
    merges: bool,
}

impl Node {
    /// Parses one document of a file.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        Self::parse_within(text, Bounds::FILE)
    }

    /// Parses one document.
    pub fn parse_within(text: &str, bounds: Bounds) -> Result<Self, ConfigError> {
        let mut reader = Reader::new(bounds);
        for event in Parser::new_from_str(text) {
            let (event, span) =
                event.map_err(|error| ConfigError::at(error.marker().line(), error.info().to_owned()))?;
            reader.read(event, span.start.line())?;
        }
        Ok(reader.root.unwrap_or(Self { line: 1, data: Data::Null }))
    }
}

/// The state of the parser between two events.
struct Reader {
    bounds: Bounds,
    open: Vec<Open>,
    anchors: HashMap<usize, Item>,
    root: Option<Node>,
    nodes: usize,
    bytes: usize,
}

impl Reader {
    fn new(bounds: Bounds) -> Self {
        Self { bounds, open: Vec::new(), anchors: HashMap::new(), root: None, nodes: 0, bytes: 0 }
    }

    fn read(&mut self, event: Event<'_>, line: usize) -> Result<(), ConfigError> {
        let (item, anchor) = match event {
            Event::Scalar(text, style, anchor, _) => {
                let merges = style == ScalarStyle::Plain && text == "<<";
                let node = Node { line, data: scalar(&text, style) };
                (Item { node, nodes: 1, bytes: text.len(), height: 0, merges }, anchor)
            }
            Event::SequenceStart(anchor, _) => return self.begin(line, anchor, false),
            Event::MappingStart(anchor, _) => return self.begin(line, anchor, true),
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(ended) => {
                    let anchor = ended.anchor;
                    (ended.close()?, anchor)
                }
                None => return Ok(()),
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor) {
                // The limits are checked before the copy is made.
                Some(known) => {
                    self.check_size(known.nodes, known.bytes, line)?;
                    let copy = known.clone();
                    // `add` counts the node itself, or the text.
                    self.nodes += copy.nodes - 1;
                    self.bytes += if copy.nodes > 1 { copy.bytes } else { 0 };
                    (copy, 0)
                }
                None => return Err(ConfigError::at(line, "an alias refers to itself".to_owned())),
            },
            Event::DocumentStart(_) if self.root.is_some() => {
                return Err(ConfigError::at(line, "a second document".to_owned()));
            }
            _ => return Ok(()),
        };
        self.add(item, anchor, line)
    }

    fn begin(&mut self, line: usize, anchor: usize, is_map: bool) -> Result<(), ConfigError> {
        self.check_depth(1, line)?;
        self.open.push(Open { line, anchor, items: Vec::new(), is_map });
        Ok(())
    }

    fn check_depth(&self, more: usize, line: usize) -> Result<(), ConfigError> {
        match self.open.len() + more > DEPTH_MAX {
            true => Err(ConfigError::at(line, format!("more than {DEPTH_MAX} levels"))),
            false => Ok(()),
        }
    }

    fn check_size(&self, nodes: usize, bytes: usize, line: usize) -> Result<(), ConfigError> {
        let Bounds { nodes: nodes_max, bytes: bytes_max } = self.bounds;
        if self.nodes + nodes > nodes_max {
            return Err(ConfigError::at(line, format!("more than {nodes_max} values")));
        }
        match self.bytes + bytes > bytes_max {
            true => Err(ConfigError::at(line, format!("more than {bytes_max} bytes of texts"))),
            false => Ok(()),
        }
    }

    /// Adds a complete node to its parent.
    fn add(&mut self, item: Item, anchor: usize, line: usize) -> Result<(), ConfigError> {
        self.check_depth(item.height, line)?;
        // The nodes and texts inside of a list or map were counted when they were added.
        self.nodes += 1;
        self.bytes += if item.nodes == 1 { item.bytes } else { 0 };
        if anchor != 0 {
            self.nodes += item.nodes;
            self.bytes += item.bytes;
        }
        self.check_size(0, 0, line)?;
        if anchor != 0 {
            self.anchors.insert(anchor, item.clone());
        }
        match self.open.last_mut() {
            Some(parent) => parent.items.push(item),
            None => self.root = Some(item.node),
        }
        Ok(())
    }
}

impl Open {
    fn close(self) -> Result<Item, ConfigError> {
        let nodes = 1 + self.items.iter().map(|item| item.nodes).sum::<usize>();
        let bytes = self.items.iter().map(|item| item.bytes).sum();
        let height = 1 + self.items.iter().map(|item| item.height).max().unwrap_or(0);
        let Self { line, items, is_map, .. } = self;
        let data = match is_map {
            true => Data::Map(pairs(items)?),
            false => Data::List(items.into_iter().map(|item| item.node).collect()),
        };
        Ok(Item { node: Node { line, data }, nodes, bytes, height, merges: false })
    }
}

/// The pairs of a map. Own keys take precedence over merged ones.
fn pairs(items: Vec<Item>) -> Result<Vec<(String, usize, Node)>, ConfigError> {
    let mut pairs: Vec<(String, usize, Node)> = Vec::with_capacity(items.len() / 2);
    let (mut names, mut merged) = (HashSet::new(), Vec::new());
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        if key.merges {
            merged.push(value.node);
            continue;
        }
        let Data::Scalar(name) = key.node.data else {
            return Err(ConfigError::at(key.node.line, "a key is not a text".to_owned()));
        };
        if !names.insert(name.clone()) {
            return Err(ConfigError::at(key.node.line, format!("key '{name}' occurs twice")));
        }
        pairs.push((name, key.node.line, value.node));
    }
    for node in merged {
        let maps = match node.data {
            Data::List(maps) => maps,
            _ => vec![node],
        };
        for map in maps {
            let Data::Map(more) = map.data else {
                return Err(ConfigError::at(
                    map.line,
                    "map merge requires map or sequence of maps".to_owned(),
                ));
            };
            pairs.extend(more.into_iter().filter(|(name, ..)| names.insert(name.clone())));
        }
    }
    Ok(pairs)
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
    fn deep_nesting_and_duplicate_keys_are_refused() {
        for text in ["[".repeat(10_000), "- ".repeat(10_000), "{a: ".repeat(1_000)] {
            assert!(Node::parse(&text).is_err());
        }
        let error = Node::parse("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: key 'a' occurs twice");
    }

    #[test]
    fn aliases_and_merge_keys_repeat_values() {
        let node = Node::parse("a: &x {k: 1, l: 2}\nb: *x\nc:\n  <<: *x\n  l: 3\n").unwrap();
        let Data::Map(pairs) = node.data else { panic!() };
        assert_eq!(pairs[0].2, pairs[1].2);
        let Data::Map(merged) = &pairs[2].2.data else { panic!() };
        let values: Vec<_> = merged.iter().map(|(name, _, value)| (name.as_str(), &value.data)).collect();
        let text = |text: &str| Data::Scalar(text.to_owned());
        assert_eq!(values, [("l", &text("3")), ("k", &text("1"))]);
        assert!(Node::parse("a: &x [*x]").is_err(), "a value inside of itself");
        assert!(Node::parse("a: {<<: 1}").is_err());
        assert!(Node::parse("a: *x").is_err(), "an unknown anchor");
    }

    #[test]
    fn aliases_do_not_make_a_file_large_or_deep() {
        let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..20 {
            let before = format!("*a{}", n - 1);
            laughs += &format!("a{n}: &a{n} [{}]\n", [before.as_str(); 9].join(","));
        }
        assert!(Node::parse(&laughs).unwrap_err().what.contains("more than 1000000 values"));
        let repeated = format!("a: &x {}\nb: [{}]\n", "y".repeat(1 << 20), ["*x"; 1_000].join(","));
        assert!(Node::parse(&repeated).unwrap_err().what.contains("bytes of texts"));
        let plain = "- a: b\n  c: 'd'\n- {e: f, g: [h, i]}\n".repeat(500);
        assert!(Node::parse_within(&plain, Bounds::of_client(&plain)).is_ok());
        let short = format!("a: &x [{}]\nb: [{}]\n", ["k"; 1_000].join(","), ["*x"; 1_000].join(","));
        assert!(Node::parse_within(&short, Bounds::of_client(&short)).is_err());
        let mut deep = "- &a0 x\n".to_owned();
        (1..1_000).for_each(|n| deep += &format!("- &a{n} [*a{}]\n", n - 1));
        assert!(Node::parse(&deep).unwrap_err().what.contains("more than 32 levels"));
    }
}
