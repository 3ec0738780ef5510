//! The interface of the language to storage.

use futures_util::future::BoxFuture;
use sandur_memory::job::spend;
use sandur_query::{Error, QueryContext};

use crate::column::Column;
use crate::glob::{Pattern, WithoutEmpty};
use crate::tags::TagExpression;

/// A selector of series.
#[derive(Clone, Copy, Debug)]
pub enum Selector<'a> {
    /// Series whose path matches.
    Path(&'a Pattern),
    /// The tagged series with this name, unparsed.
    Name(&'a str),
    /// Series whose tags match all expressions.
    Tags(&'a [TagExpression]),
}

/// A time range, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Values after this time, exclusive.
    pub from: i64,
    /// Values up to this time, inclusive.
    pub until: i64,
    /// The current time of the request, which determines the resolution of old values.
    pub now: i64,
}

/// A series from storage.
#[derive(Debug)]
pub struct Fetched {
    /// The name, with tags in canonical form.
    pub name: String,
    /// The time of the first value, in seconds since 1970.
    pub start: i64,
    /// The time after the last value, exclusive.
    pub end: i64,
    /// The distance of two values, in seconds; at least 1.
    pub step: i64,
    /// The values.
    pub values: Column,
}

/// A node in the tree of paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The path.
    pub path: String,
    /// Whether it is a series. A path that is both a series and a branch occurs twice.
    pub is_leaf: bool,
}

/// A store of series.
pub trait Source: Send + Sync {
    /// The series that match, in any order. Their memory is reserved from the query's budget.
    fn fetch<'a>(
        &'a self,
        context: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>>;

    /// The nodes whose path matches and that have values in a time range, or at any time if there is none.
    /// [`Self::find`] calls it with patterns without empty nodes.
    fn nodes<'a>(
        &'a self,
        context: &'a QueryContext,
        pattern: &'a Pattern,
        times: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>>;

    /// The nodes for any pattern. Empty nodes are resolved as in graphite-web, which finds paths in
    /// directories ([`Pattern::without_empty_nodes`]). The root is a branch without a name, which always
    /// exists.
    fn find<'a>(
        &'a self,
        context: &'a QueryContext,
        pattern: &'a Pattern,
        times: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
        Box::pin(async move {
            let mut found = Vec::new();
            for WithoutEmpty { pattern, ends_with_dot } in pattern.without_empty_nodes()? {
                match (ends_with_dot, pattern.is_root()) {
                    (false, _) => found.extend(self.nodes(context, &pattern, times).await?),
                    (true, true) => found.push(Found { path: String::new(), is_leaf: false }),
                    (true, false) => {
                        let nodes = self.nodes(context, &pattern, times).await?;
                        found.extend(context.compute(move || branches_with_dot(nodes)).await?);
                    }
                }
            }
            Ok(found)
        })
    }

    /// The canonical names of the series whose tags match, in order.
    fn tagged<'a>(
        &'a self,
        context: &'a QueryContext,
        expressions: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// The times of the events that have all these tags, after `from` and up to `until`; of all events if
    /// there are no tags. Empty if the source does not store events.
    fn events<'a>(
        &'a self,
        _context: &'a QueryContext,
        _tags: &'a [String],
        _from: i64,
        _until: i64,
    ) -> BoxFuture<'a, Result<Vec<i64>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Keeps only branches, and appends a dot to each.
fn branches_with_dot(mut nodes: Vec<Found>) -> Result<Vec<Found>, Error> {
    nodes.retain(|node| !node.is_leaf);
    for node in &mut nodes {
        spend(node.path.len() + 1)?;
        node.path.push('.');
    }
    Ok(nodes)
}

#[cfg(test)]
pub(crate) mod testing {
    use futures_util::FutureExt;

    use super::*;
    use crate::column::Column;

    /// A source with at least one series of ones, and a number of nodes of which every other one is a
    /// series; without tags and events.
    #[derive(Default)]
    pub(crate) struct Made {
        pub(crate) series: usize,
        pub(crate) nodes: usize,
    }

    impl Source for Made {
        fn fetch<'a>(
            &'a self,
            context: &'a QueryContext,
            _: Selector<'a>,
            window: Window,
        ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>> {
            async move {
                let (start, end) = (window.from, window.until);
                let count = usize::try_from((end - start) / 60).unwrap_or(0);
                let fetched = |name| {
                    let values = std::iter::repeat_n(Some(1.0), count);
                    let values = Column::in_budget(context.budget(), values)?;
                    Ok(Fetched { name, start, end, step: 60, values })
                };
                let others = (1..self.series).map(|n| format!("a.b{n}"));
                std::iter::once("a.b".to_owned()).chain(others).map(fetched).collect()
            }
            .boxed()
        }

        fn nodes<'a>(
            &'a self,
            _: &'a QueryContext,
            _: &'a Pattern,
            _: Option<(i64, i64)>,
        ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
            let node = |n| Found { path: format!("a.n{n}"), is_leaf: n % 2 == 0 };
            let found = (0..self.nodes).map(node).collect();
            async { Ok(found) }.boxed()
        }

        fn tagged<'a>(
            &'a self,
            _: &'a QueryContext,
            _: &'a [TagExpression],
        ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
            async { Ok(Vec::new()) }.boxed()
        }
    }
}
