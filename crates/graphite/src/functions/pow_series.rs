//! `powSeries`: raises the first series to the power of the second, the result to the power of the third,
//! and so on.

use crate::call::Call;
use crate::combine::{normalize, rows};
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "powSeries",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[required("seriesList", Kind::SeriesList).many()],
    doc: "Raises the first series to the power of the second, the result to the power of the third, \
          and so on.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let mut list = call.rest_lists()?.into_iter().flatten().collect::<Vec<_>>();
    let Some(grid) = normalize(&mut list)? else { return Ok(Vec::new()) };
    let names: Vec<&str> = list.iter().map(|series| series.name.as_str()).collect();
    let name = format!("powSeries({})", names.join(","));
    let values = rows(&list, |row| {
        let mut values = row.iter().copied();
        let first = values.next().flatten();
        Ok(values.fold(first, |base, exponent| super::power::power(base?, exponent?)))
    })?;
    let (start, end, step) = grid.times();
    Ok(vec![Series::new(name, start, end, step, values).with_share(call.scope.x_files_factor())])
}
