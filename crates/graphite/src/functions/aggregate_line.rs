//! `aggregateLine`: draws a horizontal line at an aggregate of each series.

use super::constant_line::constant;
use super::value_text::value_text;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::column::Column;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "aggregateLine",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("func", Kind::AggFunc).or(Preset::Text("average")),
        optional("keepStep", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Draws a horizontal line at an aggregate of each series.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
