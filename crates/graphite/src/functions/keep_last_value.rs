//! `keepLastValue`: fills gaps of at most `limit` points with the last value.

use sandur_base::job::spend;

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "keepLastValue",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("limit", Kind::IntOrInf).or(Preset::Float(f64::INFINITY)),
    ],
    doc: "Fills gaps of at most `limit` points with the last value.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, limit) = (call.series()?, call.float(1)?);
    for series in &mut list {
        series.rename(format!("keepLastValue({})", series.name));
        let values = &mut series.values;
        spend(values.len())?;
        let mut last: Option<(usize, f64)> = None;
        for place in 0..=values.len() {
            let value = values.get(place);
            if value.is_none() && place < values.len() {
                continue;
            }
            if let Some((from, before)) = last
                && (place - from - 1) as f64 <= limit
            {
                (from + 1..place).for_each(|filled| values.set(filled, Some(before)));
            }
            last = value.map(|value| (place, value));
        }
    }
    Ok(list)
}
