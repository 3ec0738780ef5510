//! `useSeriesAbove`: fetches other series for the series whose maximum is above a threshold; their names
//! are the result of a regular expression substitution.

use futures_util::FutureExt;

use crate::aggregation::Aggregation;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::pattern::Substitution;
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "useSeriesAbove",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("value", Kind::Float),
        required("search", Kind::Regex),
        required("replace", Kind::Text),
    ],
    doc: "Fetches other series for the series whose maximum is above a threshold; their names are \
          the result of a regular expression substitution.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, value, search, replace) = (call.series()?, call.float(1)?, call.text(2)?, call.text(3)?);
    let named = again.compute(move || {
        let (substitution, mut named) = (Substitution::new(&search, &replace)?, Vec::new());
        for mut series in list {
            let name = substitution.apply(&series.name)?;
            // A series with gaps has no maximum here.
            let is_whole = series.points().all(|value| value.is_some());
            let most = Aggregation::Max.of(series.points()).filter(|_| is_whole);
            if most.is_some_and(|most| most > value) {
                series.rename(name);
                named.push(series);
            }
        }
        Ok(named)
    });
    let named = named.await?;
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = named.iter().map(|series| series.name.as_str()).collect();
    let scope = again.call.scope.written();
    let mut found = again.written(&format!("group({})", names.join(",")), &scope).await?;
    found.retain(|series| !series.values.is_empty());
    Ok(found)
}
