//! Graphite's names for label sets, and the exact conditions on them.

use sandur_model::graphite_level;
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
    tags_of_pairs(batch.pairs(series))
}

fn tags_of_pairs<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Tags {
    let mut tags = Tags::default();
    for (label, value) in pairs {
        if let Some(tag) = tag_of(label) {
            tags.set(tag, value);
        }
    }
    tags
}

/// The path of a series, if it has one.
fn path_of_pairs<'a, I>(pairs: impl Fn() -> I) -> Option<&'a str>
where
    I: Iterator<Item = (&'a str, &'a str)>,
{
    let is_path = pairs().any(|(label, _)| Some(label) == graphite_level(0));
    pairs().find(|(label, _)| *label == NAME).filter(|_| is_path).map(|(_, path)| path)
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
        None => canonical_name(&tags_of_pairs(pairs())),
    }
}
