//! Patterns of paths; each node of a path is matched separately.
//!
//! Braces are alternatives, which are expanded first. `*`, `?` and `[..]` have their meaning in Python's
//! `fnmatch`. A pattern without any of these matches by equality. `**` as a complete node matches any
//! number of levels. graphite-web finds paths in directories, where an empty name is the directory itself:
//! see [`Pattern::without_empty_nodes`].

use std::sync::Arc;

use foldhash::{HashSet, HashSetExt};
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::{CharSet, FormPiece, TextForm, TextForms};
use sandur_query::Error as QueryError;

use crate::error::{Error, Result};

/// The most alternatives of a pattern's braces, over all nodes together.
const VARIANTS_MAX: usize = 4096;
/// The most bytes of these alternatives. One byte becomes a matcher piece of up to 32 bytes.
const VARIANT_BYTES_MAX: usize = 256 << 10;
/// The longest pattern of a path, in bytes.
const PATTERN_BYTES_MAX: usize = 64 << 10;
/// The most nodes of a pattern.
const NODES_MAX: usize = 256;

/// The most `**` nodes: each multiplies the ways to match.
const LEVELS_MAX: usize = 3;
/// The most patterns to which empty alternatives may expand.
const WITHOUT_EMPTY_MAX: usize = 64;

/// A pattern of paths.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: Arc<str>,
    nodes: Vec<NodePattern>,
    /// Nodes that the client wrote with an escaped character, without their backslashes, by index.
    escaped: Arc<[(usize, String)]>,
}

/// One of the patterns to which a pattern with empty nodes expands.
#[derive(Clone, Debug)]
pub(crate) struct WithoutEmpty {
    /// The pattern, without empty nodes; without any node it matches the root.
    pub(crate) pattern: Pattern,
    /// Whether it matches only branches, which are shown with a trailing dot.
    pub(crate) ends_with_dot: bool,
}

/// The pattern of one node.
#[derive(Clone, Debug)]
pub enum NodePattern {
    /// `**`: any number of nodes.
    Levels,
    /// One node that matches one of the alternatives.
    Node(Alternatives),
}

/// The alternatives of a node, without braces.
#[derive(Clone, Debug)]
pub struct Alternatives {
    variants: Arc<[Variant]>,
    forms: TextForms,
}

/// A pattern without braces.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Variant {
    /// Matches this name.
    Exact(String),
    /// Matches names by wildcards.
    Glob(Glob),
}

/// A pattern with wildcards.
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
    /// Parses a pattern. Backslashes have no special meaning.
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
        let (mut nodes, mut room) = (Vec::new(), Expansion::default());
        for node in clean.split('.') {
            nodes.push(NodePattern::parse(node, &mut room)?);
        }
        if matches!(nodes.last(), Some(NodePattern::Levels)) {
            nodes.push(NodePattern::parse("*", &mut room)?);
        }
        let is_escaped =
            |asked: &str| ["\\*", "\\?", "\\[", "\\{"].iter().any(|character| asked.contains(character));
        let asked = text.split('.').zip(clean.split('.')).enumerate();
        let escaped = asked.filter(|(_, (asked, _))| is_escaped(asked));
        let escaped = escaped.map(|(place, (_, clean))| (place, clean.to_owned())).collect();
        Ok(Self { text: text.into(), nodes, escaped })
    }

    /// The original text of the pattern.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The nodes.
    pub fn nodes(&self) -> &[NodePattern] {
        &self.nodes
    }

    /// Whether a path matches. `**` at the start also matches no levels.
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

    /// Whether it matches the root, which has no name: `**` at the start also matches no levels.
    pub(crate) fn is_root(&self) -> bool {
        matches!(self.nodes.as_slice(), [] | [NodePattern::Levels])
    }

    /// The patterns to which this one expands if an empty name is no level: `a..b` and `a.{}.b` become
    /// `a.b`, and `a.{b,}.c` becomes `a.b.c` and `a.c`. An empty name at the end is the branch itself: `a.`
    /// is the branch `a`.
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

    /// The approximate number of alternatives with which a path is compared at most.
    pub(crate) fn alternatives(&self) -> usize {
        self.nodes.iter().map(NodePattern::alternatives).sum()
    }

    /// The path as it is shown to the client: nodes that the client wrote with an escaped character keep
    /// it. Empty in a cancelled job (see [`sandur_memory::job`]).
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
    fn parse(text: &str, room: &mut Expansion) -> Result<Self> {
        if text == "**" {
            return Ok(Self::Levels);
        }
        let variants: Arc<[Variant]> =
            alternatives(text, room)?.iter().map(|text| Variant::parse(text)).collect();
        let forms = TextForms::new(variants.iter().map(Variant::form).collect())?;
        Ok(Self::Node(Alternatives { variants, forms }))
    }

    /// Whether a node with this name matches. In a cancelled job (see [`sandur_memory::job`]) the result is
    /// arbitrary and will be dropped.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Levels => true,
            Self::Node(alternatives) => alternatives.forms.matches(name).unwrap_or(false),
        }
    }

    /// Whether one of the alternatives is the empty name.
    fn takes_empty(&self) -> bool {
        let Self::Node(Alternatives { variants, .. }) = self else { return false };
        variants.iter().any(Variant::is_empty)
    }

    /// Whether any alternative is not the empty name.
    fn has_name(&self) -> bool {
        let Self::Node(Alternatives { variants, .. }) = self else { return true };
        !variants.iter().all(Variant::is_empty)
    }

    /// The number of alternatives with which a name is compared at most.
    pub(crate) fn alternatives(&self) -> usize {
        match self {
            Self::Levels => 1,
            Self::Node(alternatives) => alternatives.variants.len(),
        }
    }

    /// Whether every name matches.
    pub fn is_any(&self) -> bool {
        let Self::Node(Alternatives { variants, .. }) = self else { return true };
        variants.iter().any(|variant| matches!(variant, Variant::Glob(glob) if glob.0 == [Piece::Any]))
    }

    /// The matching names, if there is a finite list.
    pub fn exact(&self) -> Option<Vec<&str>> {
        let Self::Node(Alternatives { variants, .. }) = self else { return None };
        let names = variants.iter().map(|variant| match variant {
            Variant::Exact(name) => Some(name.as_str()),
            Variant::Glob(_) => None,
        });
        names.collect()
    }

    /// A regular expression for label matchers that matches the same names, except the empty one; `None` if
    /// there are none.
    pub(crate) fn regex(&self) -> Option<String> {
        let Self::Node(Alternatives { variants, .. }) = self else { return None };
        let parts: Vec<String> = variants.iter().filter_map(Variant::regex).collect();
        (!parts.is_empty()).then(|| parts.join("|"))
    }
}

