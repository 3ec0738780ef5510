//! Graphite's names for label sets, and the exact conditions on them.
//!
//! The labels of levels are hidden only where they are those of the path. Other series may have some of
//! them, for example those that a rule records by `avg by (__g1__) (..)`; there they are tags, so that
//! different series have different names.

use sandur_model::graphite_level_of;
use sandur_query::SeriesBatch;

use super::matchers::{NAME, tag_of};
use crate::glob::Pattern;
use crate::source::Selector;
use crate::tags::{TagExpression, Tags, canonical_name};

/// The exact condition on a series.
#[derive(Clone, Debug)]
pub(super) enum SeriesCondition {
    Path(Pattern),
    Name(String),
    Tags(Vec<TagExpression>),
}

impl SeriesCondition {
    pub(super) fn by(selector: Selector<'_>) -> Self {
        match selector {
            Selector::Path(pattern) => Self::Path(pattern.clone()),
            Selector::Name(name) => Self::Name(name.to_owned()),
            Selector::Tags(expressions) => Self::Tags(expressions.to_vec()),
        }
    }

    /// The steps per byte that comparing a series takes at most.
    pub(super) fn steps(&self) -> usize {
        match self {
            Self::Path(pattern) => pattern.alternatives(),
            Self::Name(_) => 1,
            Self::Tags(expressions) => expressions.iter().map(TagExpression::steps_per_byte).sum(),
        }
    }

    /// The name of a series of a batch, if it matches.
    pub(super) fn name(&self, batch: &SeriesBatch, series: usize) -> Option<String> {
        match self {
            Self::Path(pattern) => {
                let (_, path) = batch.pairs(series).find(|(label, _)| *label == NAME)?;
                pattern.matches(path).then(|| path.to_owned())
            }
            Self::Name(wanted) => Some(name_of(batch, series)).filter(|name| name == wanted),
            Self::Tags(expressions) => {
                let tags = tags_of(batch, series);
                let fits = |one: &TagExpression| one.fits(tags.get(&one.tag).unwrap_or_default());
                expressions.iter().all(fits).then(|| name_of(batch, series))
            }
        }
    }
}

/// The tags of a series; a series with a path has only its name.
pub(super) fn tags_of(batch: &SeriesBatch, series: usize) -> Tags {
    let pairs = || batch.pairs(series);
    tags_of_pairs(pairs(), path_of_pairs(pairs).is_some())
}

fn tags_of_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, is_path: bool) -> Tags {
    let mut tags = Tags::default();
    for (label, value) in pairs {
        let level = Some(label).filter(|label| !is_path && graphite_level_of(label).is_some());
        if let Some(tag) = tag_of(label).or(level) {
            tags.set(tag, value);
        }
    }
    tags
}

/// The path of a series, if its levels are the nodes of its name.
fn path_of_pairs<'a, I>(pairs: impl Fn() -> I) -> Option<&'a str>
where
    I: Iterator<Item = (&'a str, &'a str)>,
{
    let (_, path) = pairs().find(|(label, _)| *label == NAME)?;
    let mut levels = 0;
    for (label, node) in pairs() {
        let Some(level) = graphite_level_of(label) else { continue };
        levels += 1;
        if path.split('.').nth(level) != Some(node) {
            return None;
        }
    }
    (levels > 0 && levels == path.split('.').count()).then_some(path)
}

/// The name of a series, with its tags in canonical form.
pub(super) fn name_of(batch: &SeriesBatch, series: usize) -> String {
    name_of_pairs(|| batch.pairs(series))
}

/// The name of a series by its labels.
pub(crate) fn name_of_pairs<'a, I>(pairs: impl Fn() -> I) -> String
where
    I: Iterator<Item = (&'a str, &'a str)>,
{
    match path_of_pairs(&pairs) {
        Some(path) => path.to_owned(),
        None => canonical_name(&tags_of_pairs(pairs(), false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The levels of such series were hidden, so series that differ only in them were shown as one.
    #[test]
    fn levels_that_are_not_those_of_the_path_are_tags() {
        for (labels, expected) in [
            (&[("__g0__", "a"), ("__g1__", "b"), (NAME, "a.b")][..], "a.b"),
            (&[("__archive__", "60"), ("__g0__", "a"), (NAME, "a")], "a"),
            (&[("__g1__", "web1"), (NAME, "load:avg")], "load:avg;__g1__=web1"),
            (&[("__g0__", "a"), (NAME, "load:avg"), ("dc", "x")], "load:avg;__g0__=a;dc=x"),
            (&[("__g0__", "a"), (NAME, "a.b")], "a.b;__g0__=a"),
            (&[("__g0__", "a"), ("__g2__", "c"), (NAME, "a.c")], "a.c;__g0__=a;__g2__=c"),
            (&[("__graphite__", "tagged"), (NAME, "disk"), ("dc", "x")], "disk;dc=x"),
            (&[("__g0__", "a")], ";__g0__=a"),
        ] {
            assert_eq!(name_of_pairs(|| labels.iter().copied()), expected);
        }
    }
}
