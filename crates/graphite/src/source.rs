//! What the language needs of storage.

use futures_util::future::BoxFuture;
use sandur_base::job::spend;
use sandur_query::{Error, QueryContext};

use crate::column::Column;
use crate::glob::{Pattern, WithoutEmpty};
use crate::tags::TagExpression;

/// Which series are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Selector<'a> {
    /// Those whose path fits.
    Path(&'a Pattern),
    /// The one tagged series of this name, as it was written.
    Name(&'a str),
    /// Those whose tags fit all expressions.
    Tags(&'a [TagExpression]),
}

/// Which times are asked for, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Values after this.
    pub from: i64,
    /// Values up to this.
    pub until: i64,
    /// The present of the request, which decides how fine old values are.
    pub now: i64,
}

/// A series as it is stored.
#[derive(Debug)]
pub struct Fetched {
    /// Its name, with its tags in canonical form.
    pub name: String,
    /// Time of the first value.
    pub start: i64,
    /// Time after the last value.
    pub end: i64,
    /// Seconds from one value to the next, at least 1.
    pub step: i64,
    /// The values.
    pub values: Column,
}

/// A node of the tree of paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its path.
    pub path: String,
    /// Whether it is a series; a path may be a series and a branch, and then comes twice.
    pub is_leaf: bool,
}

/// Series in storage.
pub trait Source: Send + Sync {
    /// The series that fit, in any order; their memory is reserved from the query's budget.
    fn fetch<'a>(
        &'a self,
        context: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>>;

    /// The nodes of the tree whose path fits and that have values in a time, all times when there is none.
    /// [`Self::find`] calls it with patterns without empty nodes.
    fn nodes<'a>(
        &'a self,
        context: &'a QueryContext,
        pattern: &'a Pattern,
        times: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>>;

    /// The same for any pattern: empty nodes are read as graphite-web does, which looks for paths in
    /// directories ([`Pattern::without_empty_nodes`]). The root is a branch without a name, which always is.
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

    /// Canonical names of the series whose tags fit, in order.
    fn tagged<'a>(
        &'a self,
        context: &'a QueryContext,
        expressions: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Times of the events that have all these tags, after `from` and up to `until`; of all when there is
    /// no tag. None, unless the source keeps events.
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

/// Branches alone, each with a dot at the end.
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

    /// Series of ones, one at least, and so many nodes of which every other one is a series; no tags, no
    /// events.
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