/// The use of [`VARIANTS_MAX`] and [`VARIANT_BYTES_MAX`] so far.
#[derive(Default)]
struct Expansion {
    variants: usize,
    bytes: usize,
}

impl Expansion {
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

/// Expands braces, the innermost first; removes duplicates.
fn alternatives(text: &str, room: &mut Expansion) -> Result<Vec<String>> {
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

/// The position of the first pair of braces without braces inside.
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
        let chars: Vec<char> = text.chars().collect();
        let (mut pieces, mut at) = (Vec::new(), 0);
        while let Some(&character) = chars.get(at) {
            at += 1;
            let piece = match character {
                '*' => Piece::Any,
                '?' => Piece::One,
                '[' => match class_end(&chars, at) {
                    Some(end) => {
                        let piece = class(&chars[at..end]);
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
        let escaped = |character: char| match character.is_ascii_alphanumeric() {
            true => character.to_string(),
            false => format!("\\x{{{:x}}}", u32::from(character)),
        };
        match self {
            Self::Char(own) => Some(regex::escape(&own.to_string())),
            Self::One => Some(".".to_owned()),
            Self::Any => Some(".*".to_owned()),
            Self::Class { negated, ranges } => {
                let ranges = ranges.iter().filter(|(low, high)| low <= high);
                let parts = ranges.map(|(low, high)| match low == high {
                    true => escaped(*low),
                    false => format!("{}-{}", escaped(*low), escaped(*high)),
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
            Self::One => FormPiece::One(CharSet::Any),
            Self::Any => FormPiece::Many(CharSet::Any),
            Self::Class { negated, ranges } => {
                FormPiece::One(CharSet::Ranges { negated: *negated, ranges: ranges.as_slice().into() })
            }
        }
    }
}

/// The index of the bracket that closes a class. A bracket in first place belongs to the class.
fn class_end(chars: &[char], from: usize) -> Option<usize> {
    let mut at = from;
    at += usize::from(chars.get(at) == Some(&'!'));
    at += usize::from(chars.get(at) == Some(&']'));
    (at..chars.len()).find(|at| chars[*at] == ']')
}

fn class(chars: &[char]) -> Piece {
    let negated = chars.first() == Some(&'!');
    let chars = &chars[usize::from(negated)..];
    let (mut ranges, mut at) = (Vec::new(), 0);
    while let Some(&low) = chars.get(at) {
        match (chars.get(at + 1), chars.get(at + 2)) {
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
        NodePattern::parse(pattern, &mut Expansion::default()).unwrap().matches(name)
    }

    #[test]
    fn nodes_match_as_in_fnmatch() {
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
    fn too_many_alternatives_are_refused() {
        let error = Pattern::parse(&"{a,b}".repeat(20)).unwrap_err();
        assert!(error.to_string().contains("4096"), "{error}");
        let long = format!("{}{}", "{a,b}".repeat(10), "x".repeat(60_000));
        assert!(Pattern::parse(&long).unwrap_err().to_string().contains("262144"));
        // The limit applies to all nodes of a pattern together.
        let wide = vec!["*{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}"; 200].join(".");
        assert!(Pattern::parse(&wide).unwrap_err().to_string().contains("ask in several patterns"));
        let hosts: Vec<String> = (0..4_000).map(|host| format!("host{host}")).collect();
        assert!(Pattern::parse(&format!("servers.{{{}}}.cpu", hosts.join(","))).is_ok());
        assert!(Pattern::parse(&"a.".repeat(300)).is_err());
        assert!(!matches(&"a*".repeat(2000), &"a".repeat(1999)));
    }

    #[test]
    fn duplicate_alternatives_are_removed() {
        let Pattern { nodes, .. } = Pattern::parse("{a,a,b}{,}*.{x,{x,y}}").unwrap();
        let counts = nodes.iter().map(|node| match node {
            NodePattern::Levels => 0,
            NodePattern::Node(alternatives) => alternatives.variants.len(),
        });
        assert_eq!(counts.collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn empty_nodes_are_no_levels() {
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
    fn escaped_characters_are_shown_as_requested() {
        let pattern = Pattern::parse(r"a.b\*.c").unwrap();
        assert_eq!(pattern.shown("a.bx.c".to_owned()), "a.b*.c");
    }
}
