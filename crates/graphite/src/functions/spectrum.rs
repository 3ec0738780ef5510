//! Fourier transforms of series, and a low-pass filter for their results.

use sandur_memory::job::reserve_exactly;

use super::fourier::{Complex, inverse, transform};
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::Group;
use crate::parameter::{Kind, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function::of(Group::Transform)
    .named(
        "fft",
        "Computes the discrete Fourier transform of series: amplitudes (`abs`), phases (`phase`) or \
          both. A missing value counts as 0.",
        fft,
    )
    .taking(&[SERIES, optional("mode", Kind::Text).of(&["abs", "phase", "both"])])
    .of_carbonapi();

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named(
        "ifft",
        "Computes the inverse Fourier transform from amplitudes and, in a second list, phases.",
        ifft,
    )
    .taking(&[SERIES, optional("phaseSeriesList", Kind::SeriesList)]),
    Function {
        name: "lowPass",
        aliases: &["lpf"],
        parameters: &[SERIES, required("cutPercent", Kind::Float)],
        doc: "Keeps `cutPercent` percent of the values, half of them at the start and half at the end, \
              and removes the rest: a low-pass filter for the result of `fft`.",
        body: Body::Series(low_pass),
        ..BASE
    },
];

/// A part of a complex number, with its name.
type Part = (&'static str, fn(Complex) -> f64);

const LENGTH: Part = ("abs", Complex::length);
const ANGLE: Part = ("phase", Complex::angle);

fn fft(mut call: Call) -> Result<Vec<Series>> {
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

fn ifft(mut call: Call) -> Result<Vec<Series>> {
    let (list, angles) = (call.series()?, call.list(1)?);
    let mut angles = angles.into_iter();
    let one = |series: Series| {
        let angle = angles.next();
        let count = series.points().len();
        let _held = reserve_exactly(48 * count as u64)?;
        let angle_at =
            |place| angle.as_ref().and_then(|angle: &Series| angle.values.get(place)).unwrap_or(0.0);
        let lengths = series.points().map(|value| value.unwrap_or(0.0));
        let frequencies: Vec<Complex> =
            lengths.enumerate().map(|(place, length)| Complex::polar(length, angle_at(place))).collect();
        let values = inverse(&frequencies)?;
        let values = Column::collect(count, values.into_iter().map(|value| Some(value.length())))?;
        let name = match &angle {
            Some(angle) => format!("ifft({},{})", series.name, angle.name),
            None => format!("ifft({})", series.name),
        };
        Ok(series.derived(name, values))
    };
    list.into_iter().map(one).collect()
}

fn low_pass(mut call: Call) -> Result<Vec<Series>> {
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
