//! Compares series with the recorded ones.

use serde_json::Value;

use super::cases::string;

/// Functions that subtract large numbers, which loses precision.
const CANCELLING: [&str; 5] = ["stdev", "stddev", "linearRegression", "holtWinters", "diff"];

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "inf" => Some(f64::INFINITY),
            "-inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Whether two values are equal up to rounding, relative to their own size or to `scale`.
pub(super) fn is_close(a: &Value, b: &Value, scale: f64) -> bool {
    match (number(a), number(b)) {
        (None, None) => true,
        (Some(a), Some(b)) if a.is_finite() && b.is_finite() => {
            a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(scale)
        }
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Returns the values and times of a recorded series.
fn recorded(series: &Value) -> Vec<(Value, Option<i64>)> {
    if let Some(points) = series["datapoints"].as_array() {
        return points.iter().map(|point| (point[0].clone(), point[1].as_i64())).collect();
    }
    let start = series["start"].as_i64();
    let step = series["step"].as_i64().unwrap_or(0);
    let values = series["values"].as_array().into_iter().flatten().enumerate();
    values.map(|(place, value)| (value.clone(), start.map(|start| start + step * place as i64))).collect()
}

/// Returns the first difference of two lists of series in the JSON form.
pub(super) fn difference(case: &Value, expected: &Value, found: &Value, is_shape: bool) -> Option<String> {
    let (expected, found) = (expected.as_array()?, found.as_array()?);
    if expected.len() != found.len() {
        return Some(format!("{} series, expected {}", found.len(), expected.len()));
    }
    let targets = case["target"].to_string();
    let cancels = CANCELLING.iter().any(|name| targets.contains(name));
    expected.iter().zip(found).find_map(|(expected, found)| {
        let (name, wanted) = (string(found, "target"), string(expected, "target"));
        if name != wanted {
            return Some(format!("the name is {name:?}, expected {wanted:?}"));
        }
        let points = recorded(expected);
        let own = found["datapoints"].as_array()?;
        if points.len() != own.len() {
            return Some(format!("{name}: {} points, expected {}", own.len(), points.len()));
        }
        let sizes = points.iter().filter_map(|(value, _)| number(value)).map(f64::abs);
        let scale = if cancels { sizes.filter(|size| size.is_finite()).fold(0.0, f64::max) } else { 0.0 };
        let wrong = points.iter().zip(own).position(|((value, time), own)| {
            time.is_some_and(|time| own[1].as_i64() != Some(time))
                || !(is_shape || is_close(value, &own[0], scale))
        });
        if let Some(place) = wrong {
            return Some(format!("{name}: point {place} is {}, expected {:?}", own[place], points[place]));
        }
        let same = expected["tags"] == found["tags"];
        (!same).then(|| format!("{name}: tags {}, expected {}", found["tags"], expected["tags"]))
    })
}
