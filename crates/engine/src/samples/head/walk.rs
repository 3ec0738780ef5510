//! Walks down the tree of paths of a head ([`super::paths`]), level by level, by the conditions on the
//! labels of levels. It visits only the matching nodes, not the series below them.
//!
//! Conditions are tested without the lock, on each name once per level, because users control the cost
//! of regular expressions. The lock is held for a limited number of nodes at a time.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use foldhash::fast::RandomState;
use sandur_memory::job;
use sandur_model::{MatchOp, Matcher, MatcherForm};

use super::paths::ROOT;
use super::postings::Postings;
use super::rows::SeriesRows;
use super::table::{SeriesTable, Snapshot};
use crate::path_labels::level_of;

/// Nodes whose children are read under one lock.
const NODES_AT_ONCE: usize = 256;
/// Series whose times are checked between two reads of the tree.
const SERIES_AT_ONCE: usize = 4_096;

/// Of more children of a node, the number is not counted.
const COUNTED_MAX: usize = 1 << 14;

/// The nodes to find, which are all of one depth.
pub(super) struct Walk<'m> {
    /// The conditions of each level, from the root.
    levels: Vec<Vec<&'m Matcher>>,
    /// Whether to find nodes where series end, instead of inner nodes.
    of_series: bool,
    /// The levels whose names are returned, in order.
    shown: Vec<usize>,
}

/// A node that matches down to its level.
#[derive(Clone, Copy)]
enum Met {
    Node(u32),
    /// The last node of a series, with its parent and its name.
    End {
        parent: u32,
        series: u32,
        value: u32,
    },
}

impl<'m> Walk<'m> {
    /// Plans a walk for these conditions. `None` if they do not determine the depth, are not on levels
    /// alone, or if names of other labels are requested.
    pub(super) fn of(matchers: &'m [Matcher], labels: &[String]) -> Option<Self> {
        let mut levels: Vec<Vec<&Matcher>> = Vec::new();
        for matcher in matchers {
            let level = level_of(matcher.name())?;
            levels.resize(levels.len().max(level + 1), Vec::new());
            levels[level].push(matcher);
        }
        let end = levels.pop()?;
        let of_series = match end.as_slice() {
            [end] if end.value().is_empty() => match end.op() {
                MatchOp::Equal => true,
                MatchOp::NotEqual => false,
                _ => return None,
            },
            _ => return None,
        };
        let is_sure = |of: &Vec<&Matcher>| of.iter().any(|matcher| !matcher.matches_empty());
        if levels.is_empty() || !levels.iter().all(is_sure) {
            return None;
        }
        let shown = labels.iter().map(|label| level_of(label).filter(|level| *level < levels.len()));
        Some(Self { shown: shown.collect::<Option<Vec<usize>>>()?, levels, of_series })
    }

    /// Returns an upper bound of the nodes that are visited: the children of the only node on the level
    /// before the last, or the series with the names that are fixed from the root on.
    pub(super) fn visits(&self, table: &SeriesTable) -> usize {
        let Some((_, inner)) = self.levels.split_last() else { return 0 };
        let (mut parent, mut series) = (ROOT, table.len());
        for conditions in inner {
            let [one] = conditions.as_slice() else { return series };
            if one.op() != MatchOp::Equal {
                return series;
            }
            let number = |text: &str| table.symbols().find(text);
            let Some((name, value)) = number(one.name()).zip(number(one.value())) else { return 0 };
            let Some(node) = table.paths().node(parent, value) else { return 0 };
            parent = node;
            series = series.min(table.index().postings(name, value).map_or(0, Postings::len) as usize);
        }
        let below = match self.of_series {
            true => table.paths().ends_below(parent).take(COUNTED_MAX).count(),
            false => table.paths().nodes_below(parent).take(COUNTED_MAX).count(),
        };
        if below < COUNTED_MAX { below } else { series }
    }

