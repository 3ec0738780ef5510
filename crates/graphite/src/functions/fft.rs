//! `fft`: computes the discrete Fourier transform of series: amplitudes (`abs`), phases (`phase`) or
//! both. A missing value counts as 0.

use super::fourier::{Complex, transform};
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;
use sandur_base::job::reserve_exactly;

pub(super) const FUNCTION: Function = Function {
    name: "fft",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("mode", Kind::Text).of(&["abs", "phase", "both"]),
    ],
    doc: "Computes the discrete Fourier transform of series: amplitudes (`abs`), phases (`phase`) or \
          both. A missing value counts as 0.",
    body: Body::Series(run),
};

/// A part of a complex number, with its name.
type Part = (&'static str, fn(Complex) -> f64);

const LENGTH: Part = ("abs", Complex::length);
const ANGLE: Part = ("phase", Complex::angle);

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, mode) = (call.series()?, call.maybe_text(1)?.unwrap_or_default());
    let parts: &[Part] = match mode.as_str() {
        "" | "both" | "all" => &[LENGTH, ANGLE],
        "abs" => &[LENGTH],
        "phase" => &[ANGLE],
        _ => return Err(Error::invalid(format!("fft knows abs, phase and both, not '{mode}'"))),
    };
    let mut results = Vec::with_capacity(list.len() * parts.len());
    for series in list {
        let count = series.points().len();
        let _held = reserve_exactly(32 * count as u64)?;
        let values: Vec<Complex> =
            series.points().map(|value| Complex { real: value.unwrap_or(0.0), imaginary: 0.0 }).collect();
        let frequencies = transform(&values)?;
        let times = (series.start, series.end, series.step);
        for (name, part) in parts {
            let values = Column::collect(count, frequencies.iter().map(|value| Some(part(*value))))?;
            let name = format!("fft({},{name})", series.name);
            let made = Series::tagged(name, series.tags.clone(), times, values);
            results.push(made.with_share(series.x_files_factor));
        }
    }
    Ok(results)
}
