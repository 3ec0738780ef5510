//! `powSeriesLists`: raises the series of the first list to the power of those of the second, in pairs.

use super::pairwise::same_length;
use super::power::power;
use crate::call::Call;
use crate::combine::{normalize, pairs};
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "powSeriesLists",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("sourceSeriesList", Kind::SeriesList),
        required("factorSeriesList", Kind::SeriesList),
    ],
    doc: "Raises the series of the first list to the power of those of the second, in pairs.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut results = Vec::new();
    for (mut base, mut exponent) in same_length(&mut call)? {
        let Some(grid) = normalize([&mut base, &mut exponent])? else { continue };
        let values = pairs(&base, &exponent, |base, exponent| power(base?, exponent?))?;
        let name = format!("powSeries({},{})", base.name, exponent.name);
        let series = Series::tagged(name, base.tags, grid.times(), values);
        results.push(series.with_share(call.scope.x_files_factor()));
    }
    Ok(results)
}
