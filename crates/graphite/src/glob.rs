//! Patterns of paths: each node of a path is matched alone.
//!
//! Braces are alternatives and are written out first; `*`, `?` and `[..]` are what Python's `fnmatch` takes
//! them for. A pattern without these matches by equality. `**` as a whole node is any number of levels.
//! graphite-web looks for paths in directories, where an empty name is the directory itself: see
//! [`Pattern::without_empty_nodes`].

use std::sync::Arc;

use foldhash::{HashSet, HashSetExt};
use sandur_base::Stopped;
use sandur_base::job::spend;
use sandur_model::{FormPiece, SignSet, TextForm, TextForms};
use sandur_query::Error as QueryError;

use crate::error::{Error, Result};

/// Most alternatives that the braces of a pattern may make, of all its nodes together.
const VARIANTS_MAX: usize = 4096;
/// Most bytes that are written for these alternatives. A byte becomes a piece of up to 32.
const VARIANT_BYTES_MAX: usize = 256 << 10;
/// Longest pattern of a path.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// Most nodes of a pattern.
const NODES_MAX: usize = 256;

/// Most nodes that stand for any number of levels: each multiplies the ways to match.
const LEVELS_MAX: usize = 3;
/// Most patterns that one with empty alternatives stands for.
const WITHOUT_EMPTY_MAX: usize = 64;

/// The pattern of a path.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Arc<str>,
    nodes: Vec<NodePattern>,
    /// Nodes that were asked for with an escaped sign, without their backslashes, by place.
    escaped: Arc<[(usize, String)]>,
}

/// One of the patterns that a pattern with empty nodes stands for.
#[derive(Clone, Debug)]
pub(crate) struct WithoutEmpty {
    /// A pattern without empty nodes; it has no node at the root of all paths.
    pub(crate) pattern: Pattern,
    /// Whether only branches fit, which are shown with a dot at the end.
    pub(crate) ends_with_dot: bool,
}

/// The pattern of one node of a path.
#[derive(Clone, Debug)]
pub enum NodePattern {
    /// Any number of nodes.
    Levels,
    /// One node that one of these matches.
    Node(Alternatives),
}

/// Patterns of a node without braces.
#[derive(Clone, Debug)]
pub struct Alternatives {
    variants: Arc<[Variant]>,
    forms: TextForms,
}

/// A pattern without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Variant {
    /// This very name.
    Exact(String),
    /// Names of a form.
    Glob(Glob),
}