    /// Returns the numbers of the names of each matching node, ordered by the names of each level. With
    /// `times_ms`, only nodes that have series with samples between these milliseconds. Returns all of
    /// them, or a few more than the limit.
    pub(super) fn names(
        &self,
        (table, snapshot): (&RwLock<SeriesTable>, &Snapshot),
        times_ms: Option<(i64, i64)>,
        limit: usize,
    ) -> Vec<u32> {
        let tree = Tree { table, snapshot };
        let (mut met, mut names) = (vec![Met::Node(ROOT)], Vec::new());
        let Some((last, inner)) = self.levels.split_last() else { return names };
        for conditions in inner {
            let mut level = Level::new(&tree, conditions, false);
            met = chunks_of(&met).flat_map(|some| level.below(some)).collect();
        }
        let mut level = Level::new(&tree, last, self.of_series);
        for some in chunks_of(&met) {
            let mut below = level.below(some);
            if let Some(times_ms) = times_ms {
                below.retain(|met| tree.touches(*met, times_ms));
            }
            tree.add_names(&below, &self.shown, &mut names);
            if names.len() > self.shown.len().saturating_mul(limit) {
                break;
            }
        }
        names
    }
}

/// The first node, and then the others in larger chunks: the children of several nodes usually have the same
/// names, which are known after the first.
fn chunks_of(met: &[Met]) -> impl Iterator<Item = &[Met]> {
    let (first, others) = met.split_at(met.len().min(1));
    first.chunks(1).chain(others.chunks(NODES_AT_ONCE))
}

/// A tree, with the snapshot that has the names of its nodes.
struct Tree<'t> {
    table: &'t RwLock<SeriesTable>,
    snapshot: &'t Snapshot,
}

impl Tree<'_> {
    fn read(&self) -> RwLockReadGuard<'_, SeriesTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a series that ends at the node or below it has samples between these milliseconds.
    fn touches(&self, met: Met, times_ms: (i64, i64)) -> bool {
        let mut open = match met {
            Met::End { series, .. } => return self.has_samples(series, times_ms),
            Met::Node(node) => vec![node],
        };
        let mut series = Vec::new();
        while !open.is_empty() {
            {
                let table = self.read();
                while series.len() < SERIES_AT_ONCE {
                    let Some(node) = open.pop() else { break };
                    open.extend(table.paths().nodes_below(node).map(|(node, _)| node));
                    series.extend(table.paths().ends_below(node).map(|(series, _)| series));
                }
            }
            if job::spend(series.len() * 32).is_err() {
                return false;
            }
            if series.drain(..).any(|series| self.has_samples(series, times_ms)) {
                return true;
            }
        }
        false
    }

    fn has_samples(&self, series: u32, (first_ms, last_ms): (i64, i64)) -> bool {
        if series as usize >= self.snapshot.len() {
            return false;
        }
        let (segment, at) = self.snapshot.place(series);
        let bounds = segment.rows().get(at).and_then(SeriesRows::bounds_ms);
        bounds.is_some_and(|(first, last)| first <= last_ms && first_ms <= last)
    }

    /// Adds the names of nodes on some levels. Skips names that equal those of the previous node.
    fn add_names(&self, met: &[Met], shown: &[usize], names: &mut Vec<u32>) {
        let (mut path, mut own) = (Vec::new(), Vec::with_capacity(shown.len()));
        for some in met.chunks(NODES_AT_ONCE) {
            if job::spend(some.len() * shown.len() * 16).is_err() {
                return;
            }
            let table = self.read();
            for met in some {
                path.clear();
                match *met {
                    Met::Node(node) => path.extend(table.paths().names_up(node)),
                    Met::End { parent, value, .. } => {
                        path.push(value);
                        path.extend(table.paths().names_up(parent));
                    }
                }
                own.clear();
                own.extend(shown.iter().filter_map(|level| path.iter().rev().nth(*level)));
                if !names.ends_with(&own) {
                    names.extend_from_slice(&own);
                }
            }
        }
    }
}

/// The conditions of a level, with their results for known names.
struct Level<'t, 'm> {
    tree: &'t Tree<'t>,
    conditions: &'m [&'m Matcher],
    /// Whether to find the nodes where series end.
    of_series: bool,
    takes_all: bool,
    /// The only matching name, if the condition is for one; `Some(None)` if no series has that name.
    one: Option<Option<u32>>,
    known: HashMap<u32, bool, RandomState>,
}

