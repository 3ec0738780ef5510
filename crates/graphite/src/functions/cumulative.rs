//! `cumulative`: sets the consolidation function to the sum.

use super::consolidate_by::consolidate_by;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "cumulative",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Sets the consolidation function to the sum.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    consolidate_by(call.series()?, "sum")
}
