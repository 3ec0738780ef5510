//! `aliasQuery`: renames series to a text with the last value of another series, whose target is the
//! result of a regular expression substitution on their name.

use futures_util::FutureExt;

use super::python_format::python_format;
use crate::aggregation::Aggregation;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::pattern::Substitution;
use crate::series::Series;
use crate::tags::Tags;

pub(super) const FUNCTION: Function = Function {
    name: "aliasQuery",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("search", Kind::Regex),
        required("replace", Kind::Text),
        required("newName", Kind::Text),
    ],
    doc: "Renames series to a text with the last value of another series, whose target is the result \
          of a regular expression substitution on their name.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (mut list, search, replace, name) = (call.series()?, call.text(1)?, call.text(2)?, call.text(3)?);
    let queries = queries(&again, &list, (search, replace)).await?;
    let scope = again.call.scope.written();
    for (series, query) in list.iter_mut().zip(queries) {
        again.evaluator.check()?;
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

/// Computes the targets: the result of the substitution for each series name.
async fn queries(
    again: &Again<'_>,
    list: &[Series],
    (search, replace): (String, String),
) -> Result<Vec<String>> {
    let names: Vec<String> = list.iter().map(|series| series.name.clone()).collect();
    let named = again.compute(move || {
        let substitution = Substitution::new(&search, &replace)?;
        let named = |name: &String| {
            let query = substitution.apply(name)?;
            Ok(Series::tagged(query, Tags::default(), (0, 0, 1), Column::default()))
        };
        names.iter().map(named).collect()
    });
    Ok(named.await?.into_iter().map(|series| series.name).collect())
}
