//! `lowest`: keeps the `n` series with the smallest aggregate.

use super::highest::{PARAMETERS, ranked};
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "lowest",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Keeps the `n` series with the smallest aggregate.",
    body: Body::Series(run),
};

fn run(call: Call) -> Result<Vec<Series>> {
    ranked(call, false)
}