/// A form of names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Char(char),
    One,
    Any,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Pattern {
    /// Reads a pattern. Backslashes mean nothing.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(Error::Limit(format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes")));
        }
        let clean = text.replace('\\', "");
        if clean.matches('.').count() >= NODES_MAX {
            return Err(Error::Limit(format!("the pattern has more than {NODES_MAX} nodes")));
        }
        if clean.split('.').filter(|node| *node == "**").count() > LEVELS_MAX {
            return Err(Error::Limit(format!("the pattern has ** more than {LEVELS_MAX} times")));
        }
        let (mut nodes, mut room) = (Vec::new(), Room::default());
        for node in clean.split('.') {
            nodes.push(NodePattern::parse(node, &mut room)?);
        }
        if matches!(nodes.last(), Some(NodePattern::Levels)) {
            nodes.push(NodePattern::parse("*", &mut room)?);
        }
        let is_escaped = |asked: &str| ["\\*", "\\?", "\\[", "\\{"].iter().any(|sign| asked.contains(sign));
        let asked = text.split('.').zip(clean.split('.')).enumerate();
        let escaped = asked.filter(|(_, (asked, _))| is_escaped(asked));
        let escaped = escaped.map(|(place, (_, clean))| (place, clean.to_owned())).collect();
        Ok(Self { text: text.into(), nodes, escaped })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[NodePattern] {
        &self.nodes
    }

    /// Whether a path fits. Any number of levels is none at the begin of a path.
    pub fn matches(&self, path: &str) -> bool {
        fn fits(nodes: &[NodePattern], path: &[&str]) -> bool {
            match (nodes.split_first(), path.split_first()) {
                (None, rest) => rest.is_none(),
                (Some((NodePattern::Levels, others)), rest) => {
                    fits(others, path) || rest.is_some_and(|(_, deeper)| fits(nodes, deeper))
                }
                (Some((node, others)), Some((name, rest))) => node.matches(name) && fits(others, rest),
                (Some(_), None) => false,
            }
        }
        let path: Vec<&str> = path.split('.').take(NODES_MAX).collect();
        let leads = usize::from(matches!(self.nodes.first(), Some(NodePattern::Levels)));
        fits(&self.nodes[leads..], &path)
    }

    /// Whether it is that of the root, which has no name: no number of levels is any at the begin of a path.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.nodes.as_slice(), [] | [NodePattern::Levels])
    }

    /// The patterns that this one stands for where an empty name is no level: `a..b` and `a.{}.b` are `a.b`,
    /// and `a.{b,}.c` is `a.b.c` or `a.c`. An empty name at the end is a branch itself: `a.` is the branch
    /// `a`.
    pub(crate) fn without_empty_nodes(&self) -> std::result::Result<Vec<WithoutEmpty>, QueryError> {
        let start = Self { nodes: Vec::new(), ..self.clone() };
        let mut done = vec![WithoutEmpty { pattern: start, ends_with_dot: false }];
        for node in &self.nodes {
            let (is_needed, is_empty) = (node.has_name(), node.takes_empty());
            if is_empty && is_needed && done.len() * 2 > WITHOUT_EMPTY_MAX {
                return Err(QueryError::Limit(format!(
                    "the empty alternatives of the pattern make more than {WITHOUT_EMPTY_MAX} patterns; ask \
                     in several patterns"
                )));
            }
            let without = done.iter().filter(|_| is_empty).cloned();
            let without: Vec<_> = without.map(|one| WithoutEmpty { ends_with_dot: true, ..one }).collect();
            done.retain(|_| is_needed);
            for one in &mut done {
                one.pattern.nodes.push(node.clone());
                one.ends_with_dot = false;
            }
            done.extend(without);
        }
        Ok(done)
    }

    /// How many alternatives a path is compared with at most, about.
    pub(crate) fn alternatives(&self) -> usize {
        self.nodes.iter().map(NodePattern::alternatives).sum()
    }

    /// The path that a client is told for one that was found: nodes that were asked for with an escaped sign
    /// keep the sign. In a job that was stopped (see [`sandur_base::job`]) there is none.
    pub fn shown(&self, path: String) -> String {
        if self.escaped.is_empty() {
            return path;
        }
        let mut nodes: Vec<&str> = path.split('.').collect();
        for (place, asked) in self.escaped.iter() {
            if let Some(node) = nodes.get_mut(*place) {
                *node = asked;
            }
        }
        match spend(nodes.iter().map(|node| node.len() + 1).sum()) {
            Ok(()) => nodes.join("."),
            Err(Stopped) => String::new(),
        }
    }
}

impl NodePattern {
    fn parse(text: &str, room: &mut Room) -> Result<Self> {
        if text == "**" {
            return Ok(Self::Levels);
        }
        let variants: Arc<[Variant]> =
            alternatives(text, room)?.iter().map(|text| Variant::parse(text)).collect();
        let forms = TextForms::new(variants.iter().map(Variant::form).collect())?;
        Ok(Self::Node(Alternatives { variants, forms }))
    }

    /// Whether one node with this name fits. In a job that was stopped (see [`sandur_base::job`]) the answer
    /// is of no use and is dropped.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Levels => true,
            Self::Node(alternatives) => alternatives.forms.matches(name).unwrap_or(false),
        }
    }

    /// Whether an empty name is one of the alternatives.
    fn takes_empty(&self) -> bool {
        let Self::Node(Alternatives { variants, .. }) = self else { return false };
        variants.iter().any(Variant::is_empty)
    }

    /// Whether there is another alternative than the empty name.
    fn has_name(&self) -> bool {
        let Self::Node(Alternatives { variants, .. }) = self else { return true };
        !variants.iter().all(Variant::is_empty)
    }

    /// How many alternatives a name is compared with at most.
    pub(crate) fn alternatives(&self) -> usize {
        match self {
            Self::Levels => 1,
            Self::Node(alternatives) => alternatives.variants.len(),
        }
    }

    /// Whether every name fits.
    pub fn is_any(&self) -> bool {
        let Self::Node(Alternatives { variants, .. }) = self else { return true };
        variants.iter().any(|variant| matches!(variant, Variant::Glob(glob) if glob.0 == [Piece::Any]))
    }

    /// The names that fit, when they can be listed.
    pub fn exact(&self) -> Option<Vec<&str>> {
        let Self::Node(Alternatives { variants, .. }) = self else { return None };
        let names = variants.iter().map(|variant| match variant {
            Variant::Exact(name) => Some(name.as_str()),
            Variant::Glob(_) => None,
        });
        names.collect()
    }

    /// A regular expression of label matchers that takes the names that fit, the empty one left out; nothing
    /// when there is none.
    pub(crate) fn regex(&self) -> Option<String> {
        let Self::Node(Alternatives { variants, .. }) = self else { return None };
        let parts: Vec<String> = variants.iter().filter_map(Variant::regex).collect();
        (!parts.is_empty()).then(|| parts.join("|"))
    }
}

