//! Finds nodes of the tree of paths.
//!
//! If one level of a pattern varies, its nodes are the values of one label. If several do, they are the
//! combinations of their labels' values that series have. Complete names of series are read only for
//! patterns with `**`.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandur_memory::job::spend;
use sandur_model::{Matcher, TimeRange, graphite_level};
use sandur_query::{Error, JoinedLabels, QueryContext, SeriesRequest, TextBatch, TextRequest};

use super::matchers::{NAME, of_pattern};
use super::{KEPT_MAX, LITTLE_COMPARED, StoredSeries};
use crate::glob::{NodePattern, Pattern};
use crate::source::Found;

/// The separator between the nodes of several levels, which no node contains.
const SEPARATOR: char = '.';
impl StoredSeries<'_> {
    /// The nodes that match a pattern without empty nodes.
    pub(super) async fn find_nodes(
        &self,
        context: &QueryContext,
        pattern: &Pattern,
        range: TimeRange,
    ) -> Result<Vec<Found>, Error> {
        let conditions = context.compute_here(|| Ok(of_pattern(pattern)))?;
        let Some(conditions) = conditions else { return Ok(Vec::new()) };
        let _turn = context.turn().await?;
        if conditions.depth.is_none() {
            return self.at_any_level(context, pattern, conditions.of_leaves(), range).await;
        }
        let mut found = self.nodes(context, pattern, conditions.of_leaves(), range, true).await?;
        if let Some(matchers) = conditions.of_branches() {
            found.extend(self.nodes(context, pattern, matchers, range, false).await?);
        }
        Ok(found)
    }

    /// The matching nodes of a pattern with a fixed number of levels. `matchers` select series or branches.
    async fn nodes(
        &self,
        context: &QueryContext,
        pattern: &Pattern,
        matchers: Vec<Matcher>,
        range: TimeRange,
        is_leaf: bool,
    ) -> Result<Vec<Found>, Error> {
        let levels = Arc::new(Levels::of(pattern));
        match *levels.varying.as_slice() {
            [] => Ok(Vec::new()),
            [level] => self.of_one_level(context, (levels, level), (matchers, range), is_leaf).await,
            _ => self.of_levels(context, levels, (matchers, range), is_leaf).await,
        }
    }

    /// Finds nodes if one level varies, by reading the values of its label in pages.
    async fn of_one_level(
        &self,
        context: &QueryContext,
        (levels, level): (Arc<Levels>, usize),
        (matchers, range): (Vec<Matcher>, TimeRange),
        is_leaf: bool,
    ) -> Result<Vec<Found>, Error> {
        let Some(label) = graphite_level(level) else { return Ok(Vec::new()) };
        self.fitting_nodes(context, levels, SeriesRequest::new(matchers, range).values(label), is_leaf).await
    }

    /// The nodes that fit of the texts of a request.
    async fn fitting_nodes(
        &self,
        context: &QueryContext,
        levels: Arc<Levels>,
        request: TextRequest,
        is_leaf: bool,
    ) -> Result<Vec<Found>, Error> {
        let mut found: Vec<Found> = Vec::new();
        let mut scan = self.samples.texts(context, request).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            let before = found.len();
            found.extend(fitting(context, &levels, batch, is_leaf).await?);
            self.pay(context, found.len(), found[before..].iter().map(|node| node.path.as_str()))?;
        }
        Ok(found)
    }

    /// Finds nodes if several levels vary, by reading combinations of their labels' values.
    async fn of_levels(
        &self,
        context: &QueryContext,
        levels: Arc<Levels>,
        (matchers, range): (Vec<Matcher>, TimeRange),
        is_leaf: bool,
    ) -> Result<Vec<Found>, Error> {
        let labels = levels.varying.iter().filter_map(|level| graphite_level(*level));
        let labels: Vec<String> = labels.map(str::to_owned).collect();
        let wanted = JoinedLabels { labels, separator: SEPARATOR, limit: KEPT_MAX };
        self.fitting_nodes(context, levels, SeriesRequest::new(matchers, range).joined(wanted), is_leaf).await
    }

    /// Finds nodes for a pattern with `**`.
    async fn at_any_level(
        &self,
        context: &QueryContext,
        pattern: &Pattern,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> Result<Vec<Found>, Error> {
        let (mut found, pattern) = (BTreeSet::new(), Arc::new(pattern.clone()));
        let mut scan = self.samples.texts(context, SeriesRequest::new(matchers, range).values(NAME)).await?;
        while let Some(batch) = scan.next().await? {
            context.check()?;
            let mut fresh = Vec::new();
            for node in parts_that_fit(context, &pattern, batch).await? {
                if !found.contains(&node) {
                    fresh.push(node.path.clone());
                    found.insert(node);
                }
            }
            self.pay(context, found.len(), fresh.iter().map(String::as_str))?;
        }
        Ok(found.into_iter().collect())
    }
}

