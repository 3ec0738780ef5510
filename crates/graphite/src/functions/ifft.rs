//! `ifft`: computes the inverse Fourier transform from amplitudes and, in a second list, phases.

use super::fourier::{Complex, inverse};
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;
use sandur_base::job::reserve_exactly;

pub(super) const FUNCTION: Function = Function {
    name: "ifft",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), optional("phaseSeriesList", Kind::SeriesList)],
    doc: "Computes the inverse Fourier transform from amplitudes and, in a second list, phases.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
