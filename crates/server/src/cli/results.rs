//! Answers of the API, read back and shown to people.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Deserialize;

use super::failed::Failed;
use super::moment;
use super::paint::{Ink, Paint};

/// A label set.
pub type LabelMap = BTreeMap<String, String>;

/// The body of an answer to a query.
#[derive(Debug, Deserialize)]
pub struct Answer {
    /// The result.
    pub data: Data,
    /// What is missing or unusual.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The result by its type.
#[derive(Debug, Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
pub enum Data {
    /// Rows of a log query.
    Streams(Vec<Stream>),
    /// Series over time.
    Matrix(Vec<MatrixSeries>),
    /// Series at one instant.
    Vector(Vec<VectorSeries>),
    /// A number.
    Scalar((f64, String)),
}

impl Data {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Streams(streams) => streams.iter().all(|s| s.values.is_empty()),
            Self::Matrix(series) => series.is_empty(),
            Self::Vector(series) => series.is_empty(),
            Self::Scalar(_) => false,
        }
    }

    /// How much it is: `12 lines`, `3 series`.
    pub fn size_in_words(&self) -> String {
        match self {
            Self::Streams(streams) => {
                format!("{} lines", streams.iter().map(|s| s.values.len()).sum::<usize>())
            }
            Self::Matrix(series) => format!("{} series", series.len()),
            Self::Vector(series) => format!("{} series", series.len()),
            Self::Scalar(_) => "a number".to_owned(),
        }
    }
}

/// Entries with equal labels.
#[derive(Debug, Deserialize)]
pub struct Stream {
    /// All labels.
    pub stream: LabelMap,
    /// Timestamp in nanoseconds and line.
    pub values: Vec<(String, String)>,
}

/// One series of a matrix.
#[derive(Debug, Deserialize)]
pub struct MatrixSeries {
    /// Labels.
    pub metric: LabelMap,
    /// Seconds and value.
    pub values: Vec<(f64, String)>,
}

/// One series of a vector.
#[derive(Debug, Deserialize)]
pub struct VectorSeries {
    /// Labels.
    pub metric: LabelMap,
    /// Seconds and value.
    pub value: (f64, String),
}

/// How an answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// For people.
    Text,
    /// One JSON object per entry or series.
    Json,
    /// Lines or values alone.
    Raw,
}

/// Words that `--output` takes.
pub const OUTPUTS: [&str; 3] = ["text", "json", "raw"];

impl Output {
    /// The output that a word of [`OUTPUTS`] names.
    pub fn from_word(word: &str) -> Self {
        match word {
            "json" => Self::Json,
            "raw" => Self::Raw,
            _ => Self::Text,
        }
    }
}

/// Reads the body of an answer.
pub fn read(body: &[u8]) -> Result<Answer, Failed> {
    serde_json::from_slice(body).map_err(|e| Failed::new(format!("the server's answer cannot be read: {e}")))
}

/// One entry of a log answer.
pub struct Entry<'a> {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// Labels.
    pub labels: &'a LabelMap,
    /// The line.
    pub line: &'a str,
}

/// All entries of the streams by rising time.
pub fn entries(streams: &[Stream]) -> Vec<Entry<'_>> {
    let mut all: Vec<Entry<'_>> = Vec::new();
    for stream in streams {
        for (timestamp, line) in &stream.values {
            let timestamp = timestamp.parse().unwrap_or(0);
            all.push(Entry { timestamp, labels: &stream.stream, line });
        }
    }
    all.sort_by_key(|e| e.timestamp);
    all
}

/// Prints results in one way.
pub struct Printer<W> {
    /// Where to.
    pub out: W,
    /// How.
    pub output: Output,
    /// In which colours.
    pub paint: Paint,
}

impl<W: Write> Printer<W> {
    /// Prints one entry; `hidden` are labels that every entry has.
    pub fn entry(&mut self, entry: &Entry<'_>, hidden: &LabelMap) -> std::io::Result<()> {
        match self.output {
            Output::Raw => writeln!(self.out, "{}", entry.line),
            Output::Json => {
                let object = serde_json::json!({
                    "timestamp": entry.timestamp.to_string(),
                    "labels": entry.labels,
                    "line": entry.line,
                });
                writeln!(self.out, "{object}")
            }
            Output::Text => {
                let level = entry.labels.get("detected_level").map(String::as_str).unwrap_or("");
                let own: LabelMap = entry
                    .labels
                    .iter()
                    .filter(|(n, v)| hidden.get(*n) != Some(v) && *n != "detected_level")
                    .map(|(n, v)| (n.clone(), v.clone()))
                    .collect();
                let time = self.paint.ink(Ink::Dim, &moment::show(entry.timestamp));
                let labels = if own.is_empty() { String::new() } else { format!(" {}", self.labels(&own)) };
                let line = match Paint::of_level(level) {
                    Some(ink) => self.paint.ink(ink, entry.line),
                    None => entry.line.to_owned(),
                };
                writeln!(self.out, "{time}{labels} {line}")
            }
        }
    }

