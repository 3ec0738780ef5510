//! Reads the series in recordings of functions and compares them with a function's result.

use sandur_graphite::{Column, Consolidation, Series};
use serde_json::Value;

use super::cases::string;
use super::compare::is_close;

/// Functions that subtract large numbers, which loses precision.
const CANCELLING: [&str; 6] = ["stdev", "stddev", "linearRegression", "holtWinters", "diff", "polyfit"];

/// Reads a value; values that JSON cannot express are strings.
pub(super) fn value(recorded: &Value) -> Option<f64> {
    match recorded["$float"].as_str().or(recorded.as_str()) {
        Some("inf") => Some(f64::INFINITY),
        Some("-inf") => Some(f64::NEG_INFINITY),
        Some("nan") => Some(f64::NAN),
        _ => recorded.as_f64(),
    }
}

/// Reads the values of a recorded series.
pub(super) fn column(recorded: &Value) -> Option<Column> {
    let values = recorded["values"].as_array()?;
    let column = Column::collect(values.len(), values.iter().map(value)).ok()?;
    let is_whole = values.iter().all(|value| value.is_null() || value.is_i64());
    Some(if is_whole { column.of_integers() } else { column })
}

/// Reads a recorded series.
pub(super) fn series(recorded: &Value) -> Option<Series> {
    let recorded = recorded.get("$series").unwrap_or(recorded);
    let column = column(recorded)?;
    let number = |name: &str| recorded[name].as_f64().map_or(0, |number| number as i64);
    let name = string(recorded, "name");
    let mut series = Series::new(name, number("start"), number("end"), number("step"), column);
    for (tag, value) in recorded["tags"].as_object().into_iter().flatten() {
        series.tags.set(tag, value.as_str().unwrap_or_default());
    }
    if let Some(path) = recorded["pathExpression"].as_str() {
        series.path_expression = path.into();
    }
    if let Some(found) = recorded["consolidationFunc"].as_str().and_then(Consolidation::named) {
        series.consolidation = found;
    }
    series.x_files_factor = recorded["xFilesFactor"].as_f64().unwrap_or(0.0);
    series.consolidate(usize::try_from(recorded["valuesPerPoint"].as_u64().unwrap_or(1)).unwrap_or(1));
    Some(series)
}

/// Reads a list of recorded series.
pub(super) fn list(recorded: &Value) -> Option<Vec<Series>> {
    recorded.get("$seriesList").unwrap_or(recorded).as_array()?.iter().map(series).collect()
}

/// Writes a value as the recordings do.
fn written(point: Option<f64>) -> Value {
    match point {
        Some(f64::INFINITY) => "inf".into(),
        Some(f64::NEG_INFINITY) => "-inf".into(),
        other => other.into(),
    }
}

/// Returns the first difference in names, times or values of series. The recorded end may be the end of
/// the series or the end of its values.
pub(super) fn difference(function: &str, expected: &[Value], found: &[&Series]) -> Option<String> {
    if expected.len() != found.len() {
        let names: Vec<&str> = found.iter().map(|series| series.name.as_str()).collect();
        return Some(format!("{} series, expected {}: {names:?}", found.len(), expected.len()));
    }
    let cancels = CANCELLING.iter().any(|name| function.contains(name));
    expected.iter().zip(found).find_map(|(expected, found)| {
        let expected = expected.get("$series").unwrap_or(expected);
        let name = string(expected, "name");
        if found.name != name {
            return Some(format!("the name is {:?}, expected {name:?}", found.name));
        }
        let times = (Some(found.start), Some(found.end), Some(found.step));
        let wanted = ["start", "end", "step"].map(|name| expected[name].as_f64().map(|number| number as i64));
        let reached = found.start + found.step * found.points().len() as i64;
        let same_end = wanted[1] == Some(found.end) || wanted[1] == Some(reached);
        if (times.0, times.2) != (wanted[0], wanted[2]) || !same_end {
            return Some(format!("{name}: times {times:?}, expected {wanted:?}"));
        }
        let values = expected["values"].as_array()?;
        let own: Vec<Value> = found.points().map(written).collect();
        let plain = |value: &Value| value.get("$float").unwrap_or(value).clone();
        let sizes = values.iter().filter_map(Value::as_f64).map(f64::abs);
        let scale = if cancels { sizes.fold(0.0, f64::max) } else { 0.0 };
        let is_same = |(a, b): (&Value, &Value)| is_close(&plain(a), b, scale);
        if values.len() != own.len() || !values.iter().zip(&own).all(is_same) {
            return Some(format!("{name}: values {own:?}, expected {values:?}"));
        }
        None
    })
}

/// Returns the first difference in the tags of series.
pub(super) fn difference_of_tags(expected: &[Value], found: &[&Series]) -> Option<String> {
    expected.iter().zip(found).find_map(|(expected, found)| {
        let expected = expected.get("$series").unwrap_or(expected);
        let wanted = expected["tags"].as_object()?;
        let is_same = |(tag, value): (&str, &str)| {
            let wanted = wanted.get(tag).and_then(Value::as_str).unwrap_or_default();
            // Functions that are called with values keep integers, which the parameters of a target
            // would turn into floats.
            wanted == value || wanted.parse::<f64>().is_ok_and(|wanted| value.parse() == Ok(wanted))
        };
        let same = found.tags.iter().count() == wanted.len() && found.tags.iter().all(is_same);
        (!same).then(|| format!("{}: tags {:?}, expected {wanted:?}", found.name, found.tags))
    })
}
