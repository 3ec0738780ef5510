//! `divideSeriesLists`: divides the series of the first list by those of the second, in pairs.

use super::pairwise::same_length;
use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "divideSeriesLists",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("dividendSeriesList", Kind::SeriesList),
        required("divisorSeriesList", Kind::SeriesList),
    ],
    doc: "Divides the series of the first list by those of the second, in pairs.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let share = call.scope.x_files_factor();
    let both = same_length(&mut call)?;
    both.map(|(mut first, mut second)| super::divide_series::divided(&mut first, &mut second, share))
        .collect()
}
