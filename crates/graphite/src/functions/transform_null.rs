//! `transformNull`: replaces missing values with a number; with a reference, only where a reference
//! series has a value.

use crate::call::Call;
use crate::column::Column;
use crate::combine::rows;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::number::general;
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "transformNull",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("default", Kind::Float).or(Preset::Int(0)),
        optional("referenceSeries", Kind::SeriesList),
    ],
    doc: "Replaces missing values with a number; with a reference, only where a reference series has \
          a value.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, default, has_reference) = (call.series()?, call.number(1)?, call.has(2));
    let reference = call.list(2)?;
    let value = default.value();
    let has_reference = has_reference && !reference.is_empty();
    let mut defaults = match has_reference {
        true => Some(rows(&reference, |row| Ok(row.iter().any(Option::is_some).then_some(value)))?),
        false => None,
    };
    if defaults.as_ref().is_some_and(Column::is_empty) {
        defaults = None;
    }
    let suffix = if has_reference { ",referenceSeries" } else { "" };
    for series in &mut list {
        series.tags.set("transformNull", default);
        if has_reference {
            series.tags.set("referenceSeries", 1);
        }
        series.rename(format!("transformNull({},{}{suffix})", series.name, general(value)));
        match &defaults {
            None => series.values.map(|own| own.or(Some(value)))?,
            Some(defaults) => {
                // Graphite appends the new values to the old ones, then drops the same number from the
                // front.
                let kept = series.values.len();
                let count = kept.max(defaults.len());
                let filled = |place| series.values.get(place).or(defaults.get(place));
                series.values = Column::collect(kept, (count - kept..count).map(filled))?;
            }
        }
    }
    Ok(list)
}
