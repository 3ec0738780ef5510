//! Combines several series on a common grid.

use std::sync::Arc;

use crate::aggregation::{Aggregation, is_enough};
use crate::column::Column;
use crate::error::{Error, Result};
use crate::scope::Scope;
use crate::series::Series;
use sandur_memory::job::spend;

/// The times of series that have the same step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) step: i64,
}

impl Grid {
    /// The start, end and step, for building a series.
    pub(crate) fn times(self) -> (i64, i64, i64) {
        (self.start, self.end, self.step)
    }
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn common_step<'a>(series: impl Iterator<Item = &'a Series>) -> Result<i64> {
    let wrong = || Error::invalid("the steps of the series have no common multiple");
    let mut step: i64 = 1;
    for one in series {
        if one.step <= 0 {
            return Err(wrong());
        }
        let factor = one.step / greatest_common_divisor(step, one.step);
        step = step.checked_mul(factor).ok_or_else(wrong)?;
    }
    Ok(step)
}

/// Consolidates series to the least common multiple of their steps; `None` if there are no series.
pub(crate) fn normalize<'a>(list: impl IntoIterator<Item = &'a mut Series>) -> Result<Option<Grid>> {
    let mut list: Vec<&mut Series> = list.into_iter().collect();
    if list.is_empty() {
        return Ok(None);
    }
    let step = common_step(list.iter().map(|series| &**series))?;
    for series in &mut list {
        let own = series.step;
        series.consolidate(usize::try_from(step / own).unwrap_or(usize::MAX));
    }
    let start = list.iter().map(|series| series.start).min().unwrap_or(0);
    let end = list.iter().map(|series| series.end).max().unwrap_or(0);
    Ok(Some(Grid { start, end: end - (end - start).rem_euclid(step), step }))
}

/// Computes one value per time from the values of all series at that time.
pub(crate) fn rows<'a>(
    list: impl IntoIterator<Item = &'a Series>,
    mut combine: impl FnMut(&[Option<f64>]) -> Result<Option<f64>>,
) -> Result<Column> {
    let mut points: Vec<_> = list.into_iter().map(Series::points).collect();
    let count = points.iter().map(ExactSizeIterator::len).max().unwrap_or(0);
    let mut column = Column::with_room(count)?;
    let mut row = Vec::with_capacity(points.len());
    for _ in 0..count {
        spend(points.len())?;
        row.clear();
        row.extend(points.iter_mut().map(|series| series.next().flatten()));
        column.push(combine(&row)?);
    }
    Ok(column)
}

/// Computes one value per time from the values of two series at that time.
pub(crate) fn pairs(
    first: &Series,
    second: &Series,
    mut combine: impl FnMut(Option<f64>, Option<f64>) -> Option<f64>,
) -> Result<Column> {
    rows([first, second], |row| Ok(combine(row[0], row[1])))
}

/// `a / b`; `None` if `b` is 0.
pub(crate) fn quotient(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    b.filter(|b| *b != 0.0).and_then(|b| Some(a? / b))
}

/// The distinct path expressions of the series, in order, joined by commas.
pub(crate) fn path_expressions<'a>(list: impl IntoIterator<Item = &'a Series>) -> String {
    let mut seen = foldhash::HashSet::default();
    let texts = list.into_iter().map(|series| &*series.path_expression);
    let once: Vec<&str> = texts.filter(|text| seen.insert(*text)).collect();
    once.join(",")
}

/// Aggregates all series to one, by a function whose name may end in `Series`; empty if there are no
/// series.
pub(crate) fn aggregate(
    scope: &Scope,
    list: &mut [Series],
    function: &str,
    share: Option<f64>,
) -> Result<Vec<Series>> {
    let (aggregation, short) = Aggregation::of_series(function)?;
    let Some(grid) = normalize(&mut *list)? else { return Ok(Vec::new()) };
    let share = share.unwrap_or_else(|| scope.x_files_factor());
    let name = format!("{short}Series({})", path_expressions(&*list));
    let values = rows(&*list, |row| {
        let present = row.iter().flatten().count();
        let enough = is_enough(present, row.len() as f64, share);
        Ok(enough.then(|| aggregation.of(row.iter().copied())).flatten())
    })?;
    let mut tags = list.first().map(|series| series.tags.clone()).unwrap_or_default();
    list.iter().for_each(|series| tags.keep_shared(&series.tags));
    if tags.get("name").is_none() {
        tags.set("name", &name);
    }
    tags.set("aggregatedBy", short);
    Ok(vec![Series::tagged(name, tags, grid.times(), values).with_share(share)])
}

/// Groups by key, in the order in which keys were first added.
pub(crate) struct Groups<T> {
    places: foldhash::HashMap<Arc<str>, usize>,
    groups: Vec<(Arc<str>, T)>,
}

impl<T: Default> Groups<T> {
    pub(crate) fn new() -> Self {
        Self { places: foldhash::HashMap::default(), groups: Vec::new() }
    }

    /// The group of a key, which is created if it is new.
    pub(crate) fn of(&mut self, key: &str) -> &mut T {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                let key: Arc<str> = key.into();
                self.places.insert(Arc::clone(&key), self.groups.len());
                self.groups.push((key, T::default()));
                self.groups.len() - 1
            }
        };
        &mut self.groups[place].1
    }

    /// The group of a key, if there is one.
    pub(crate) fn find(&self, key: &str) -> Option<&T> {
        self.places.get(key).and_then(|place| self.groups.get(*place)).map(|(_, group)| group)
    }

    /// The group of a key, for changes.
    pub(crate) fn find_mut(&mut self, key: &str) -> Option<&mut T> {
        let place = self.places.get(key)?;
        self.groups.get_mut(*place).map(|(_, group)| group)
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Arc<str>> + '_ {
        self.groups.iter().map(|(key, _)| Arc::clone(key))
    }

    /// All groups, in order.
    pub(crate) fn into_groups(self) -> impl Iterator<Item = (Arc<str>, T)> {
        self.groups.into_iter()
    }
}
