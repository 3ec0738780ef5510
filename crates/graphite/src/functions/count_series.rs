//! `countSeries`: counts the series.

use super::constant_line::constant;
use crate::call::Call;
use crate::combine::{normalize, path_expressions, rows};
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "countSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[optional("seriesLists", Kind::SeriesList).many()],
    doc: "Counts the series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let lists = call.rest_lists()?;
    if lists.is_empty() {
        let mut series = constant(&call.scope, Some(0.0), "0".to_owned())?;
        series.path_expression = "countSeries()".into();
        return Ok(vec![series]);
    }
    let mut list: Vec<Series> = lists.into_iter().flatten().collect();
    let Some(grid) = normalize(&mut list)? else { return Ok(Vec::new()) };
    let name = format!("countSeries({})", path_expressions(&list));
    let values = rows(&list, |row| Ok(Some(row.len() as f64)))?.of_integers();
    let (start, end, step) = grid.times();
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}
