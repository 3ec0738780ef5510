//! Appends aggregated values to series names.

use sandur_memory::job::{reserve_exactly, spend};

use crate::aggregation::Aggregation;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::Function;
use crate::group::Group;
use crate::number::{fixed, repr};
use crate::parameter::{Kind, SERIES, optional};
use crate::series::Series;

pub(super) const TABLE: &[Function] = &[
    Function::of(Group::Special)
        .named(
            "cactiStyle",
            "Appends the last, maximum and minimum value to series names, aligned in columns.",
            cacti_style,
        )
        .taking(&[
            SERIES,
            optional("system", Kind::Text).of(&["binary", "si"]),
            optional("units", Kind::Text),
        ]),
    Function::of(Group::Alias)
        .named("legendValue", "Appends aggregated values to series names.", legend_value)
        .taking(&[SERIES, optional("valuesTypes", Kind::Text).many().of(VALUE_TYPES)]),
];

/// The names of aggregation functions with and without `Series`, and of systems of units.
const VALUE_TYPES: &[&str] = &[
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
];

fn cacti_style(mut call: Call) -> Result<Vec<Series>> {
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

fn legend_value(mut call: Call) -> Result<Vec<Series>> {
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

/// An aggregate of a series in the form of Python's `str`: integers have no decimal point.
pub(super) fn value_text(series: &Series, aggregation: Aggregation) -> String {
    let Some(value) = aggregation.of(series.points()) else { return "None".to_owned() };
    let keeps = match aggregation {
        Aggregation::Sum | Aggregation::Min | Aggregation::Max | Aggregation::Last | Aggregation::Diff => {
            true
        }
        Aggregation::Median => series.points().flatten().count() % 2 == 1,
        _ => false,
    };
    let whole = aggregation == Aggregation::Count || (keeps && series.values.is_whole());
    if whole { format!("{value:.0}") } else { repr(value) }
}

const BINARY: [(&str, f64); 5] = [
    ("Pi", 1_125_899_906_842_624.0),
    ("Ti", 1_099_511_627_776.0),
    ("Gi", 1_073_741_824.0),
    ("Mi", 1_048_576.0),
    ("Ki", 1024.0),
];
const SI: [(&str, f64); 5] = [("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)];

/// The scaled number, and its prefix with the unit; `None` if the system is unknown.
fn units_of(value: f64, system: &str, unit: &str) -> Option<(f64, String)> {
    let system = match system {
        "binary" => &BINARY,
        "si" => &SI,
        _ => return None,
    };
    let (prefix, size) = system.iter().find(|(_, size)| value.abs() >= *size).unwrap_or(&("", 1.0));
    let scaled = value / size;
    let near = scaled - scaled.floor() < 1e-11 && value > 1.0;
    Some((if near { scaled.floor() } else { scaled }, format!("{prefix}{unit}")))
}
