//! Maps Graphite series to label sets.
//!
//! An untagged path `a.b.c` becomes `{__name__="a.b.c", __g0__="a", __g1__="b", __g2__="c"}`: the
//! complete path, and each node under the label of its level, so that a path pattern is one condition
//! per level. A tagged series `name;t=v` becomes `{__name__="name", __graphite__="tagged", t="v"}`. The
//! points of a coarse archive are a separate series for each step, with the labels of the path and
//! [`GRAPHITE_ARCHIVE`]; rollups also have [`GRAPHITE_ROLLUP`].
//!
//! **Invariants.** A path has at most [`GRAPHITE_NODES_MAX`] nodes and [`GRAPHITE_PATH_BYTES_MAX`]
//! bytes, and no empty nodes. Levels have no gaps: a path of `n` nodes has the labels of levels `0..n`
//! and no others. No tag has a name that this mapping uses.

use std::borrow::Cow;

use crate::labels::Labels;
use crate::rollup::GRAPHITE_ROLLUP;

/// The most nodes of a path.
pub const GRAPHITE_NODES_MAX: usize = 64;
/// The most bytes of a path, or of a name with its tags.
pub const GRAPHITE_PATH_BYTES_MAX: usize = 4096;
/// The label that marks tagged Graphite series.
pub const GRAPHITE_MARK: &str = "__graphite__";
/// The value of [`GRAPHITE_MARK`].
pub const GRAPHITE_TAGGED: &str = "tagged";

/// The label that contains the step, in seconds, of points that stand for complete steps: those of a
/// coarse whisper archive. A series without it has points as they were sent.
pub const GRAPHITE_ARCHIVE: &str = "__archive__";

const NAME: &str = "__name__";

/// Labels of the levels, beginning with the first node of a path.
static LEVELS: [&str; GRAPHITE_NODES_MAX] = [
    "__g0__", "__g1__", "__g2__", "__g3__", "__g4__", "__g5__", "__g6__", "__g7__", "__g8__", "__g9__",
    "__g10__", "__g11__", "__g12__", "__g13__", "__g14__", "__g15__", "__g16__", "__g17__", "__g18__",
    "__g19__", "__g20__", "__g21__", "__g22__", "__g23__", "__g24__", "__g25__", "__g26__", "__g27__",
    "__g28__", "__g29__", "__g30__", "__g31__", "__g32__", "__g33__", "__g34__", "__g35__", "__g36__",
    "__g37__", "__g38__", "__g39__", "__g40__", "__g41__", "__g42__", "__g43__", "__g44__", "__g45__",
    "__g46__", "__g47__", "__g48__", "__g49__", "__g50__", "__g51__", "__g52__", "__g53__", "__g54__",
    "__g55__", "__g56__", "__g57__", "__g58__", "__g59__", "__g60__", "__g61__", "__g62__", "__g63__",
];

/// Why a Graphite name is not a valid series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphitePathError {
    /// The path has no node, or the name before the tags is empty.
    #[error("the path has no node; send a name such as servers.web1.load")]
    Empty,
    /// The path, or the name with its tags, is too long.
    #[error(
        "the path has {bytes} bytes, more than the {GRAPHITE_PATH_BYTES_MAX} that are allowed; shorten it"
    )]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The path has too many nodes.
    #[error(
        "the path has {nodes} nodes, more than the {GRAPHITE_NODES_MAX} that are allowed; join some of them"
    )]
    TooDeep {
        /// Its number of nodes.
        nodes: usize,
    },
    /// A tag has the name of a label that this mapping uses.
    #[error("the tag '{tag}' has a name that is reserved; rename it")]
    Reserved {
        /// The name of the tag.
        tag: String,
    },
}

/// The label of a level, counted from 0; `None` from [`GRAPHITE_NODES_MAX`] on.
pub fn graphite_level(level: usize) -> Option<&'static str> {
    LEVELS.get(level).copied()
}

/// The level of a label, counted from 0; `None` if it is not the label of a level.
pub fn graphite_level_of(label: &str) -> Option<usize> {
    let digits = label.strip_prefix("__g")?.strip_suffix("__")?;
    digits.parse().ok().filter(|level| graphite_level(*level) == Some(label))
}