/// A child node.
struct Below {
    /// Position of the parent in the list of parents.
    parent: u32,
    value: u32,
    /// The first bytes of its name, which decide most comparisons.
    start: u128,
    met: Met,
}

impl<'t, 'm> Level<'t, 'm> {
    fn new(tree: &'t Tree<'t>, conditions: &'m [&'m Matcher], of_series: bool) -> Self {
        let one = match conditions {
            [one] if one.op() == MatchOp::Equal => Some(tree.read().symbols().find(one.value())),
            _ => None,
        };
        let takes_all = one.is_some() || conditions.iter().all(|matcher| takes_all(matcher));
        Self { tree, conditions, of_series, takes_all, one, known: HashMap::default() }
    }

    /// Returns the matching children of some nodes.
    fn below(&mut self, parents: &[Met]) -> Vec<Met> {
        let texts = &self.tree.snapshot.texts;
        let (mut found, passed) = self.all_below(parents);
        // The result of a stopped job is not used.
        if job::spend((parents.len() + passed) * 16 + found.len() * 32).is_err() {
            return Vec::new();
        }
        let mut fits = |value: u32| {
            let check = |value: u32| {
                let text = texts.get(value);
                let _ = job::spend(text.len());
                self.conditions.iter().all(|matcher| matcher.matches(text))
            };
            let takes_all = self.takes_all;
            // Names that were added meanwhile belong to series that are not in the snapshot.
            (value as usize) < texts.len()
                && (takes_all || *self.known.entry(value).or_insert_with_key(|value| check(*value)))
        };
        found.retain(|below| fits(below.value));
        if self.one.is_none() {
            found.iter_mut().for_each(|below| below.start = start_of(texts.get(below.value)));
            found.sort_unstable_by(|a, b| {
                let starts = (a.parent, a.start).cmp(&(b.parent, b.start));
                starts.then_with(|| texts.get(a.value).cmp(texts.get(b.value)))
            });
        }
        found.into_iter().map(|below| below.met).collect()
    }

    /// Returns all children of some nodes, or those with the only matching name. Leaves out those whose names
    /// are known not to match, and returns their number.
    fn all_below(&self, parents: &[Met]) -> (Vec<Below>, usize) {
        let (table, mut found, mut passed) = (self.tree.read(), Vec::new(), 0);
        let paths = table.paths();
        let mut may_fit = |value: &u32| {
            let may = self.known.get(value) != Some(&false);
            passed += usize::from(!may);
            may
        };
        for (place, parent) in (0..).zip(parents) {
            let Met::Node(parent) = *parent else { continue };
            let below = |value: u32, met: Met| Below { parent: place, value, start: 0, met };
            if self.of_series {
                let is_it = |(_, value): &(u32, u32)| self.one.is_none_or(|one| one == Some(*value));
                let end = |(series, value)| below(value, Met::End { parent, series, value });
                let ends = paths.ends_below(parent).filter(is_it).filter(|(_, value)| may_fit(value));
                found.extend(ends.map(end));
            } else if let Some(one) = self.one {
                let node = one.and_then(|value| Some(below(value, Met::Node(paths.node(parent, value)?))));
                found.extend(node);
            } else {
                let nodes = paths.nodes_below(parent).filter(|(_, value)| may_fit(value));
                found.extend(nodes.map(|(node, value)| below(value, Met::Node(node))));
            }
        }
        (found, passed)
    }
}

/// The first 16 bytes of a text as a number with the same order.
fn start_of(text: &str) -> u128 {
    let mut bytes = [0; 16];
    let length = text.len().min(16);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u128::from_be_bytes(bytes)
}

/// Whether a condition matches every name.
fn takes_all(matcher: &Matcher) -> bool {
    let is_any = matches!(matcher.form(), MatcherForm::NotEmpty | MatcherForm::Anything);
    let is_not_empty = matcher.op() == MatchOp::NotEqual && matcher.value().is_empty();
    is_not_empty || (is_any && !matcher.is_negated())
}