/// What the alternatives of a pattern have taken of [`VARIANTS_MAX`] and [`VARIANT_BYTES_MAX`].
#[derive(Default)]
struct Room {
    variants: usize,
    bytes: usize,
}

impl Room {
    fn take(&mut self, variants: usize, bytes: usize, text: &str) -> Result<()> {
        self.variants += variants;
        self.bytes += bytes;
        let most = match (self.variants > VARIANTS_MAX, self.bytes > VARIANT_BYTES_MAX) {
            (false, false) => return Ok(()),
            (true, _) => format!("make more than {VARIANTS_MAX} alternatives"),
            (false, true) => format!("make alternatives of more than {VARIANT_BYTES_MAX} bytes"),
        };
        let begin = &text[..text.floor_char_boundary(100)];
        Err(Error::Limit(format!("the braces of the pattern {most}, in '{begin}'; ask in several patterns")))
    }
}

/// Writes braces out, the innermost first; each text comes once.
fn alternatives(text: &str, room: &mut Room) -> Result<Vec<String>> {
    let (mut done, mut open, mut known) = (Vec::new(), vec![text.to_owned()], HashSet::new());
    while let Some(next) = open.pop() {
        let Some((begin, end)) = innermost(&next) else {
            room.take(1, 0, text)?;
            done.push(next);
            continue;
        };
        for part in next[begin + 1..end].split(',') {
            let bytes = begin + part.len() + next.len() - end - 1;
            room.take(0, bytes, text)?;
            let written = format!("{}{part}{}", &next[..begin], &next[end + 1..]);
            if known.insert(written.clone()) {
                open.push(written);
            }
        }
    }
    Ok(done)
}

/// The first pair of braces without braces in it.
fn innermost(text: &str) -> Option<(usize, usize)> {
    let mut begin = None;
    for (at, byte) in text.bytes().enumerate() {
        match (byte, begin) {
            (b'{', _) => begin = Some(at),
            (b'}', Some(begin)) => return Some((begin, at)),
            _ => {}
        }
    }
    None
}

impl Variant {
    fn parse(text: &str) -> Self {
        match text.contains(['*', '?', '[']) {
            true => Self::Glob(Glob::parse(text)),
            false => Self::Exact(text.to_owned()),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Exact(name) if name.is_empty())
    }

    fn form(&self) -> TextForm {
        let mut form = TextForm::default();
        match self {
            Self::Exact(name) => form.push(FormPiece::Text(name.clone())),
            Self::Glob(Glob(pieces)) => pieces.iter().for_each(|piece| form.push(piece.form())),
        }
        form
    }

    fn regex(&self) -> Option<String> {
        match self {
            Self::Exact(name) => (!name.is_empty()).then(|| regex::escape(name)),
            Self::Glob(Glob(pieces)) if pieces.as_slice() == [Piece::Any] => Some(".+".to_owned()),
            Self::Glob(Glob(pieces)) => pieces.iter().map(Piece::regex).collect(),
        }
    }
}

impl Glob {
    fn parse(text: &str) -> Self {
        let signs: Vec<char> = text.chars().collect();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(&sign) = signs.get(at) {
            at += 1;
            let piece = match sign {
                '*' => Piece::Any,
                '?' => Piece::One,
                '[' => match class_end(&signs, at) {
                    Some(end) => {
                        let piece = class(&signs[at..end]);
                        at = end + 1;
                        piece
                    }
                    None => Piece::Char('['),
                },
                other => Piece::Char(other),
            };
            if piece != Piece::Any || pieces.last() != Some(&Piece::Any) {
                pieces.push(piece);
            }
        }
        Self(pieces)
    }
}

impl Piece {
    fn regex(&self) -> Option<String> {
        let sign = |sign: char| match sign.is_ascii_alphanumeric() {
            true => sign.to_string(),
            false => format!("\\x{{{:x}}}", u32::from(sign)),
        };
        match self {
            Self::Char(own) => Some(regex::escape(&own.to_string())),
            Self::One => Some(".".to_owned()),
            Self::Any => Some(".*".to_owned()),
            Self::Class { negated, ranges } => {
                let ranges = ranges.iter().filter(|(low, high)| low <= high);
                let parts = ranges.map(|(low, high)| match low == high {
                    true => sign(*low),
                    false => format!("{}-{}", sign(*low), sign(*high)),
                });
                match (negated, parts.collect::<String>()) {
                    (false, parts) if parts.is_empty() => None,
                    (true, parts) if parts.is_empty() => Some(".".to_owned()),
                    (false, parts) => Some(format!("[{parts}]")),
                    (true, parts) => Some(format!("[^{parts}]")),
                }
            }
        }
    }

