//! A series of a target: values at equal steps, a name, and options for drawing and consolidation.
//!
//! **Invariant.** Creating a name reports its bytes as work, so that a job that creates many long names can
//! be cancelled. In a cancelled job names are empty, and the answer is dropped.

use std::sync::Arc;

use sandur_memory::Stopped;
use sandur_memory::job::spend;

use crate::column::Column;
use crate::number::Number;
use crate::source::Fetched;
use crate::tags::{Tags, parse_name};

/// The function that consolidates several values to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consolidation {
    /// The mean.
    #[default]
    Average,
    /// The mean, with 0 for missing values.
    AvgZero,
    /// The sum.
    Sum,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
    /// The first value.
    First,
    /// The last value.
    Last,
}

impl Consolidation {
    /// All functions with their names.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("average", Self::Average),
        ("avg", Self::Average),
        ("avg_zero", Self::AvgZero),
        ("first", Self::First),
        ("last", Self::Last),
        ("max", Self::Max),
        ("min", Self::Min),
        ("sum", Self::Sum),
    ];

    /// The function with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(own, _)| *own == name).map(|(_, own)| *own)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, own)| *own == self).map_or("average", |(name, _)| name)
    }

    /// Consolidates `places` values, of which at least the fraction `share` must be present.
    pub fn of(
        self,
        values: impl Iterator<Item = Option<f64>> + Clone,
        places: usize,
        share: f64,
    ) -> Option<f64> {
        let present = values.clone().flatten().count();
        if present == 0 || (present as f64 / places as f64) < share {
            return None;
        }
        let mut some = values.clone().flatten();
        match self {
            Self::Average => Some(some.sum::<f64>() / present as f64),
            Self::AvgZero => Some(some.sum::<f64>() / values.count() as f64),
            Self::Sum => Some(some.sum()),
            Self::Min => some.reduce(|least, value| if value < least { value } else { least }),
            Self::Max => some.reduce(|most, value| if value > most { value } else { most }),
            Self::First => some.next(),
            Self::Last => some.last(),
        }
    }
}

/// The value of a drawing option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drawing {
    /// The option is enabled.
    On,
    /// A number.
    Number(Number),
}

/// A series of values at equal steps.
#[derive(Debug, Default)]
pub struct Series {
    /// The name, which clients show and match on.
    pub name: String,
    /// The expression that selected the series; names of aggregations are built from it.
    pub path_expression: Arc<str>,
    /// The tags.
    pub tags: Tags,
    /// The time of the first value, in seconds since 1970.
    pub start: i64,
    /// The time after the last value, exclusive.
    pub end: i64,
    /// The distance of two values, in seconds.
    pub step: i64,
    /// The values.
    pub values: Column,
    /// The number of values that are consolidated to one point.
    pub values_per_point: usize,
    /// The function that consolidates them.
    pub consolidation: Consolidation,
    /// The fraction of values that a consolidated point requires.
    pub x_files_factor: f64,
    /// The drawing options.
    pub options: Vec<(&'static str, Drawing)>,
    /// The colour in which it is drawn.
    pub color: Option<String>,
}

/// Whether a name looks like a function call, and thus has no tags of its own.
fn is_call(name: &str) -> bool {
    let Some(open) = name.find('(') else { return false };
    open > 0
        && name[..open].bytes().all(|byte| byte.is_ascii_alphabetic())
        && name.ends_with(')')
        && name.len() > open + 2
}

/// Reports the work of a name, and returns it; empty if the job was cancelled.
fn with_work_reported(name: String) -> String {
    // The name is stored twice, and its tags may repeat it.
    match spend(name.len().saturating_mul(4)) {
        Ok(()) => name,
        Err(Stopped) => String::new(),
    }
}

impl Series {
    /// A series with the tags in its name.
    pub fn new(name: impl Into<String>, start: i64, end: i64, step: i64, values: Column) -> Self {
        let name = with_work_reported(name.into());
        let parsed = if is_call(&name) { None } else { parse_name(&name).ok() };
        let tags = parsed.unwrap_or_else(|| Tags::of_name(&name));
        Self::tagged(name, tags, (start, end, step), values)
    }

