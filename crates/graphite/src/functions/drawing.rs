//! Options with which series are drawn, and areas between and above series.

use super::series_of::replace_values;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::series::{Drawing, Series};

const BASE: Function = Function {
    name: "alpha",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[SERIES, required("alpha", Kind::Float)],
    doc: "Sets the opacity with which series are drawn.",
    body: Body::Series(draw_with_number),
};

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "areaBetween",
        parameters: &[SERIES],
        doc: "Draws the area between two series.",
        body: Body::Series(|mut call| area_between(call.series()?)),
        ..BASE
    },
    Function {
        name: "color",
        parameters: &[SERIES, required("theColor", Kind::Text)],
        doc: "Sets the colour in which series are drawn.",
        body: Body::Series(color),
        ..BASE
    },
    Function {
        name: "dashed",
        parameters: &[SERIES, optional("dashLength", Kind::Integer).or(Preset::Int(5))],
        doc: "Draws series with dashed lines.",
        body: Body::Series(dashed),
        ..BASE
    },
    Function {
        name: "drawAsInfinite",
        parameters: &[SERIES],
        doc: "Draws each value above 0 as a vertical line over the full height.",
        body: Body::Series(draw),
        ..BASE
    },
    Function {
        name: "lineWidth",
        parameters: &[SERIES, required("width", Kind::Float)],
        doc: "Sets the width of the lines of series.",
        ..BASE
    },
    Function {
        name: "secondYAxis",
        parameters: &[SERIES],
        doc: "Draws series on the right-hand axis.",
        body: Body::Series(draw),
        ..BASE
    },
    Function {
        name: "stacked",
        parameters: &[SERIES, optional("stack", Kind::Text).or_named("stackName")],
        doc: "Stacks each series on top of the previous ones of the same stack.",
        body: Body::Series(stacked),
        ..BASE
    },
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
