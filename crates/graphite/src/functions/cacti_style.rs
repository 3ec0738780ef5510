//! `cactiStyle`: appends the last, maximum and minimum value to series names, aligned in columns.

use sandur_base::job::{reserve_exactly, spend};

use super::si_units::units_of;
use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::fixed;
use crate::parameter::{Kind, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "cactiStyle",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("system", Kind::Text).of(&["binary", "si"]),
        optional("units", Kind::Text),
    ],
    doc: "Appends the last, maximum and minimum value to series names, aligned in columns.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, system, unit) = (call.series()?, call.maybe_text(1)?, call.maybe_text(2)?);
    let system = system.filter(|system| !system.is_empty());
    let unit = unit.filter(|unit| !unit.is_empty());
    let shown = |value: f64| -> Result<String> {
        let (value, prefix) = match &system {
            Some(system) => {
                units_of(value, system, unit.as_deref().unwrap_or_default()).ok_or_else(|| {
                    Error::invalid(format!("the system of units '{system}' is not si or binary"))
                })?
            }
            None => (value, unit.clone().unwrap_or_default()),
        };
        let space = if unit.is_some() { " " } else { "" };
        Ok(format!("{}{space}{prefix}", fixed(value, 2)))
    };
    let columns = [Aggregation::Last, Aggregation::Max, Aggregation::Min];
    let name_width = list.iter().map(|series| series.name.chars().count()).max().unwrap_or(0);
    let mut widths = [0; 3];
    for series in &list {
        for (width, column) in widths.iter_mut().zip(columns) {
            let value = column.of(series.points()).filter(|value| *value != 0.0).unwrap_or(3.0);
            if !value.is_finite() {
                return Err(Error::invalid(format!("{} has a value that is not finite", series.name)));
            }
            // Adding 0.0 turns a negative zero into zero, as integers have none.
            *width = shown(value.trunc() + 0.0)?.chars().count().max(*width);
        }
    }
    let columns_width = widths.iter().map(|width| width + 16).sum::<usize>();
    // All names are padded to the longest one.
    let _held = reserve_exactly((list.len() as u64).saturating_mul((name_width + columns_width) as u64))?;
    for series in &mut list {
        spend(name_width)?;
        let mut name = padded(&series.name, name_width);
        for ((label, column), width) in ["Current", "Max", "Min"].iter().zip(columns).zip(widths) {
            let value = match column.of(series.points()) {
                Some(value) => shown(value)?,
                None => "nan".to_owned(),
            };
            name.push_str(&format!(" {label}:{}", padded(&value, width + 3)));
        }
        series.name = name + " ";
    }
    Ok(list)
}

/// Pads a text with spaces. The width may exceed 65,535, the limit of format strings.
fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(text.chars().count());
    let mut out = String::with_capacity(text.len() + missing);
    out.push_str(text);
    out.extend(std::iter::repeat_n(' ', missing));
    out
}
