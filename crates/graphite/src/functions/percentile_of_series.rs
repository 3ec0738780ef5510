//! `percentileOfSeries`: computes a percentile of all series at each timestamp.

use crate::aggregation::percentile;
use crate::call::Call;
use crate::combine::{normalize, rows};
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "percentileOfSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("n", Kind::Float),
        optional("interpolate", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Computes a percentile of all series at each timestamp.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, n, interpolate) = (call.series()?, call.float(1)?, call.flag(2));
    if n <= 0.0 {
        return Err(Error::invalid("The requested percent is required to be greater than 0"));
    }
    let Some(grid) = normalize(&mut list)? else { return Ok(Vec::new()) };
    let path = list.first().map_or("", |series| &*series.path_expression);
    let name = format!("percentileOfSeries({path},{})", general(n));
    let values = rows(&list, |row| percentile(row.iter().copied(), n, interpolate))?;
    let (start, end, step) = grid.times();
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}
