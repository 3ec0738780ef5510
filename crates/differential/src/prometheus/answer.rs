//! Answers in a common form, from JSON or from the engine in this process.

use std::collections::BTreeMap;

use sandur_model::histogram::Bucket;
use sandur_model::{FloatHistogram, Labels};
use sandur_promql::{Point as EnginePoint, Value as EngineValue};
use serde_json::Value;

/// The labels of a series.
pub type Names = BTreeMap<String, String>;

/// A native histogram as the API returns it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownHistogram {
    /// Number of observations.
    pub count: f64,
    /// Sum of the observations.
    pub sum: f64,
    /// For each bucket that is not empty: which bounds are inclusive, as in the API; and the bounds and
    /// the count.
    pub buckets: Vec<(u64, [f64; 3])>,
}

/// A sample of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Point {
    /// A number.
    Float(f64),
    /// A native histogram.
    Histogram(ShownHistogram),
}

/// A series of an answer: times in milliseconds since the epoch, and samples; floats come first.
pub type Row = (Names, Vec<(i64, Point)>);

/// The data of an answer.
#[derive(Clone, Debug)]
pub enum Data {
    /// A number.
    Scalar(f64),
    /// A text.
    Text(String),
    /// Series at an instant.
    Vector(Vec<Row>),
    /// Series over time.
    Matrix(Vec<Row>),
}

/// An answer of a server or of the engine.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The data, or the text of the error.
    pub outcome: Result<Data, String>,
    /// The type of the error, if the answer has one.
    pub error_type: Option<String>,
    /// The warnings.
    pub warnings: Vec<String>,
    /// The infos.
    pub infos: Vec<String>,
}

impl Answer {
    /// Returns an error.
    pub fn refusal(error: impl Into<String>) -> Self {
        Self { outcome: Err(error.into()), error_type: None, warnings: Vec::new(), infos: Vec::new() }
    }

    /// Parses an answer of the API.
    pub fn from_json(body: &[u8]) -> Self {
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Self::refusal(format!("not JSON: {}", String::from_utf8_lossy(body)));
        };
        if let Some(error) = body["error"].as_str() {
            let error = error.strip_prefix("invalid parameter \"query\": ").unwrap_or(error);
            let error_type = body["errorType"].as_str().map(str::to_owned);
            return Self { error_type, ..Self::refusal(error) };
        }
        let texts = |name: &str| -> Vec<String> {
            let list = body[name].as_array();
            list.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let outcome = data(&body["data"]).ok_or_else(|| format!("no answer: {body:.300}"));
        Self { outcome, error_type: None, warnings: texts("warnings"), infos: texts("infos") }
    }

    /// Converts an answer of the engine.
    pub fn from_engine(answer: Result<sandur_promql::Answer, sandur_query::Error>, time_ms: i64) -> Self {
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Self::refusal(error.to_string()),
        };
        let outcome = Ok(match answer.value {
            EngineValue::Scalar(value) => Data::Scalar(value),
            EngineValue::String(text) => Data::Text(text),
            EngineValue::Vector(rows) => {
                let row =
                    |(labels, point): &(Labels, EnginePoint)| (names(labels), vec![(time_ms, shown(point))]);
                Data::Vector(rows.iter().map(row).collect())
            }
            EngineValue::Matrix(series) => {
                let row = |series: &sandur_promql::Series| {
                    let floats = series.floats.iter().map(|(time, value)| (*time, Point::Float(*value)));
                    let histograms = series.histograms.iter();
                    let histograms =
                        histograms.map(|(time, h)| (*time, Point::Histogram(ShownHistogram::of(h))));
                    (names(&series.labels), floats.chain(histograms).collect())
                };
                Data::Matrix(series.iter().map(row).collect())
            }
        });
        Self { outcome, error_type: None, warnings: answer.warnings, infos: answer.infos }
    }
}

/// The number of annotations of a kind that the API returns; if there are more, it says so in a further
/// one.
pub const NOTES_MAX: usize = 10;

