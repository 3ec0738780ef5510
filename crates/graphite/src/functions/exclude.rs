//! `exclude`: keeps the series whose name does not match a regular expression.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::pattern::PythonRegex;
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "exclude",
    aliases: &[],
    group: Group::FilterSeries,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("pattern", Kind::Regex)],
    doc: "Keeps the series whose name does not match a regular expression.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, pattern) = (call.series()?, call.text(1)?);
    let (regex, mut kept) = (PythonRegex::new(&pattern)?, Vec::new());
    for series in list {
        if !regex.is_match(&series.name)? {
            kept.push(series);
        }
    }
    Ok(kept)
}
