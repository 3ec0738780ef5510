//! `filterSeries`: keeps the series whose aggregate compares to a threshold by the given operator.

use sandur_base::job::spend;

use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "filterSeries",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("func", Kind::AggFunc),
        required("operator", Kind::Text).of(&["!=", "<", "<=", "=", ">", ">="]),
        required("threshold", Kind::Float),
    ],
    doc: "Keeps the series whose aggregate compares to a threshold by the given operator.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, function, operator) = (call.series()?, call.text(1)?, call.text(2)?);
    let threshold = call.float(3)?;
    filter(list, Aggregation::named(&function)?, &operator, threshold)
}

/// Keeps the series whose aggregate compares to a number by the operator.
pub(super) fn filter(
    mut list: Vec<Series>,
    function: Aggregation,
    operator: &str,
    threshold: f64,
) -> Result<Vec<Series>> {
    let holds: fn(f64, f64) -> bool = match operator {
        "=" => |value, threshold| value == threshold,
        "!=" => |value, threshold| value != threshold,
        ">" => |value, threshold| value > threshold,
        ">=" => |value, threshold| value >= threshold,
        "<" => |value, threshold| value < threshold,
        "<=" => |value, threshold| value <= threshold,
        _ => return Err(Error::invalid(format!("Unsupported operator: {operator}"))),
    };
    let when_missing = matches!(operator, "!=" | "<" | "<=");
    let mut kept = Vec::new();
    for series in list.drain(..) {
        spend(series.values.len())?;
        let value = function.of(series.points());
        if value.map_or(when_missing, |value| holds(value, threshold)) {
            kept.push(series);
        }
    }
    Ok(kept)
}
