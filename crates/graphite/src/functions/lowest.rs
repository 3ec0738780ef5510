//! `lowest`: the series of which a function makes the smallest values.

use super::keys::take_first;
use super::sort_by::sort_by;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "lowest",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("n", Kind::Integer),
        optional("func", Kind::AggFunc).or(Preset::Text("average")),
    ],
    doc: "The series of which a function makes the smallest values.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, n, function) = (call.series()?, call.integer(1)?, call.text(2)?);
    let function = Aggregation::named(&function)?;
    Ok(take_first(sort_by(list, function, false)?, n))
}
