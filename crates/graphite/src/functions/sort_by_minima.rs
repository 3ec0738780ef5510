//! `sortByMinima`: sorts series by their minimum; drops series without a value above 0.

use super::sort_by::sort_by;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sortByMinima",
    aliases: &[],
    group: Group::Sorting,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList)],
    doc: "Sorts series by their minimum; drops series without a value above 0.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.series()?;
    list.retain(|series| Aggregation::Max.of(series.points()).is_some_and(|most| most > 0.0));
    sort_by(list, Aggregation::Min, false)
}
