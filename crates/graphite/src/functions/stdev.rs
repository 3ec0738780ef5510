//! `stdev`: computes the standard deviation over a sliding window of `points` points.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "stdev",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("points", Kind::Integer),
        optional("windowTolerance", Kind::Float).or(Preset::Float(0.1)),
    ],
    doc: "Computes the standard deviation over a sliding window of `points` points.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, points, tolerance) = (call.series()?, call.integer(1)?, call.float(2)?);
    if points < 0 {
        return Err(Error::invalid("stdev needs a number of points that is not below zero"));
    }
    replace_values(list, |series| {
        series.tags.set("stdev", points);
        Ok((format!("stdev({},{points})", series.name), deviations(series, points, tolerance)?))
    })
}

fn deviations(series: &Series, points: i64, tolerance: f64) -> Result<Column> {
    let mut values = Column::with_room(series.values.len())?;
    let (mut valid, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (place, value) in series.points().enumerate() {
        let dropped = i64::try_from(place).ok().filter(|place| *place >= points);
        let dropped = dropped.and_then(|place| series.values.get(usize::try_from(place - points).ok()?));
        if let Some(dropped) = dropped {
            valid -= 1.0;
            sum -= dropped;
            squares -= dropped * dropped;
        }
        if let Some(value) = value {
            valid += 1.0;
            sum += value;
            squares += value * value;
        }
        let deviation = || Some((valid * squares - sum * sum).sqrt() / valid).filter(|found| !found.is_nan());
        values.push(if valid > 0.0 && valid / points as f64 >= tolerance { deviation() } else { None });
    }
    Ok(values)
}
