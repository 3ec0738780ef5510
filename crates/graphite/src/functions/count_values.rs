//! `countValues`: counts, at each timestamp, the series with each integer value; the result has one
//! series per value.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use sandur_base::job::spend;

use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "countValues",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("valuesLimit", Kind::Integer).or(Preset::Int(32)),
    ],
    doc: "Counts, at each timestamp, the series with each integer value; the result has one series \
          per value.",
    body: Body::Series(run),
};

/// The most distinct values of a call.
const VALUES_MAX: i64 = 10_000;

fn run(mut call: Call) -> Result<Vec<Series>> {
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
