//! A series of a target: values at equal steps, a name, and how it is drawn and consolidated.
//!
//! **Invariant.** Names are told to the job that makes them, byte by byte, so that one that makes many long
//! ones is asked whether it may. Where the job was stopped there are no names: its answer is dropped.

use std::sync::Arc;

use sandur_base::Stopped;
use sandur_base::job::spend;

use crate::column::Column;
use crate::number::Number;
use crate::source::Fetched;
use crate::tags::{Tags, parse_name};

/// How several values of a series become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consolidation {
    /// Their mean.
    #[default]
    Average,
    /// Their mean, places without a value counting as 0.
    AvgZero,
    /// Their sum.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// The first.
    First,
    /// The last.
    Last,
}

impl Consolidation {
    /// All of them with their names.
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

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(own, _)| *own == name).map(|(_, own)| *own)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, own)| *own == self).map_or("average", |(name, _)| name)
    }

    /// One value for places of which `share` must have one, out of `places`.
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

/// The value of an option of drawing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drawing {
    /// It is switched on.
    On,
    /// A number.
    Number(Number),
}

/// Values at equal steps, with a name.
#[derive(Debug, Default)]
pub struct Series {
    /// What clients show and match on.
    pub name: String,
    /// What the series was asked for with; names of sums are made of these.
    pub path_expression: Arc<str>,
    /// Its tags.
    pub tags: Tags,
    /// Time of the first value.
    pub start: i64,
    /// Time after the last value.
    pub end: i64,
    /// Seconds from one value to the next.
    pub step: i64,
    /// The values.
    pub values: Column,
    /// How many values are read as one.
    pub values_per_point: usize,
    /// How they become one.
    pub consolidation: Consolidation,
    /// The share of them that must be there.
    pub x_files_factor: f64,
    /// Options of drawing.
    pub options: Vec<(&'static str, Drawing)>,
    /// The colour of drawing.
    pub color: Option<String>,
}

/// Whether a name looks like a call, and so has no tags of its own.
fn is_call(name: &str) -> bool {
    let Some(open) = name.find('(') else { return false };
    open > 0
        && name[..open].bytes().all(|byte| byte.is_ascii_alphabetic())
        && name.ends_with(')')
        && name.len() > open + 2
}

/// A name of the job; nothing when the job was stopped.
fn told(name: String) -> String {
    // The name is kept twice, and its tags may repeat it.
    match spend(name.len().saturating_mul(4)) {
        Ok(()) => name,
        Err(Stopped) => String::new(),
    }
}

impl Series {
    /// A series with the tags that its name has.
    pub fn new(name: impl Into<String>, start: i64, end: i64, step: i64, values: Column) -> Self {
        let name = told(name.into());
        let parsed = if is_call(&name) { None } else { parse_name(&name).ok() };
        let tags = parsed.unwrap_or_else(|| Tags::of_name(&name));
        Self::tagged(name, tags, (start, end, step), values)
    }

    /// A series that was read, by what it was asked for with and the share of values that must be there.
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
        let name = told(name);
        let path_expression = name.as_str().into();
        Self { name, path_expression, tags, start, end, step, values, values_per_point: 1, ..Self::default() }
    }

    /// Another share that must be there.
    pub(crate) fn with_share(mut self, x_files_factor: f64) -> Self {
        self.x_files_factor = x_files_factor;
        self
    }

    /// The series with other values and another name, by which it is asked for from now on.
    pub(crate) fn derived(self, name: String, values: Column) -> Self {
        let name = told(name);
        let path_expression = name.as_str().into();
        let (options, color) = (Vec::new(), None);
        Self { name, path_expression, values, values_per_point: 1, options, color, ..self }
    }

    /// Gives it the name of a call with it; it is asked for by that name from now on.
    pub(crate) fn rename(&mut self, name: String) {
        self.name = told(name);
        self.path_expression = self.name.as_str().into();
    }

    /// A second series with the same values.
    pub(crate) fn copied(&self) -> Result<Self, Stopped> {
        Ok(Self {
            name: told(self.name.clone()),
            path_expression: Arc::clone(&self.path_expression),
            tags: self.tags.clone(),
            values: self.values.copied()?,
            options: self.options.clone(),
            color: self.color.clone(),
            ..*self
        })
    }

    /// Reads so many values as one.
    pub fn consolidate(&mut self, values_per_point: usize) {
        self.values_per_point = values_per_point.max(1);
    }

    /// The values as they are read.
    pub fn points(&self) -> Points<'_> {
        Points { series: self, place: 0 }
    }

    /// Sets an option of drawing.
    pub(crate) fn draw(&mut self, name: &'static str, value: Drawing) {
        self.options.retain(|(own, _)| *own != name);
        self.options.push((name, value));
    }
}

/// The values of a series as they are read: several as one when it is consolidated.
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
    fn a_point_needs_its_share_of_values() {
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