/// Returns whether an annotation says that others were omitted.
pub fn says_omitted(text: &str) -> bool {
    text.ends_with("annotations omitted")
}

impl Answer {
    /// Replaces the texts of the error and of the annotations by empty ones. Annotations that the API
    /// would omit are removed.
    pub fn without_texts(self) -> Self {
        let counted = |texts: Vec<String>| {
            let count = texts.iter().filter(|text| !says_omitted(text)).count();
            vec![String::new(); count.min(NOTES_MAX)]
        };
        Self {
            outcome: self.outcome.map_err(|_| String::new()),
            error_type: None,
            warnings: counted(self.warnings),
            infos: counted(self.infos),
        }
    }
}

fn names(labels: &Labels) -> Names {
    labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn shown(point: &EnginePoint) -> Point {
    match point {
        EnginePoint::Float(value) => Point::Float(*value),
        EnginePoint::Histogram(histogram) => Point::Histogram(ShownHistogram::of(histogram)),
    }
}

impl ShownHistogram {
    fn of(histogram: &FloatHistogram) -> Self {
        let bucket = |bucket: Bucket| {
            let bounds = match (bucket.lower_inclusive, bucket.upper_inclusive) {
                (false, true) => 0,
                (true, false) => 1,
                (false, false) => 2,
                (true, true) => 3,
            };
            (bounds, [bucket.lower, bucket.upper, bucket.count])
        };
        let filled = histogram.all_buckets().filter(|bucket| bucket.count != 0.0);
        Self { count: histogram.count, sum: histogram.sum, buckets: filled.map(bucket).collect() }
    }

    fn from_json(value: &Value) -> Option<Self> {
        let buckets = value["buckets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let bucket = |bucket: &Value| {
            let numbers = [number(&bucket[1])?, number(&bucket[2])?, number(&bucket[3])?];
            Some((bucket[0].as_u64()?, numbers))
        };
        let buckets = buckets.iter().map(bucket).collect::<Option<Vec<_>>>()?;
        Some(Self { count: number(&value["count"])?, sum: number(&value["sum"])?, buckets })
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_str()?.parse().ok()
}

fn time_ms(value: &Value) -> Option<i64> {
    Some((value.as_f64()? * 1000.0).round() as i64)
}

fn data(data: &Value) -> Option<Data> {
    let result = &data["result"];
    let rows = |row: &dyn Fn(&Value) -> Option<Row>| -> Option<Vec<Row>> {
        result.as_array()?.iter().map(row).collect()
    };
    Some(match data["resultType"].as_str()? {
        "scalar" => Data::Scalar(number(&result[1])?),
        "string" => Data::Text(result[1].as_str()?.to_owned()),
        "vector" => Data::Vector(rows(&|row| {
            let point = match row.get("value") {
                Some(value) => (time_ms(&value[0])?, Point::Float(number(&value[1])?)),
                None => {
                    let pair = &row["histogram"];
                    (time_ms(&pair[0])?, Point::Histogram(ShownHistogram::from_json(&pair[1])?))
                }
            };
            Some((label_names(&row["metric"])?, vec![point]))
        })?),
        "matrix" => Data::Matrix(rows(&|row| {
            let mut points = Vec::new();
            for pair in row["values"].as_array().into_iter().flatten() {
                points.push((time_ms(&pair[0])?, Point::Float(number(&pair[1])?)));
            }
            for pair in row["histograms"].as_array().into_iter().flatten() {
                points.push((time_ms(&pair[0])?, Point::Histogram(ShownHistogram::from_json(&pair[1])?)));
            }
            Some((label_names(&row["metric"])?, points))
        })?),
        _ => return None,
    })
}

fn label_names(metric: &Value) -> Option<Names> {
    let pairs = metric.as_object()?.iter();
    pairs.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

impl Data {
    /// Returns whether it has no series.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Vector(rows) | Self::Matrix(rows) if rows.is_empty())
    }
}
