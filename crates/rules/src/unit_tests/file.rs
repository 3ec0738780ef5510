//! Reads a file of unit tests.

use std::sync::Arc;
use std::time::Duration;

use sandur_model::Rfc3339;
use sandur_promql::series_text::{Sample, parse_samples};
use sandur_yaml::{ConfigError, Data, Keys, Node};

use crate::data::{Instant, Number};
use crate::spec::{Language, Pairs};

/// The default of `evaluation_interval`.
const INTERVAL: Duration = Duration::from_secs(60);

/// A file of tests.
pub struct TestFile {
    /// Paths of rule files, relative to this one.
    pub rule_files: Vec<String>,
    /// The time between two evaluations.
    pub interval: Duration,
    /// Names of groups in the order of evaluation.
    pub order: Vec<String>,
    /// Whether neighbouring floats are equal.
    pub is_fuzzy: bool,
    /// The tests.
    pub tests: Vec<Test>,
}

/// A test.
#[derive(Default)]
pub struct Test {
    /// Its name; may be empty.
    pub name: String,
    /// The time between two values of a series.
    pub interval: Option<Duration>,
    /// The time of the first evaluation.
    pub start: Instant,
    /// The series.
    pub series: Vec<InputSeries>,
    /// The series of Graphite.
    pub graphite: Vec<InputSeries>,
    /// The streams of lines.
    pub streams: Vec<InputStream>,
    /// Alerts that are expected.
    pub alerts: Vec<AlertTest>,
    /// Results that are expected.
    pub expressions: Vec<ExprTest>,
    /// `external_labels`.
    pub external_labels: Pairs,
    /// `external_url`.
    pub external_url: String,
}

/// A series.
pub struct InputSeries {
    /// Its name and labels; a path, or a name with tags, of Graphite.
    pub name: String,
    /// Its values.
    pub values: String,
}

/// A stream of lines.
pub struct InputStream {
    /// Its labels.
    pub labels: String,
    /// A line for each interval; `_` for none.
    pub lines: Vec<String>,
}

/// The alerts of a rule that fire at a time.
pub struct AlertTest {
    /// The time after the start.
    pub at: Duration,
    /// The name of the alert.
    pub name: String,
    /// The alerts.
    pub expected: Vec<ExpectedAlert>,
}

/// An alert.
pub struct ExpectedAlert {
    /// Its labels, without `alertname`.
    pub labels: Pairs,
    /// Its annotations.
    pub annotations: Pairs,
}

/// The result of an expression at a time.
pub struct ExprTest {
    /// The language.
    pub language: Language,
    /// The expression.
    pub expr: String,
    /// The time after the start.
    pub at: Duration,
    /// Labels and values.
    pub expected: Vec<(String, Number)>,
}

type Read<T> = Result<T, ConfigError>;

/// Reads a file.
pub fn read(text: &str) -> Read<TestFile> {
    let root = Node::parse(text)?;
    let mut keys = Keys::of(&root)?;
    let rule_files = keys.texts("rule_files")?;
    let interval = duration(&mut keys, "evaluation_interval")?.filter(|interval| !interval.is_zero());
    let order = keys.texts("group_eval_order")?;
    let is_fuzzy = keys.switch("fuzzy_compare", false)?;
    let tests = keys.list("tests")?.iter().map(test).collect::<Read<_>>()?;
    finish(keys)?;
    let interval = interval.unwrap_or(INTERVAL);
    Ok(TestFile { rule_files, interval, order, is_fuzzy, tests })
}

fn finish(keys: Keys<'_>) -> Read<()> {
    keys.finish(&[], &mut Vec::new())
}

/// A duration, also zero.
fn duration(keys: &mut Keys<'_>, key: &'static str) -> Read<Option<Duration>> {
    let line = keys.line;
    let Some(text) = keys.text(key)? else { return Ok(None) };
    match sandur_model::go_text::parse_prometheus_duration(&text) {
        Ok(ns) => Ok(Some(Duration::from_nanos(ns.unsigned_abs()))),
        Err(why) => Err(ConfigError::at(line, format!("{key}: {why}"))),
    }
}

