//! Distributions of values over several series.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use sandur_memory::job::spend;

use crate::aggregation::order;
use crate::call::Call;
use crate::column::Column;
use crate::combine::pairs;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::group::Group;
use crate::parameter::{Kind, Preset, SERIES, optional};
use crate::series::Series;

pub(super) const TABLE: &[Function] = &[
    Function::of(Group::Combine)
        .named(
            "countValues",
            "Counts, at each timestamp, the series with each integer value; the result has one series \
              per value.",
            count_values,
        )
        .taking(&[SERIES, optional("valuesLimit", Kind::Integer).or(Preset::Int(32))])
        .of_carbonapi(),
    Function::of(Group::Transform)
        .named(
            "heatMap",
            "Subtracts from each series the previous one, in ascending order of the sums of their first \
              values.",
            heat_map,
        )
        .of_carbonapi(),
];

/// The most distinct values of a call.
const VALUES_MAX: i64 = 10_000;

fn count_values(mut call: Call) -> Result<Vec<Series>> {
    let (list, limit) = (call.series()?, call.integer(1)?.clamp(0, VALUES_MAX) as usize);
    let Some(first) = list.first() else { return Ok(Vec::new()) };
    let count = list.iter().map(|series| series.values.len()).max().unwrap_or(0);
    let mut columns: BTreeMap<i64, Column> = BTreeMap::new();
    for series in &list {
        spend(series.values.len())?;
        for (place, value) in series.points().enumerate() {
            let Some(value) = value else { continue };
            // Truncated towards zero, as a conversion of floats to integers does.
            let key = value as i64;
            if !columns.contains_key(&key) && columns.len() >= limit {
                return none_of_too_many(first, count);
            }
            let column = match columns.entry(key) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(Column::filled(Some(0.0), count)?),
            };
            column.set(place, column.get(place).map(|hits| hits + 1.0));
        }
    }
    let times = (first.start, first.end, first.step);
    let made = columns.into_iter().map(|(value, column)| {
        let tags = first.tags.clone();
        Series::tagged(value.to_string(), tags, times, column).with_share(first.x_files_factor)
    });
    Ok(made.collect())
}

/// The answer for too many values that carbonapi's clients know: one series named `valuesLimitReached`.
fn none_of_too_many(first: &Series, count: usize) -> Result<Vec<Series>> {
    let times = (first.start, first.end, first.step);
    let values = Column::filled(Some(0.0), count)?;
    Ok(vec![Series::tagged("valuesLimitReached".to_owned(), first.tags.clone(), times, values)])
}

/// The number of places that determine the order: the first ones at which all series have a value.
const PLACES: usize = 5;

fn heat_map(mut call: Call) -> Result<Vec<Series>> {
    let list = in_order(call.series()?)?;
    let Some(first) = list.first() else { return Ok(Vec::new()) };
    let grid = |series: &Series| (series.start, series.end, series.step, series.values.len());
    if let Some(other) = list.iter().find(|series| grid(series) != grid(first)) {
        let (a, b) = (&first.name, &other.name);
        return Err(Error::invalid(format!(
            "heatMap needs series of the same times, but {a} and {b} differ"
        )));
    }
    let mut results = Vec::with_capacity(list.len());
    for pair in list.windows(2) {
        let (before, series) = (&pair[0], &pair[1]);
        let values = pairs(series, before, |value, before| Some(value? - before?))?;
        let name = format!("heatMap({},{})", series.name, before.name);
        let times = (series.start, series.end, series.step);
        results
            .push(Series::tagged(name, series.tags.clone(), times, values).with_share(series.x_files_factor));
    }
    Ok(results)
}

fn in_order(list: Vec<Series>) -> Result<Vec<Series>> {
    let count = list.iter().map(|series| series.values.len()).min().unwrap_or(0);
    let mut sums = vec![0.0; list.len()];
    let mut places = 0;
    for place in 0..count {
        spend(list.len())?;
        let row: Option<Vec<f64>> = list.iter().map(|series| series.values.get(place)).collect();
        let Some(row) = row else { continue };
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        places += 1;
        if places == PLACES {
            break;
        }
    }
    let mut weighed: Vec<(f64, Series)> = sums.into_iter().zip(list).collect();
    weighed.sort_by(|(a, _), (b, _)| order(*a, *b));
    Ok(weighed.into_iter().map(|(_, series)| series).collect())
}