    /// Prints a whole answer; entries of logs in the order of `newest_first`.
    pub fn answer(&mut self, data: &Data, newest_first: bool) -> std::io::Result<()> {
        match data {
            Data::Streams(streams) => {
                let hidden = common(streams.iter().map(|s| &s.stream));
                if self.output == Output::Text && !hidden.is_empty() {
                    eprintln!("labels of all entries: {}", self.labels(&hidden));
                }
                let mut all = entries(streams);
                if newest_first {
                    all.reverse();
                }
                all.iter().try_for_each(|entry| self.entry(entry, &hidden))
            }
            Data::Matrix(series) => series.iter().try_for_each(|s| self.matrix(s)),
            Data::Vector(series) => {
                let width = series.iter().map(|s| s.value.1.len()).max().unwrap_or(0);
                series.iter().try_for_each(|s| self.vector(s, width))
            }
            Data::Scalar((_, value)) => writeln!(self.out, "{value}"),
        }
    }

    fn vector(&mut self, series: &VectorSeries, width: usize) -> std::io::Result<()> {
        match self.output {
            Output::Raw => writeln!(self.out, "{}", series.value.1),
            Output::Json => {
                let object = serde_json::json!({"metric": series.metric, "value": series.value});
                writeln!(self.out, "{object}")
            }
            Output::Text => {
                let value = self.paint.ink(Ink::Strong, &format!("{:>width$}", series.value.1));
                let labels = self.labels(&series.metric);
                writeln!(self.out, "{value}  {labels}")
            }
        }
    }

    fn matrix(&mut self, series: &MatrixSeries) -> std::io::Result<()> {
        match self.output {
            Output::Raw => series.values.iter().try_for_each(|(_, value)| writeln!(self.out, "{value}")),
            Output::Json => {
                let object = serde_json::json!({"metric": series.metric, "values": series.values});
                writeln!(self.out, "{object}")
            }
            Output::Text => {
                let values: Vec<f64> = series.values.iter().filter_map(|(_, v)| v.parse().ok()).collect();
                let labels = self.labels(&series.metric);
                writeln!(self.out, "{labels}")?;
                let (least, most) = bounds(&values);
                let last = series.values.last().map_or("", |(_, v)| v.as_str());
                let curve = self.paint.ink(Ink::Good, &sparkline(&values));
                let points = values.len();
                writeln!(self.out, "  {curve}  last {last}, least {least}, most {most}, {points} points")
            }
        }
    }

    fn labels(&self, labels: &LabelMap) -> String {
        let inner: Vec<String> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
        self.paint.ink(Ink::Name, &format!("{{{}}}", inner.join(", ")))
    }
}

/// Labels that all sets have with one value; none if there is only one set, which is shown in full.
fn common<'a>(mut sets: impl Iterator<Item = &'a LabelMap>) -> LabelMap {
    let Some(first) = sets.next() else { return LabelMap::new() };
    let mut shared = first.clone();
    let mut others = 0;
    for set in sets {
        others += 1;
        shared.retain(|name, value| set.get(name) == Some(value));
    }
    if others == 0 { LabelMap::new() } else { shared }
}

fn bounds(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), &v| (l.min(v), m.max(v)))
}

/// Columns of a curve.
const CURVE_COLUMNS: usize = 60;

/// The values as a row of bars.
fn sparkline(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = values.len().min(CURVE_COLUMNS);
    let (_, most) = bounds(values);
    let column = |n: usize| {
        let (from, to) = (n * values.len() / columns, (n + 1) * values.len() / columns);
        bounds(&values[from..to.max(from + 1)]).1
    };
    let bar = |value: f64| {
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        BARS[(share * 7.0).round() as usize]
    };
    (0..columns).map(|n| bar(column(n))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(body: &str, output: Output) -> String {
        let answer = read(body.as_bytes()).unwrap();
        let mut printer = Printer { out: Vec::new(), output, paint: Paint::none() };
        printer.answer(&answer.data, true).unwrap();
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn logs_are_merged_by_time_and_common_labels_left_out() {
        let body = r#"{"status":"success","data":{"resultType":"streams","encodingFlags":[],"result":[
            {"stream":{"app":"a","pod":"1"},"values":[["3000000","three"],["1000000","one"]]},
            {"stream":{"app":"a","pod":"2"},"values":[["2000000","two"]]}],"stats":{}}}"#;
        let text = printed(body, Output::Text);
        assert_eq!(
            text,
            "1970-01-01T00:00:00.003Z {pod=\"1\"} three\n1970-01-01T00:00:00.002Z {pod=\"2\"} two\n\
             1970-01-01T00:00:00.001Z {pod=\"1\"} one\n"
        );
        assert_eq!(printed(body, Output::Raw), "three\ntwo\none\n");
        let first = printed(body, Output::Json).lines().next().map(str::to_owned).unwrap();
        assert_eq!(first, r#"{"labels":{"app":"a","pod":"1"},"line":"three","timestamp":"3000000"}"#);
    }

    #[test]
    fn metrics_are_shown_as_numbers_and_curves() {
        let vector = r#"{"data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"10"]},
            {"metric":{},"value":[1.5,"7"]}]},"warnings":["x"]}"#;
        assert_eq!(printed(vector, Output::Text), "10  {a=\"b\"}\n 7  {}\n");
        let matrix = r#"{"data":{"resultType":"matrix","result":
            [{"metric":{"a":"b"},"values":[[1,"0"],[2,"4"],[3,"8"]]}]}}"#;
        let expected = "{a=\"b\"}\n  ▁▅█  last 8, least 0, most 8, 3 points\n";
        assert_eq!(printed(matrix, Output::Text), expected);
        let scalar = r#"{"data":{"resultType":"scalar","result":[1,"2"]}}"#;
        assert_eq!(printed(scalar, Output::Text), "2\n");
    }
}