fn test(node: &Node) -> Read<Test> {
    let mut keys = Keys::of(node)?;
    let mut expressions: Vec<ExprTest> = Vec::new();
    for (key, language) in [
        ("promql_expr_test", Language::Promql),
        ("logql_expr_test", Language::Logql),
        ("graphite_expr_test", Language::Graphite),
    ] {
        for node in keys.list(key)? {
            expressions.push(expression(node, language)?);
        }
    }
    let test = Test {
        name: keys.text("name")?.unwrap_or_default(),
        interval: duration(&mut keys, "interval")?.filter(|interval| !interval.is_zero()),
        start: start(&mut keys)?,
        series: keys.list("input_series")?.iter().map(series).collect::<Read<_>>()?,
        graphite: keys.list("input_graphite")?.iter().map(series).collect::<Read<_>>()?,
        streams: keys.list("input_streams")?.iter().map(stream).collect::<Read<_>>()?,
        alerts: keys.list("alert_rule_test")?.iter().map(alert).collect::<Read<_>>()?,
        expressions,
        external_labels: keys.map("external_labels")?,
        external_url: keys.text("external_url")?.unwrap_or_default().trim_end_matches('/').to_owned(),
    };
    finish(keys)?;
    Ok(test)
}

/// `start_timestamp`: seconds since the epoch, or a time in RFC 3339.
fn start(keys: &mut Keys<'_>) -> Read<Instant> {
    let line = keys.line;
    let Some(text) = keys.text("start_timestamp")? else { return Ok(Instant::default()) };
    if let Some(time) = Rfc3339::parse(&text) {
        return Ok(Instant::of_ns(time.saturating_ns()));
    }
    let seconds = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    let wrong = || ConfigError::at(line, format!("start_timestamp: '{text}' is not a time"));
    Ok(Instant::of_ns((seconds.ok_or_else(wrong)? * 1e9) as i64))
}

fn series(node: &Node) -> Read<InputSeries> {
    let mut keys = Keys::of(node)?;
    let (name, values) = (keys.text("series")?, keys.text("values")?);
    finish(keys)?;
    Ok(InputSeries { name: name.unwrap_or_default(), values: values.unwrap_or_default() })
}

fn stream(node: &Node) -> Read<InputStream> {
    let mut keys = Keys::of(node)?;
    let (labels, lines) = (keys.text("stream")?, keys.texts("lines")?);
    finish(keys)?;
    Ok(InputStream { labels: labels.unwrap_or_default(), lines })
}

fn alert(node: &Node) -> Read<AlertTest> {
    let mut keys = Keys::of(node)?;
    let at = duration(&mut keys, "eval_time")?.unwrap_or_default();
    let name = keys.text("alertname")?.filter(|name| !name.is_empty());
    let missing = || ConfigError::at(node.line, "alertname is missing".to_owned());
    let name = name.ok_or_else(missing)?;
    let mut expected = Vec::new();
    for node in keys.list("exp_alerts")? {
        let mut keys = Keys::of(node)?;
        expected.push(ExpectedAlert {
            labels: keys.map("exp_labels")?,
            annotations: keys.map("exp_annotations")?,
        });
        finish(keys)?;
    }
    finish(keys)?;
    Ok(AlertTest { at, name, expected })
}

fn expression(node: &Node, language: Language) -> Read<ExprTest> {
    let mut keys = Keys::of(node)?;
    let expr = keys.text("expr")?.unwrap_or_default();
    let at = duration(&mut keys, "eval_time")?.unwrap_or_default();
    let mut expected = Vec::new();
    for node in keys.list("exp_samples")? {
        let mut keys = Keys::of(node)?;
        let labels = keys.text("labels")?.unwrap_or_default();
        let histogram = keys.text("histogram")?.map(|text| histogram(&text, node.line)).transpose()?;
        let value = match keys.take("value") {
            None => 0.0,
            Some(Node { data: Data::Scalar(text), line }) => number(text, *line)?,
            Some(node) => return Err(ConfigError::at(node.line, "value: expected a number".to_owned())),
        };
        finish(keys)?;
        expected.push((labels, histogram.unwrap_or(Number::Float(value))));
    }
    finish(keys)?;
    Ok(ExprTest { language, expr, at, expected })
}

fn histogram(text: &str, line: usize) -> Read<Number> {
    match parse_samples(text).as_deref() {
        Ok([Sample::Histogram(histogram, _)]) => Ok(Number::Histogram(Arc::clone(histogram))),
        Ok(_) => Err(ConfigError::at(line, format!("histogram: '{text}' is not one histogram"))),
        Err(why) => Err(ConfigError::at(line, format!("histogram: {why}"))),
    }
}

/// A float of YAML: `.inf` and `.nan` too.
fn number(text: &str, line: usize) -> Read<f64> {
    let value = match text.to_ascii_lowercase().as_str() {
        ".inf" | "+.inf" => Ok(f64::INFINITY),
        "-.inf" => Ok(f64::NEG_INFINITY),
        ".nan" => Ok(f64::NAN),
        plain => plain.parse::<f64>(),
    };
    value.map_err(|_| ConfigError::at(line, format!("value: '{text}' is not a number")))
}
