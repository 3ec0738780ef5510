//! `aliasQuery`: names series by the last value of another one, whose target is made of their name.

use futures_util::FutureExt;

use super::python_format::python_format;
use crate::aggregation::Aggregation;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::pattern::Substitution;
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aliasQuery",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("search", Kind::Text),
        required("replace", Kind::Text),
        required("newName", Kind::Text),
    ],
    doc: "Names series by the last value of another one, whose target is made of their name.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (mut list, search, replace, name) = (call.series()?, call.text(1)?, call.text(2)?, call.text(3)?);
    let substitution = Substitution::new(&search, &replace)?;
    let scope = again.call.scope.written();
    for series in &mut list {
        again.evaluator.check()?;
        let query = substitution.apply(&series.name)?;
        let found = again.written(&query, &scope).await?;
        let first =
            found.first().ok_or_else(|| Error::invalid(format!("No series found with query: {query}")))?;
        let current = Aggregation::Last.of(first.points());
        let current =
            current.ok_or_else(|| Error::invalid(format!("Cannot get last value of series: {query}")))?;
        series.name = python_format(&name, current)?;
    }
    Ok(list)
}
