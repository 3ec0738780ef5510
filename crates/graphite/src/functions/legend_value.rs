//! `legendValue`: appends aggregated values to series names.

use super::si_units::units_of;
use super::value_text::value_text;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::fixed;
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "legendValue",
    aliases: &[],
    group: Group::Alias,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("valuesTypes", Kind::Text).many().of(&[
            "average",
            "averageSeries",
            "avg",
            "avgSeries",
            "avg_zero",
            "avg_zeroSeries",
            "binary",
            "count",
            "countSeries",
            "current",
            "currentSeries",
            "diff",
            "diffSeries",
            "last",
            "lastSeries",
            "max",
            "maxSeries",
            "median",
            "medianSeries",
            "min",
            "minSeries",
            "multiply",
            "multiplySeries",
            "range",
            "rangeOf",
            "rangeOfSeries",
            "rangeSeries",
            "si",
            "stddev",
            "stddevSeries",
            "sum",
            "sumSeries",
            "total",
            "totalSeries",
        ]),
    ],
    doc: "Appends aggregated values to series names.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, mut types) = (call.series()?, call.texts()?);
    let system = types.pop_if(|last| last == "si" || last == "binary");
    if system.is_none() && types.is_empty() {
        return Err(Error::invalid("legendValue needs the name of a value"));
    }
    for kind in types {
        let function = Aggregation::named(&kind).ok();
        for series in &mut list {
            let Some(system) = &system else {
                let value =
                    function.map_or_else(|| "(?)".to_owned(), |function| value_text(series, function));
                series.name.push_str(&format!(" ({kind}: {value})"));
                continue;
            };
            let shown = match function {
                None => "(?)".to_owned(),
                Some(function) => match function.of(series.points()) {
                    None => "None".to_owned(),
                    Some(value) => {
                        let (value, prefix) = units_of(value, system, "").unwrap_or((value, String::new()));
                        format!("{}{prefix}", fixed(value, 2))
                    }
                },
            };
            series.name = format!("{:<20}{kind:<5}{shown:<10}", series.name);
        }
    }
    Ok(list)
}
