//! `lowPass`: keeps `cutPercent` percent of the values, half of them at the start and half at the end,
//! and removes the rest: a low-pass filter for the result of `fft`.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "lowPass",
    aliases: &["lpf"],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("cutPercent", Kind::Float)],
    doc: "Keeps `cutPercent` percent of the values, half of them at the start and half at the end, \
          and removes the rest: a low-pass filter for the result of `fft`.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, cut) = (call.series()?, call.float(1)?);
    for series in &mut list {
        let count = series.values.len();
        let low = (cut / 200.0 * count as f64).clamp(0.0, count as f64) as usize;
        let high = count - low;
        let mut place = 0;
        series.values.map(|value| {
            let is_kept = place < low || place >= high;
            place += 1;
            value.filter(|_| is_kept)
        })?;
        series.name = format!("lowPass({},{cut})", series.name);
    }
    Ok(list)
}