/// For each path, the prefixes before each dot and the complete path, as far as they match.
async fn parts_that_fit(
    context: &QueryContext,
    pattern: &Arc<Pattern>,
    paths: TextBatch,
) -> Result<Vec<Found>, Error> {
    let pattern = Arc::clone(pattern);
    let job = move || {
        let mut found = Vec::new();
        for path in paths.iter() {
            spend(path.len() + 64)?;
            let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
            for part in ends.map(|end| &path[..end]).filter(|part| pattern.matches(part)) {
                found.push(Found { path: part.to_owned(), is_leaf: part.len() == path.len() });
            }
        }
        Ok(found)
    };
    context.compute(job).await
}

/// The paths of matching nodes, from the names at the levels that vary.
async fn fitting(
    context: &QueryContext,
    levels: &Arc<Levels>,
    names: TextBatch,
    is_leaf: bool,
) -> Result<Vec<Found>, Error> {
    let (levels, alternatives) = (Arc::clone(levels), levels.alternatives());
    let is_little = names.len().saturating_mul(alternatives) <= LITTLE_COMPARED;
    let job = move || {
        let mut found = Vec::with_capacity(names.len());
        for nodes in names.iter() {
            spend(nodes.len() + 64)?;
            let nodes = nodes.split(SEPARATOR);
            if levels.fit(nodes.clone()) {
                found.push(Found { path: levels.path(nodes), is_leaf });
            }
        }
        Ok(found)
    };
    context.compute_sized(is_little, job).await
}

/// The levels of a pattern: the fixed names, and the indexes of the levels that vary.
struct Levels {
    names: Vec<Option<String>>,
    /// The indexes of levels that vary; the last level if none does.
    varying: Vec<usize>,
    /// The patterns for the levels that vary.
    patterns: Vec<NodePattern>,
}

impl Levels {
    fn of(pattern: &Pattern) -> Self {
        let exact = |node: &NodePattern| match node.exact()?.as_slice() {
            [name] => Some((*name).to_owned()),
            _ => None,
        };
        let mut names: Vec<Option<String>> = pattern.nodes().iter().map(exact).collect();
        let has_varying = names.iter().any(Option::is_none);
        if let Some(last) = names.last_mut().filter(|_| !has_varying) {
            *last = None;
        }
        let varying = (0..names.len()).filter(|level| names[*level].is_none()).collect();
        let patterns = pattern.nodes().iter().zip(&names).filter(|(_, name)| name.is_none());
        // `*` matches any name, so no comparison is needed.
        let patterns =
            patterns.map(|(node, _)| if node.is_any() { NodePattern::Levels } else { node.clone() });
        Self { patterns: patterns.collect(), names, varying }
    }

    /// The number of alternatives with which nodes are compared at most.
    fn alternatives(&self) -> usize {
        self.patterns.iter().map(NodePattern::alternatives).sum()
    }

    /// Whether the nodes at the varying levels match; label matchers may let more pass.
    fn fit<'n>(&self, nodes: impl Iterator<Item = &'n str>) -> bool {
        self.patterns.iter().zip(nodes).all(|(pattern, node)| pattern.matches(node))
    }

    /// The path with these nodes at the varying levels.
    fn path<'n>(&self, mut nodes: impl Iterator<Item = &'n str> + Clone) -> String {
        let named = self.names.iter().flatten().map(String::len).sum::<usize>();
        let bytes = named + nodes.clone().map(str::len).sum::<usize>() + self.names.len();
        let mut path = String::with_capacity(bytes);
        for (level, name) in self.names.iter().enumerate() {
            if level > 0 {
                path.push('.');
            }
            path.push_str(name.as_deref().or_else(|| nodes.next()).unwrap_or_default());
        }
        path
    }
}
