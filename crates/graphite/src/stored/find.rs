//! Nodes of the tree of paths.
//!
//! Where one level of a pattern varies, its nodes are the values of one label. Where more do, they are told
//! by the names of the series, which come in order, so that those below one node follow each other.

use std::collections::BTreeSet;

use sandur_model::{Matcher, TimeRange, graphite_level};
use sandur_query::{Error, QueryContext};

use super::StoredSeries;
use super::matchers::{NAME, of_pattern};
use crate::glob::Pattern;
use crate::source::Found;

impl StoredSeries<'_> {
    pub(super) async fn find_nodes(
        &self,
        context: &QueryContext,
        pattern: &Pattern,
        range: TimeRange,
    ) -> Result<Vec<Found>, Error> {
        let conditions = context.compute_here(|| Ok(of_pattern(pattern)))?;
        let Some(conditions) = conditions else { return Ok(Vec::new()) };
        let _turn = context.turn().await?;
        let Some(depth) = conditions.depth else {
            return self.at_any_level(context, pattern, conditions.of_leaves(), range).await;
        };
        let mut found = self.nodes(context, (pattern, depth), conditions.of_leaves(), range, true).await?;
        if let Some(matchers) = conditions.of_branches() {
            found.extend(self.nodes(context, (pattern, depth), matchers, range, false).await?);
        }
        Ok(found)
    }

    /// The paths of so many nodes that fit, which are series or branches as the conditions say.
    async fn nodes(
        &self,
        context: &QueryContext,
        (pattern, depth): (&Pattern, usize),
        matchers: Vec<Matcher>,
        range: TimeRange,
        is_leaf: bool,
    ) -> Result<Vec<Found>, Error> {
        let parts = Parts::of(pattern);
        let label = parts.as_ref().map_or(Some(NAME), |parts| graphite_level(parts.level));
        let Some(label) = label else { return Ok(Vec::new()) };
        let mut found: Vec<Found> = Vec::new();
        let mut scan = self.samples.value_scan(context, label.to_owned(), vec![matchers], range).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            let before = found.len();
            let mut last: Option<&str> = None;
            for text in batch.iter() {
                let path = match &parts {
                    Some(parts) => parts.path(text),
                    None => {
                        let path = begin(text, depth);
                        let is_known = last == Some(path) || found.last().is_some_and(|own| own.path == path);
                        last = Some(path);
                        if is_known {
                            continue;
                        }
                        path.to_owned()
                    }
                };
                if pattern.matches(&path) {
                    found.push(Found { path, is_leaf });
                }
            }
            self.pay(context, found.len(), found[before..].iter().map(|node| node.path.as_str()))?;
        }
        Ok(found)
    }

    /// The paths of any number of nodes that fit.
    async fn at_any_level(
        &self,
        context: &QueryContext,
        pattern: &Pattern,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<Found>, Error> {
        let mut found = BTreeSet::new();
        let mut scan = self.samples.value_scan(context, NAME.to_owned(), vec![matchers], range).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            let mut fresh = Vec::new();
            for path in batch.iter() {
                let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
                for part in ends.map(|end| &path[..end]).filter(|part| pattern.matches(part)) {
                    let node = Found { path: part.to_owned(), is_leaf: part.len() == path.len() };
                    if found.insert(node) {
                        fresh.push(part);
                    }
                }
            }
            self.pay(context, found.len(), fresh.into_iter())?;
        }
        Ok(found.into_iter().collect())
    }
}

/// A pattern of which one level varies: the path before it, the level, and the path behind it.
struct Parts {
    before: String,
    level: usize,
    behind: String,
}

impl Parts {
    /// Nothing when more than one level varies.
    fn of(pattern: &Pattern) -> Option<Self> {
        let exact = |node: &crate::glob::NodePattern| match node.exact()?.as_slice() {
            [name] => Some((*name).to_owned()),
            _ => None,
        };
        let nodes: Vec<Option<String>> = pattern.nodes().iter().map(exact).collect();
        let mut varying = (0..nodes.len()).filter(|level| nodes[*level].is_none());
        let level = varying.next().or(nodes.len().checked_sub(1))?;
        if varying.next().is_some() {
            return None;
        }
        let joined = |nodes: &[Option<String>]| {
            nodes.iter().flatten().map(String::as_str).collect::<Vec<&str>>().join(".")
        };
        Some(Self { before: joined(&nodes[..level]), level, behind: joined(&nodes[level + 1..]) })
    }

    fn path(&self, node: &str) -> String {
        let parts = [&*self.before, node, &*self.behind];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<&str>>().join(".")
    }
}

/// The first nodes of a path.
fn begin(path: &str, nodes: usize) -> &str {
    let end = path.match_indices('.').nth(nodes.saturating_sub(1)).map_or(path.len(), |(at, _)| at);
    &path[..end]
}
