//! `verticalLine`: draws a vertical line at a time, with an optional label and colour.

use crate::attime::parse_time;
use crate::call::Call;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, optional, required};
use crate::series::{Drawing, Series};

pub(super) const FUNCTION: Function = Function {
    name: "verticalLine",
    aliases: &[],
    group: Group::Graph,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("ts", Kind::Date), optional("label", Kind::Text), optional("color", Kind::Text)],
    doc: "Draws a vertical line at a time, with an optional label and colour.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
