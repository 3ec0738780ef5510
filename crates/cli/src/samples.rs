//! Parses answers of Prometheus's API.

use sandur_model::escaping::{Named, quoted};
use sandur_terminal::Failed;
use serde::Deserialize;
use serde_json::Value;

use super::results::{LabelMap, MatrixSeries};

impl From<&MatrixSeries> for Row {
    /// The series in the form in which charts take it.
    fn from(series: &MatrixSeries) -> Self {
        let nanoseconds = |seconds: f64| (seconds * 1_000.0).round() as i64 * 1_000_000;
        let values = series.values.iter().map(|(time, value)| (nanoseconds(*time), value.clone())).collect();
        Self { metric: series.metric.clone(), values, source: Value::Null }
    }
}

/// The body of an answer to a query.
pub struct Answer {
    /// The result.
    pub data: Data,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Infos.
    pub infos: Vec<String>,
}

/// The result by its type.
pub enum Data {
    /// Series over time.
    Range(Vec<Row>),
    /// Series at an instant; a scalar is one without labels.
    Instant(Vec<Row>),
    /// A string.
    Text(String),
}

impl Data {
    /// Its series.
    pub fn rows(&self) -> &[Row] {
        match self {
            Self::Range(rows) | Self::Instant(rows) => rows,
            Self::Text(_) => &[],
        }
    }
}

/// A series.
pub struct Row {
    /// Labels.
    pub metric: LabelMap,
    /// Timestamps in nanoseconds, and values; of histograms count and sum.
    pub values: Vec<(i64, String)>,
    /// The series as JSON, as in the answer.
    pub source: Value,
}

impl Row {
    /// Formats the labels as `up{job="a"}`.
    pub fn labels(&self) -> String {
        let name = self.metric.get("__name__").map_or("", String::as_str);
        let labels = self.metric.iter().filter(|(name, _)| *name != "__name__");
        let labels: Vec<String> = labels.map(|(name, value)| format!("{name}={value:?}")).collect();
        match labels.is_empty() && !name.is_empty() {
            true => name.to_owned(),
            false => format!("{name}{{{}}}", labels.join(", ")),
        }
    }

    /// Formats the labels for the OpenMetrics text format, in which every metric has a name.
    pub fn exposed(&self) -> String {
        let name = self.metric.get("__name__").map_or("unnamed", String::as_str);
        let labels = self.metric.iter().filter(|(name, _)| *name != "__name__");
        let labels = labels.map(|(name, value)| format!("{}={}", Named::Label.written(name), quoted(value)));
        let is_plain = Named::Metric.is_plain(name);
        let between: Vec<String> = (!is_plain).then(|| quoted(name)).into_iter().chain(labels).collect();
        match between.is_empty() {
            true => name.to_owned(),
            false => format!("{}{{{}}}", if is_plain { name } else { "" }, between.join(",")),
        }
    }

    fn read(source: Value) -> Option<Self> {
        let metric = serde_json::from_value(source.get("metric")?.clone()).ok()?;
        let one = |key: &str| source.get(key).cloned().into_iter();
        let many = |key: &str| source.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let points = one("value").chain(one("histogram")).chain(many("values")).chain(many("histograms"));
        let mut values: Vec<(i64, String)> = points.map(|point| sample(&point)).collect::<Option<_>>()?;
        values.sort_by_key(|(time, _)| *time);
        Some(Self { metric, values, source })
    }
}

fn sample(point: &Value) -> Option<(i64, String)> {
    let seconds = point.get(0)?.as_f64()?;
    let value = match point.get(1)? {
        Value::String(number) => number.clone(),
        histogram => {
            let part = |key: &str| histogram.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
            format!("{{count: {}, sum: {}}}", part("count"), part("sum"))
        }
    };
    Some(((seconds * 1_000.0).round() as i64 * 1_000_000, value))
}

#[derive(Deserialize)]
struct Body {
    data: Outcome,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    infos: Vec<String>,
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(rename = "resultType")]
    kind: String,
    result: Value,
}

/// Parses an answer.
pub fn read(body: &[u8]) -> Result<Answer, Failed> {
    let unreadable = |why: &str| Failed::new(format!("the server's answer cannot be read: {why}"));
    let body: Body = serde_json::from_slice(body).map_err(|error| unreadable(&error.to_string()))?;
    let Outcome { kind, result } = body.data;
    let rows = |result: Value| -> Option<Vec<Row>> {
        let Value::Array(rows) = result else { return None };
        rows.into_iter().map(Row::read).collect()
    };
    let data = match kind.as_str() {
        "matrix" => rows(result).map(Data::Range),
        "vector" => rows(result).map(Data::Instant),
        "scalar" => sample(&result).map(|value| {
            let row = Row { metric: LabelMap::new(), values: vec![value], source: result };
            Data::Instant(vec![row])
        }),
        "string" => result.get(1).and_then(Value::as_str).map(|text| Data::Text(text.to_owned())),
        _ => None,
    };
    let data = data.ok_or_else(|| unreadable(&format!("a result of type {kind:?}")))?;
    Ok(Answer { data, warnings: body.warnings, infos: body.infos })
}

/// The error in a JSON answer; any other text unchanged.
pub fn error_text(text: &str) -> String {
    let said = serde_json::from_str::<Value>(text).ok();
    let said = said.as_ref().and_then(|body| body.get("error")?.as_str());
    said.unwrap_or(text).to_owned()
}

/// The message for a refused request to Prometheus's API.
pub fn refused(mut refusal: super::client::Refusal) -> Failed {
    refusal.text = error_text(&refusal.text);
    refusal.into()
}