    /// A series from storage, with the expression that selected it and the required fraction of values.
    pub(crate) fn of_fetched(fetched: Fetched, path: &Arc<str>, x_files_factor: f64) -> Self {
        let Fetched { name, start, end, step, values } = fetched;
        let path_expression = Arc::clone(path);
        Self { path_expression, x_files_factor, ..Self::new(name, start, end, step.max(1), values) }
    }

    /// A series with these tags.
    pub(crate) fn tagged(
        name: String,
        tags: Tags,
        (start, end, step): (i64, i64, i64),
        values: Column,
    ) -> Self {
        let name = with_work_reported(name);
        let path_expression = name.as_str().into();
        Self { name, path_expression, tags, start, end, step, values, values_per_point: 1, ..Self::default() }
    }

    /// Sets the fraction of values that a consolidated point requires.
    pub(crate) fn with_share(mut self, x_files_factor: f64) -> Self {
        self.x_files_factor = x_files_factor;
        self
    }

    /// The series with new values and a new name, which also becomes its expression.
    pub(crate) fn derived(self, name: String, values: Column) -> Self {
        let name = with_work_reported(name);
        let path_expression = name.as_str().into();
        let (options, color) = (Vec::new(), None);
        Self { name, path_expression, values, values_per_point: 1, options, color, ..self }
    }

    /// Sets the name, which also becomes its expression.
    pub(crate) fn rename(&mut self, name: String) {
        self.name = with_work_reported(name);
        self.path_expression = self.name.as_str().into();
    }

    /// A copy of the series.
    pub(crate) fn copied(&self) -> Result<Self, Stopped> {
        Ok(Self {
            name: with_work_reported(self.name.clone()),
            path_expression: Arc::clone(&self.path_expression),
            tags: self.tags.clone(),
            values: self.values.copied()?,
            options: self.options.clone(),
            color: self.color.clone(),
            ..*self
        })
    }

    /// Sets the number of values that are consolidated to one point.
    pub fn consolidate(&mut self, values_per_point: usize) {
        self.values_per_point = values_per_point.max(1);
    }

    /// The consolidated points.
    pub fn points(&self) -> Points<'_> {
        Points { series: self, place: 0 }
    }

    /// Sets a drawing option.
    pub(crate) fn draw(&mut self, name: &'static str, value: Drawing) {
        self.options.retain(|(own, _)| *own != name);
        self.options.push((name, value));
    }
}

/// An iterator over the consolidated points of a series.
#[derive(Clone)]
pub struct Points<'a> {
    series: &'a Series,
    place: usize,
}

impl Iterator for Points<'_> {
    type Item = Option<f64>;

    fn next(&mut self) -> Option<Self::Item> {
        let series = self.series;
        if self.place >= series.values.len() {
            return None;
        }
        let (place, many) = (self.place, series.values_per_point.max(1));
        self.place = place.saturating_add(many);
        if many == 1 {
            return Some(series.values.get(place));
        }
        let part = series.values.part(place..self.place);
        Some(series.consolidation.of(part, many, series.x_files_factor))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.series.values.len().saturating_sub(self.place);
        let count = left.div_ceil(self.series.values_per_point.max(1));
        (count, Some(count))
    }
}

impl ExactSizeIterator for Points<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_requires_the_fraction_of_values() {
        let values = Column::collect(5, [Some(1.0), None, Some(3.0), Some(4.0), Some(5.0)]).unwrap();
        let mut series = Series::new("a;b=c", 0, 5, 1, values);
        assert_eq!(series.tags.get("b"), Some("c"));
        series.consolidate(2);
        assert_eq!(series.points().collect::<Vec<_>>(), [Some(1.0), Some(3.5), Some(5.0)]);
        series.x_files_factor = 0.6;
        assert_eq!(series.points().collect::<Vec<_>>(), [None, Some(3.5), None]);
        assert_eq!(Series::new("sum(a;b=c)", 0, 0, 1, Column::default()).tags.get("b"), None);
    }
}
