//! `interpolate`: fills gaps of at most `limit` points by linear interpolation.

use sandur_base::job::spend;

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "interpolate",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("limit", Kind::IntOrInf).or(Preset::Float(f64::INFINITY)),
    ],
    doc: "Fills gaps of at most `limit` points by linear interpolation.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, limit) = (call.series()?, call.float(1)?);
    for series in &mut list {
        series.rename(format!("interpolate({})", series.name));
        let values = &mut series.values;
        spend(values.len())?;
        let mut last: Option<(usize, f64)> = None;
        for place in 0..values.len() {
            let Some(value) = values.get(place) else { continue };
            if let Some((from, before)) = last {
                let missing = place - from - 1;
                if missing > 0 && missing as f64 <= limit {
                    for filled in from + 1..place {
                        let part = (filled - from) as f64 * (value - before) / (missing + 1) as f64;
                        values.set(filled, Some(before + part));
                    }
                }
            }
            last = Some((place, value));
        }
    }
    Ok(list)
}
