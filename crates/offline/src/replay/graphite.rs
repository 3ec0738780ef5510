//! Targets of Graphite as a replay asks them: `/render` over the window of the rule.

use std::collections::BTreeMap;

use sandur_rules::data::{Instant, Number, Vector};
use sandur_rules::{EvaluationError, Expression, graphite_labels};
use serde::Deserialize;

/// The path of the request.
pub const PATH: &str = "/render";

/// The parameters of the request.
pub fn parameters(expression: Expression<'_>, at: Instant) -> [(&'static str, String); 4] {
    [
        ("target", expression.text.to_owned()),
        ("from", at.minus(expression.window).seconds().to_string()),
        ("until", at.seconds().to_string()),
        ("format", "json".to_owned()),
    ]
}

#[derive(Deserialize)]
struct Series {
    target: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    datapoints: Vec<(Option<Value>, i64)>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Value {
    Finite(f64),
    Infinite(Infinite),
}

#[derive(Clone, Copy, Deserialize)]
enum Infinite {
    #[serde(rename = "+")]
    Positive,
    #[serde(rename = "-")]
    Negative,
}

impl Value {
    fn float(self) -> f64 {
        match self {
            Self::Finite(value) => value,
            Self::Infinite(Infinite::Positive) => f64::INFINITY,
            Self::Infinite(Infinite::Negative) => f64::NEG_INFINITY,
        }
    }
}

/// The last value of each series up to a time.
pub fn vector_of(body: &[u8], at: Instant) -> Result<Vector, EvaluationError> {
    // JSON has no infinity; Graphite writes a number that overflows instead.
    let text = String::from_utf8_lossy(body).replace("[1e9999,", "[\"+\",").replace("[-1e9999,", "[\"-\",");
    let list: Vec<Series> = serde_json::from_str(&text)
        .map_err(|error| EvaluationError::Query(format!("the server's answer cannot be read: {error}")))?;
    let last = |series: &Series| {
        let known = series.datapoints.iter().filter(|(_, time)| *time <= at.seconds());
        let value = known.filter_map(|(value, _)| *value).next_back()?.float();
        let tags = series.tags.iter().map(|(name, value)| (&**name, &**value));
        Some((graphite_labels(&series.target, tags), Number::Float(value)))
    };
    Ok(Vector { samples: list.iter().filter_map(last).collect(), held: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_up_to_the_time_is_taken() {
        let body = br#"[{"target": "m(a.b)", "tags": {"name": "a.b", "dc": "x"}, "datapoints":
            [[1, 60], [1e9999, 120], [null, 180], [3, 240]]}, {"target": "c", "datapoints": [[null, 60]]}]"#;
        let found = vector_of(body, Instant::of_seconds(200)).unwrap().samples;
        let [(labels, number)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(labels.to_string(), r#"{dc="x", name="m(a.b)"}"#);
        assert_eq!(*number, Number::Float(f64::INFINITY));
        assert!(vector_of(b"{}", Instant::of_seconds(200)).is_err());
    }
}
