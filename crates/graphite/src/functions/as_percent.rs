//! `asPercent`: computes each series as a percentage of a total: a number, a series, the sum of all
//! series, or the sum of the series with the same nodes.

use super::keys::group_by_key;
use crate::aggregation::Aggregation;
use crate::call::{Call, NodeOrTag};
use crate::column::Column;
use crate::combine::{Grid, Groups, normalize, pairs, path_expressions, quotient, rows};
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::{Group, Origin};
use crate::parameter::{Argument, Kind, SERIES, optional};
use crate::series::Series;

pub(super) const TABLE: &[Function] = &[Function {
    name: "asPercent",
    aliases: &["pct"],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: true,
    parameters: &[SERIES, optional("total", Kind::Any), optional("nodes", Kind::NodeOrTag).many()],
    doc: "Computes each series as a percentage of a total: a number, a series, the sum of all \
          series, or the sum of the series with the same nodes.",
    body: Body::Series(as_percent),
}];

fn as_percent(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, total, nodes) = (call.series()?, call.argument(1), call.nodes()?);
    if normalize(&mut list)?.is_none() {
        return Ok(Vec::new());
    }
    let share = call.scope.x_files_factor();
    match nodes.is_empty() {
        true => of_total(list, total, share),
        false => by_nodes(list, total, &nodes, share),
    }
}

fn percent(value: Option<f64>, total: Option<f64>) -> Option<f64> {
    quotient(value, total).map(|part| part * 100.0)
}

/// The sum of all series, on a common grid.
fn summed(list: &mut [Series], share: f64) -> Result<(Series, Option<Grid>)> {
    let grid = normalize(&mut *list)?;
    let name = format!("sumSeries({})", path_expressions(&*list));
    let values = rows(&*list, |row| Ok(Aggregation::Sum.of(row.iter().copied())))?;
    let (start, end, step) = grid.map(Grid::times).unwrap_or_default();
    Ok((Series::new(name, start, end, step, values).with_share(share), grid))
}

/// A series as a percentage of another.
fn of_series(series: &mut Series, total: &mut Series, share: f64) -> Result<(Series, Option<Grid>)> {
    let name = format!("asPercent({},{})", series.name, total.name);
    let grid = normalize([&mut *series, &mut *total])?;
    let (start, end, step) = grid.map(Grid::times).unwrap_or_default();
    let values = pairs(series, total, percent)?;
    Ok((Series::new(name, start, end, step, values).with_share(share), grid))
}

fn of_total(mut list: Vec<Series>, total: Argument, share: f64) -> Result<Vec<Series>> {
    let (text, total) = match total {
        Argument::None => {
            let text = format!("sumSeries({})", path_expressions(&list));
            (text, rows(&list, |row| Ok(Aggregation::Sum.of(row.iter().copied())))?)
        }
        Argument::Number(number) => {
            let count = list.first().map_or(0, |series| series.values.len());
            (number.to_string(), Column::filled(Some(number.value()), count)?)
        }
        Argument::Series(mut totals) if totals.len() == list.len() => {
            list.sort_by(|a, b| a.name.cmp(&b.name));
            totals.sort_by(|a, b| a.name.cmp(&b.name));
            let both = list.iter_mut().zip(&mut totals);
            return both.map(|(series, total)| Ok(of_series(series, total, share)?.0)).collect();
        }
        Argument::Series(mut totals) if totals.len() == 1 => {
            normalize(list.iter_mut().chain(&mut totals))?;
            let total = totals.remove(0);
            let points = total.points();
            (total.name.clone(), Column::collect(points.len(), points)?)
        }
        _ => {
            return Err(Error::invalid(
                "asPercent second argument must be missing, a single digit, reference exactly 1 series or \
                 reference the same number of series as the first argument",
            ));
        }
    };
    let total = Series { values: total, values_per_point: 1, ..Series::default() };
    let one = |series: Series| {
        let values = pairs(&series, &total, percent)?;
        let of = if text.is_empty() { &*series.path_expression } else { text.as_str() };
        let name = format!("asPercent({},{of})", series.name);
        Ok(Series::new(name, series.start, series.end, series.step, values).with_share(share))
    };
    list.into_iter().map(one).collect()
}

fn by_nodes(list: Vec<Series>, total: Argument, nodes: &[NodeOrTag], share: f64) -> Result<Vec<Series>> {
    let mut groups = group_by_key(list, nodes)?;
    let mut totals = Groups::<Option<Series>>::new();
    let mut grid = None;
    let total_groups = match total {
        Argument::None => {
            for key in groups.keys().collect::<Vec<_>>() {
                let Some(group) = groups.find_mut(&key) else { continue };
                *totals.of(&key) = Some(match group.as_mut_slice() {
                    [one] => one.copied()?,
                    many => {
                        let (sum, of_sum) = summed(many, share)?;
                        grid = of_sum;
                        sum
                    }
                });
            }
            Groups::<Vec<Series>>::new()
        }
        Argument::Series(totals) => group_by_key(totals, nodes)?,
        _ => return Err(Error::invalid("total must be None or a seriesList")),
    };
    for (key, mut group) in total_groups.into_groups() {
        if groups.find(&key).is_none() {
            groups.of(&key);
        }
        *totals.of(&key) = match group.len() {
            1 => group.pop(),
            _ => {
                let (sum, of_sum) = summed(&mut group, share)?;
                grid = of_sum;
                Some(sum)
            }
        };
    }
    let mut results = Vec::new();
    for (key, group) in groups.into_groups() {
        let mut total = totals.find_mut(&key);
        if group.is_empty()
            && let Some(Some(total)) = &total
        {
            let name = format!("asPercent(MISSING,{})", total.name);
            results.push(missing(name, total.points().len(), grid, share)?);
        }
        for mut series in group {
            let Some(Some(total)) = &mut total else {
                let name = format!("asPercent({},MISSING)", series.name);
                results.push(missing(name, series.points().len(), grid, share)?);
                continue;
            };
            let (result, of_pair) = of_series(&mut series, total, share)?;
            grid = of_pair;
            results.push(result);
        }
    }
    Ok(results)
}

/// A series without values, at the times of the previous series.
fn missing(name: String, count: usize, grid: Option<Grid>, share: f64) -> Result<Series> {
    let grid = grid.ok_or_else(|| Error::invalid("asPercent has no series for the first total"))?;
    let (start, end, step) = grid.times();
    Ok(Series::new(name, start, end, step, Column::filled(None, count)?).with_share(share))
}
