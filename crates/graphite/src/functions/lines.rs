//! Draws horizontal and vertical lines.

use super::legends::value_text;
use super::value_filters::percentile_of;
use crate::aggregation::Aggregation;
use crate::attime::parse_time;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::Group;
use crate::number::{Number, general};
use crate::parameter::{Kind, Parameter, Preset, SERIES, optional, required};
use crate::scope::Scope;
use crate::series::{Drawing, Series};

const BASE: Function = Function::of(Group::Special)
    .named("constantLine", "Draws a horizontal line at a value.", constant_line)
    .taking(&[required("value", Kind::Float)]);

const LABEL: Parameter = optional("label", Kind::Text);
const COLOR: Parameter = optional("color", Kind::Text);

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "aggregateLine",
        group: Group::Calculate,
        parameters: &[
            SERIES,
            optional("func", Kind::AggFunc).or(Preset::Text("average")),
            optional("keepStep", Kind::Boolean).or(Preset::Flag(false)),
        ],
        doc: "Draws a horizontal line at an aggregate of each series.",
        body: Body::Series(aggregate_line),
        ..BASE
    },
    Function {
        name: "nPercentile",
        group: Group::Calculate,
        parameters: &[SERIES, required("n", Kind::Float)],
        doc: "Draws a horizontal line at a percentile of each series.",
        body: Body::Series(n_percentile),
        ..BASE
    },
    Function {
        name: "threshold",
        group: Group::Graph,
        parameters: &[required("value", Kind::Float), LABEL, COLOR],
        doc: "Draws a horizontal line at a value, with an optional label and colour.",
        body: Body::Series(threshold),
        ..BASE
    },
    Function {
        name: "verticalLine",
        group: Group::Graph,
        parameters: &[required("ts", Kind::Date), LABEL, COLOR],
        doc: "Draws a vertical line at a time, with an optional label and colour.",
        body: Body::Series(vertical_line),
        ..BASE
    },
];

fn constant_line(call: Call) -> Result<Vec<Series>> {
    Ok(vec![line_at(&call.scope, call.number(0)?)?])
}

fn line_at(scope: &Scope, value: Number) -> Result<Series> {
    let mut series = constant(scope, Some(value.value()), value.to_string())?;
    series.path_expression = format!("constantLine({value})").into();
    Ok(series)
}

/// A series of three points with the same value over the requested time.
pub(super) fn constant(scope: &Scope, value: Option<f64>, name: String) -> Result<Series> {
    let (start, end) = (scope.from.epoch, scope.until.epoch);
    let step = (end - start) / 2;
    Ok(Series::new(name, start, end, step, Column::filled(value, 3)?).with_share(scope.x_files_factor()))
}

fn aggregate_line(mut call: Call) -> Result<Vec<Series>> {
    let (list, function, keeps_step) = (call.series()?, call.text(1)?, call.flag(2));
    let function = Aggregation::named(&function)?;
    let one = |series: Series| {
        let value = function.of(series.points());
        let shown = value.map_or_else(|| "None".to_owned(), general);
        let name = format!("aggregateLine({}, {shown})", series.name);
        if keeps_step {
            let values = Column::filled(value, series.values.len())?;
            return Ok(series.derived(name, values));
        }
        let mut line = constant(&call.scope, value, value_text(&series, function))?;
        line.rename(name);
        Ok(line)
    };
    list.into_iter().map(one).collect()
}

fn n_percentile(mut call: Call) -> Result<Vec<Series>> {
    let (list, n) = (call.series()?, call.number(1)?);
    let mut results = Vec::new();
    for mut series in list {
        let Some(value) = percentile_of(&mut series, n)? else { continue };
        let length = (series.end.saturating_sub(series.start)) / series.step.max(1);
        let values = Column::filled(Some(value), usize::try_from(length).unwrap_or(0))?;
        let name = format!("nPercentile({}, {})", series.name, general(n.value()));
        results.push(series.derived(name, values));
    }
    Ok(results)
}

fn threshold(mut call: Call) -> Result<Vec<Series>> {
    let (value, label, color) = (call.number(0)?, call.maybe_text(1)?, call.maybe_text(2)?);
    let mut series = line_at(&call.scope, value)?;
    if let Some(label) = label.filter(|label| !label.is_empty()) {
        series.name = label;
    }
    series.color = color.filter(|color| !color.is_empty());
    Ok(vec![series])
}

fn vertical_line(mut call: Call) -> Result<Vec<Series>> {
    let (text, label, color) = (call.text(0)?, call.maybe_text(1)?, call.maybe_text(2)?);
    let time = parse_time(&text, &call.scope.zone, call.scope.now)?.wall();
    let (start, end) = (call.scope.from.wall(), call.scope.until.wall());
    if time < start || time > end {
        let side = if time < start { "before start" } else { "after end" };
        return Err(Error::invalid(format!("verticalLine(): timestamp {time} exists {side} of range")));
    }
    let name = label.unwrap_or_else(|| "None".to_owned());
    let values = Column::filled(Some(1.0), 2)?;
    let mut series = Series::new(name, time, time, 1, values).with_share(call.scope.x_files_factor());
    series.draw("drawAsInfinite", Drawing::On);
    series.color = color.filter(|color| !color.is_empty());
    Ok(vec![series])
}
