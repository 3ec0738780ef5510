//! `ewma`: computes the exponentially weighted moving average, in which each new value has the weight
//! `alpha`.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "ewma",
    aliases: &["exponentialWeightedMovingAverage"],
    group: Group::Calculate,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("alpha", Kind::Float)],
    doc: "Computes the exponentially weighted moving average, in which each new value has the weight \
          `alpha`.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, alpha) = (call.series()?, call.float(1)?);
    let one = |mut series: Series| {
        let mut mean: Option<f64> = None;
        series.values.map_values(|value| {
            mean = Some(mean.map_or(value, |mean| alpha * value + (1.0 - alpha) * mean));
            mean
        })?;
        series.rename(format!("ewma({},{alpha})", series.name));
        Ok(series)
    };
    list.into_iter().map(one).collect()
}
