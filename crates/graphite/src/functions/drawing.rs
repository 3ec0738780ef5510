//! Options with which series are drawn, and areas between and above series.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::group::Group;
use crate::number::general;
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::series::{Drawing, Series};

const BASE: Function = Function::of(Group::Graph)
    .named("alpha", "Sets the opacity with which series are drawn.", draw_with_number)
    .taking(&[SERIES, required("alpha", Kind::Float)]);

pub(super) const TABLE: &[Function] = &[
    BASE,
    BASE.named("areaBetween", "Draws the area between two series.", |mut call| area_between(call.series()?))
        .taking(&[SERIES]),
    BASE.named("color", "Sets the colour in which series are drawn.", color)
        .taking(&[SERIES, required("theColor", Kind::Text)]),
    BASE.named("dashed", "Draws series with dashed lines.", dashed)
        .taking(&[SERIES, optional("dashLength", Kind::Integer).or(Preset::Int(5))]),
    BASE.named("drawAsInfinite", "Draws each value above 0 as a vertical line over the full height.", draw)
        .taking(&[SERIES]),
    Function {
        name: "lineWidth",
        parameters: &[SERIES, required("width", Kind::Float)],
        doc: "Sets the width of the lines of series.",
        ..BASE
    },
    BASE.named("secondYAxis", "Draws series on the right-hand axis.", draw).taking(&[SERIES]),
    BASE.named("stacked", "Stacks each series on top of the previous ones of the same stack.", stacked)
        .taking(&[SERIES, optional("stack", Kind::Text).or_named("stackName")]),
];

/// Enables the option with the name of the function; series are named after the call.
fn draw(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, option) = (call.series()?, call.function.name);
    for series in &mut list {
        series.draw(option, Drawing::On);
        series.tags.set(option, 1);
        series.name = format!("{option}({})", series.name);
    }
    Ok(list)
}

/// Sets the option with the name of the function to the number of the second parameter.
fn draw_with_number(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, number, option) = (call.series()?, call.number(1)?, call.function.name);
    list.iter_mut().for_each(|series| series.draw(option, Drawing::Number(number)));
    Ok(list)
}

/// Implements `areaBetween` for a list of two series.
pub(super) fn area_between(mut list: Vec<Series>) -> Result<Vec<Series>> {
    let [lower, upper] = list.as_mut_slice() else {
        let count = list.len();
        return Err(Error::invalid(format!("areaBetween takes exactly 2 series, not {count}")));
    };
    lower.draw("stacked", Drawing::On);
    lower.draw("invisible", Drawing::On);
    upper.draw("stacked", Drawing::On);
    upper.tags.set("areaBetween", 1);
    lower.tags = upper.tags.clone();
    let name = format!("areaBetween({})", upper.path_expression);
    (lower.name, upper.name) = (name.clone(), name);
    Ok(list)
}

fn color(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, color) = (call.series()?, call.text(1)?);
    list.iter_mut().for_each(|series| series.color = Some(color.clone()));
    Ok(list)
}

fn dashed(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, length) = (call.series()?, call.number(1)?);
    for series in &mut list {
        series.tags.set("dashed", length);
        series.name = format!("dashed({}, {})", series.name, general(length.value()));
        series.draw("dashed", Drawing::Number(length));
    }
    Ok(list)
}

fn stacked(mut call: Call) -> Result<Vec<Series>> {
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