/// Whether a label belongs to this mapping and cannot be a tag: that of a level, [`GRAPHITE_MARK`],
/// [`GRAPHITE_ARCHIVE`] or [`GRAPHITE_ROLLUP`].
pub fn is_graphite_label(name: &str) -> bool {
    let level = || name.strip_prefix("__g")?.strip_suffix("__");
    matches!(name, GRAPHITE_MARK | GRAPHITE_ARCHIVE | GRAPHITE_ROLLUP)
        || level().is_some_and(|level| !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether the last of several values that are written for one instant counts. This holds for Graphite
/// series; for all others the first value counts.
pub fn last_write_wins(labels: &Labels) -> bool {
    labels.get(LEVELS[0]).is_some() || labels.get(GRAPHITE_MARK).is_some()
}

/// The path as it is stored: without empty nodes, which consecutive, leading and trailing dots produce.
pub fn graphite_path(path: &str) -> Cow<'_, str> {
    let is_clean = !path.starts_with('.') && !path.ends_with('.') && !path.contains("..");
    if is_clean {
        return Cow::Borrowed(path);
    }
    let mut clean = String::with_capacity(path.len());
    for node in path.split('.').filter(|node| !node.is_empty()) {
        if !clean.is_empty() {
            clean.push('.');
        }
        clean.push_str(node);
    }
    Cow::Owned(clean)
}

/// The labels of an untagged path.
pub fn graphite_path_labels(path: &str) -> Result<Labels, GraphitePathError> {
    if path.len() > GRAPHITE_PATH_BYTES_MAX {
        return Err(GraphitePathError::TooLong { bytes: path.len() });
    }
    let path = graphite_path(path);
    if path.is_empty() {
        return Err(GraphitePathError::Empty);
    }
    let nodes = path.bytes().filter(|byte| *byte == b'.').count() + 1;
    if nodes > GRAPHITE_NODES_MAX {
        return Err(GraphitePathError::TooDeep { nodes });
    }
    let levels = LEVELS.iter().copied().zip(path.split('.'));
    Ok(Labels::from_pairs(levels.chain([(NAME, &*path)])))
}

/// The labels of a tagged series. The last of tags with the same name counts; a tag without a value is
/// dropped.
pub fn graphite_tagged_labels<'a>(
    name: &'a str,
    tags: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Labels, GraphitePathError> {
    let (mut pairs, mut bytes) = (vec![(NAME, name), (GRAPHITE_MARK, GRAPHITE_TAGGED)], name.len());
    for (tag, value) in tags {
        if tag == NAME || is_graphite_label(tag) {
            return Err(GraphitePathError::Reserved { tag: tag.to_owned() });
        }
        bytes = bytes.saturating_add(tag.len()).saturating_add(value.len()).saturating_add(2);
        if bytes > GRAPHITE_PATH_BYTES_MAX {
            break;
        }
        pairs.push((tag, value));
    }
    match (name.is_empty(), bytes > GRAPHITE_PATH_BYTES_MAX) {
        (true, _) => Err(GraphitePathError::Empty),
        (_, true) => Err(GraphitePathError::TooLong { bytes }),
        _ => Ok(Labels::from_pairs(pairs)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(labels: Result<Labels, GraphitePathError>) -> String {
        labels.map_or_else(|error| error.to_string(), |labels| labels.to_string())
    }

    #[test]
    fn a_path_becomes_one_label_per_node_without_empty_nodes() {
        let expected = r#"{__g0__="a", __g1__="b", __g2__="c", __name__="a.b.c"}"#;
        for path in ["a.b.c", ".a..b.c.", "a...b.c"] {
            assert_eq!(shown(graphite_path_labels(path)), expected, "{path}");
        }
        for path in ["", ".", "..."] {
            assert_eq!(graphite_path_labels(path), Err(GraphitePathError::Empty), "{path}");
        }
        let deep = |nodes: usize| graphite_path_labels(&vec!["n"; nodes].join("."));
        assert_eq!(deep(64).unwrap().len(), 65);
        assert_eq!(deep(65), Err(GraphitePathError::TooDeep { nodes: 65 }));
        assert!(graphite_path_labels(&"n".repeat(4096)).is_ok());
        assert!(shown(graphite_path_labels(&"n".repeat(4097))).contains("4096"));
    }

    #[test]
    fn tags_become_labels_with_the_mark_of_tagged_series() {
        let of = |tags: &[(&'static str, &'static str)]| shown(graphite_tagged_labels("m", tags.to_vec()));
        assert_eq!(
            of(&[("t", "v"), ("b", "1"), ("b", "2")]),
            r#"{__graphite__="tagged", __name__="m", b="2", t="v"}"#
        );
        for tag in ["__name__", "__g7__", "__graphite__", "__archive__", "__rollup__"] {
            assert!(of(&[(tag, "v")]).contains(tag), "{tag}");
        }
        let long = "v".repeat(5000);
        assert!(shown(graphite_tagged_labels("m", [("t", &*long)])).contains("4096"));
        assert_eq!(graphite_tagged_labels("", []), Err(GraphitePathError::Empty));
    }

    #[test]
    fn the_last_write_wins_only_in_graphite_series() {
        assert!(last_write_wins(&graphite_path_labels("a").unwrap()));
        assert!(last_write_wins(&graphite_tagged_labels("a", []).unwrap()));
        assert!(!last_write_wins(&Labels::from_pairs([("__name__", "a"), ("__gx__", "b")])));
        for (name, is_own) in [("__g0__", true), ("__g640__", true), ("__g__", false), ("__gx__", false)] {
            assert_eq!(is_graphite_label(name), is_own, "{name}");
        }
        assert_eq!((graphite_level(63), graphite_level(64)), (Some("__g63__"), None));
        assert!((0..64).all(|n| graphite_level(n) == Some(&*format!("__g{n}__"))));
        assert!((0..64).all(|n| graphite_level(n).and_then(graphite_level_of) == Some(n)));
        let others = ["__g64__", "__g01__", "__g+1__", "__g__", "__gx__", "g1", ""];
        assert!(others.iter().all(|label| graphite_level_of(label).is_none()));
    }
}
