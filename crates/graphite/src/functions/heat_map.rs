//! `heatMap`: subtracts from each series the previous one, in ascending order of the sums of their first
//! values.

use sandur_base::job::spend;

use crate::aggregation::order;
use crate::call::Call;
use crate::combine::pairs;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "heatMap",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Subtracts from each series the previous one, in ascending order of the sums of their first \
          values.",
    body: Body::Series(run),
};

/// The number of places that determine the order: the first ones at which all series have a value.
const PLACES: usize = 5;

fn run(mut call: Call) -> Result<Vec<Series>> {
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
