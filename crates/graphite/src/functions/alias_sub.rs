//! `aliasSub`: renames series by a regular expression substitution.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::pattern::Substitution;
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aliasSub",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("search", Kind::Regex),
        required("replace", Kind::Text),
    ],
    doc: "Renames series by a regular expression substitution.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, search, replace) = (call.series()?, call.text(1)?, call.text(2)?);
    let substitution = Substitution::new(&search, &replace)?;
    for series in &mut list {
        series.name = substitution.apply(&series.name)?;
    }
    Ok(list)
}