    fn form(&self) -> FormPiece {
        match self {
            Self::Char(own) => FormPiece::Text(own.to_string()),
            Self::One => FormPiece::One(SignSet::Any),
            Self::Any => FormPiece::Many(SignSet::Any),
            Self::Class { negated, ranges } => {
                FormPiece::One(SignSet::Ranges { negated: *negated, ranges: ranges.as_slice().into() })
            }
        }
    }
}

/// Where the bracket that closes a class is. One that comes first belongs to the class.
fn class_end(signs: &[char], from: usize) -> Option<usize> {
    let mut at = from;
    at += usize::from(signs.get(at) == Some(&'!'));
    at += usize::from(signs.get(at) == Some(&']'));
    (at..signs.len()).find(|at| signs[*at] == ']')
}

fn class(signs: &[char]) -> Piece {
    let negated = signs.first() == Some(&'!');
    let signs = &signs[usize::from(negated)..];
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Some(&low) = signs.get(at) {
        match (signs.get(at + 1), signs.get(at + 2)) {
            (Some('-'), Some(&high)) => {
                ranges.push((low, high));
                at += 3;
            }
            _ => {
                ranges.push((low, low));
                at += 1;
            }
        }
    }
    Piece::Class { negated, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        NodePattern::parse(pattern, &mut Room::default()).unwrap().matches(name)
    }

    #[test]
    fn a_node_is_matched_as_fnmatch_does() {
        for (pattern, name) in [
            ("web*", "web01"),
            ("w?b*1", "web01"),
            ("web0[1-3]", "web02"),
            ("web0[!1]", "web02"),
            ("{web,db}{1,2}", "db2"),
            ("a{b{c,d},e}", "abd"),
            ("[", "["),
            ("[]]", "]"),
            ("a{", "a{"),
            ("*é*", "café1"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("web0[^1]", "web02"), ("web", "web01"), ("*a*b", "aab0"), ("[z-a]", "m")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn braces_that_make_too_many_alternatives_are_refused() {
        let error = Pattern::parse(&"{a,b}".repeat(20)).unwrap_err();
        assert!(error.to_string().contains("4096"), "{error}");
        let long = format!("{}{}", "{a,b}".repeat(10), "x".repeat(60_000));
        assert!(Pattern::parse(&long).unwrap_err().to_string().contains("262144"));
        // The nodes of a pattern share what one may have.
        let wide = vec!["*{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"; 200].join(".");
        assert!(Pattern::parse(&wide).unwrap_err().to_string().contains("ask in several patterns"));
        let hosts: Vec<String> = (0..4_000).map(|host| format!("host{host}")).collect();
        assert!(Pattern::parse(&format!("servers.{{{}}}.cpu", hosts.join(","))).is_ok());
        assert!(Pattern::parse(&"a.".repeat(300)).is_err());
        assert!(!matches(&"a*".repeat(2000), &"a".repeat(1999)));
    }

    #[test]
    fn an_alternative_that_is_made_twice_stands_once() {
        let Pattern { nodes, .. } = Pattern::parse("{a,a,b}{,}*.{x,{x,y}}").unwrap();
        let counts = nodes.iter().map(|node| match node {
            NodePattern::Levels => 0,
            NodePattern::Node(alternatives) => alternatives.variants.len(),
        });
        assert_eq!(counts.collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn an_empty_node_is_no_level_as_in_directories() {
        let readings = |text: &str| -> Vec<(usize, bool)> {
            let all = Pattern::parse(text).unwrap().without_empty_nodes().unwrap();
            all.iter().map(|one| (one.pattern.nodes.len(), one.ends_with_dot)).collect()
        };
        for (text, expected) in [
            ("a.b", vec![(2, false)]),
            ("a.", vec![(1, true)]),
            ("a.{}", vec![(1, true)]),
            ("a...", vec![(1, true)]),
            ("a..b", vec![(2, false)]),
            (".", vec![(0, true)]),
            ("a.{b,}", vec![(2, false), (1, true)]),
            ("a.{b,}.c", vec![(3, false), (2, false)]),
            ("**.", vec![(1, true)]),
        ] {
            assert_eq!(readings(text), expected, "{text}");
        }
        assert_eq!(readings(&["{a,}"; 6].join(".")).len(), 64);
        let wide = Pattern::parse(&["{a,}"; 7].join(".")).unwrap();
        assert!(wide.without_empty_nodes().unwrap_err().to_string().contains("64"));
    }

    #[test]
    fn an_escaped_sign_is_shown_as_it_was_asked() {
        let pattern = Pattern::parse(r"a.b\*.c").unwrap();
        assert_eq!(pattern.shown("a.bx.c".to_owned()), "a.b*.c");
    }
}
