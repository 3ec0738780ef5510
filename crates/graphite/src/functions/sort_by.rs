//! `sortBy`: sorts series by an aggregate.

use sandur_base::job::spend;

use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sortBy",
    aliases: &[],
    group: Group::Sorting,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("func", Kind::AggFunc).or(Preset::Text("average")),
        optional("reverse", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Sorts series by an aggregate.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, function, reverse) = (call.series()?, call.text(1)?, call.flag(2));
    sort_by(list, Aggregation::named(&function)?, reverse)
}

/// Sorts by an aggregate with a stable sort; series without a value count as the smallest.
pub(super) fn sort_by(list: Vec<Series>, function: Aggregation, reverse: bool) -> Result<Vec<Series>> {
    let mut keyed = Vec::with_capacity(list.len());
    for series in list {
        spend(series.values.len())?;
        keyed.push((function.of(series.points()).unwrap_or(f64::NEG_INFINITY), series));
    }
    keyed.sort_by(|(a, _), (b, _)| {
        if reverse { crate::aggregation::order(*b, *a) } else { crate::aggregation::order(*a, *b) }
    });
    Ok(keyed.into_iter().map(|(_, series)| series).collect())
}
