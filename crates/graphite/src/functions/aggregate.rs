//! `aggregate`: aggregates all series to one at each timestamp.

use crate::call::Call;
use crate::combine::aggregate;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aggregate",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("func", Kind::AggFunc),
        optional("xFilesFactor", Kind::Float),
    ],
    doc: "Aggregates all series to one at each timestamp.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, function, share) = (call.series()?, call.text(1)?, call.maybe_float(2)?);
    aggregate(&call.scope, &mut list, &function, share)
}
