//! `stacked`: stacks each series on top of the previous ones of the same stack.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "stacked",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("stack", Kind::Text).or_named("stackName"),
    ],
    doc: "Stacks each series on top of the previous ones of the same stack.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, stack) = (call.series()?, call.maybe_text(1)?);
    let stack = stack.unwrap_or_else(|| "__DEFAULT__".to_owned());
    let scope = call.scope.clone();
    let mut stacked = replace_values(list, |series| {
        let values = scope.with_stack(&stack, |sums| {
            if sums.len() < series.values.len() {
                sums.resize(series.values.len(), 0.0);
            }
            let stacked = series.points().zip(sums).map(|(value, sum)| {
                *sum += value?;
                Some(*sum)
            });
            Column::collect(series.values.len(), stacked)
        })?;
        if stack == "__DEFAULT__" {
            series.tags.set("stacked", &stack);
            return Ok((format!("stacked({})", series.name), values));
        }
        Ok((series.name.clone(), values))
    })?;
    stacked.iter_mut().for_each(|series| series.draw("stacked", Drawing::On));
    Ok(stacked)
}
