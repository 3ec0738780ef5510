//! The rows that writers write, for both signals, with the identity and the exact content of each.

use std::fmt::Write as _;
use std::sync::Arc;

use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset};
use sandur_model::{
    Exemplar, FloatHistogram, HistogramSample, Labels, MetricMetadata, STALE_BITS, SampleBatch, TenantId,
};
use sandur_runtime::Env;

/// The content of a row.
#[derive(Clone, Debug)]
pub enum Content {
    /// An entry of a log.
    Line(String),
    /// A float sample.
    Float {
        /// The bits of its value.
        bits: u64,
        /// The start of its counter, in milliseconds since the epoch; 0: unknown.
        start: i64,
    },
    /// A native histogram.
    Histogram(HistogramSample),
    /// An exemplar.
    Exemplar {
        /// The bits of its value.
        bits: u64,
        /// The value of its label `trace_id`.
        trace: String,
    },
    /// Help text of the metric family with the stream's name. It has no time and is never deleted. A
    /// later text may replace an earlier one, or exist in addition to it.
    Help(String),
}

/// A row of a push.
#[derive(Clone, Debug)]
pub struct Row {
    /// The stream or the series that it belongs to.
    pub stream: String,
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// What it says.
    pub content: Content,
}

/// A row as a reader finds it: its identity and its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The identity. One row is found per identity, or several different ones if [`Row::is_description`].
    pub identity: String,
    /// The complete content.
    pub text: String,
}

impl Row {
    /// Returns the row as a reader finds it.
    pub fn found(&self) -> Found {
        let Self { stream, timestamp, content } = self;
        let ms = timestamp.div_euclid(1_000_000);
        let (identity, text) = match content {
            Content::Line(line) => (line.clone(), String::new()),
            Content::Float { bits, start } => {
                (format!("sample of {stream} at {ms}"), format!("{bits:#x} since {start}"))
            }
            Content::Histogram(sample) => {
                let text = format!("histogram {} since {}", text_of(&sample.histogram), sample.start);
                (format!("sample of {stream} at {ms}"), text)
            }
            Content::Exemplar { bits, trace } => {
                (format!("exemplar of {stream} at {ms}, {bits:#x} of {trace}"), String::new())
            }
            Content::Help(help) => (format!("help of {stream}"), help.clone()),
        };
        Found { identity, text }
    }

    /// Returns whether it describes a metric family, without a time.
    pub fn is_description(&self) -> bool {
        matches!(self.content, Content::Help(_))
    }
}

/// Formats a histogram, with its floats as bits.
fn text_of(histogram: &FloatHistogram) -> String {
    let FloatHistogram { reset, schema, zero_threshold, zero_count, count, sum, positive, negative, bounds } =
        histogram;
    let mut text = format!("{reset:?} {schema}");
    let singles = [zero_threshold, zero_count, count, sum].into_iter();
    for number in singles.chain(&positive.counts).chain(&negative.counts).chain(bounds.iter()) {
        let _ = write!(text, " {:x}", number.to_bits());
    }
    let _ = write!(text, " {:?} {:?}", positive.indices, negative.indices);
    text
}

/// Makes a batch of the samples, exemplars and help texts among rows of one series.
pub fn batch_of(stream: &str, rows: &[Row]) -> SampleBatch {
    let labels = Arc::new(Labels::from_pairs([("__name__", "sim"), ("stream", stream)]));
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    batch.push(labels, []);
    for Row { stream, timestamp, content } in rows {
        let ms = timestamp.div_euclid(1_000_000);
        match content {
            Content::Line(_) => {}
            Content::Float { bits, start } => {
                batch.push_sample(ms, f64::from_bits(*bits));
                batch.set_start(*start);
            }
            Content::Histogram(sample) => batch.push_histogram(sample.clone()),
            Content::Exemplar { bits, trace } => {
                let labels = Labels::from_pairs([("trace_id", trace)]);
                batch.push_exemplar(Exemplar { labels, value: f64::from_bits(*bits), timestamp: ms });
            }
            Content::Help(help) => {
                let (family, help) = (stream.as_str().into(), help.as_str().into());
                batch.metadata.push(MetricMetadata { family, help, ..MetricMetadata::default() });
            }
        }
    }
    batch
}

/// Returns the rows of a batch; the inverse of [`batch_of`].
pub fn rows_of(batch: &SampleBatch) -> Vec<Row> {
    let stream_of = |labels: &Labels| labels.get("stream").unwrap_or_default().to_owned();
    let at = |ms: i64| ms * 1_000_000;
    let mut rows = Vec::new();
    for series in &batch.series {
        let first = series.samples.start as usize;
        for (n, (ms, value)) in batch.samples_of(series).enumerate() {
            let content = Content::Float { bits: value.to_bits(), start: batch.start_of(first + n) };
            rows.push(Row { stream: stream_of(&series.labels), timestamp: at(ms), content });
        }
        for sample in batch.histograms_of(series) {
            let (timestamp, content) = (at(sample.timestamp), Content::Histogram(sample.clone()));
            rows.push(Row { stream: stream_of(&series.labels), timestamp, content });
        }
    }
    for of in &batch.exemplars {
        let series = &batch.series[of.series as usize];
        rows.push(exemplar_row(&series.labels, &of.exemplar));
    }
    rows.extend(batch.metadata.iter().map(help_row));
    rows
}

/// Converts an exemplar to a row.
pub fn exemplar_row(series: &Labels, one: &Exemplar) -> Row {
    let trace = one.labels.get("trace_id").unwrap_or_default().to_owned();
    Row {
        stream: series.get("stream").unwrap_or_default().to_owned(),
        timestamp: one.timestamp * 1_000_000,
        content: Content::Exemplar { bits: one.value.to_bits(), trace },
    }
}

/// Converts the description of a metric family to a row.
pub fn help_row(one: &MetricMetadata) -> Row {
    let content = Content::Help(one.help.as_ref().into());
    Row { stream: one.family.as_ref().into(), timestamp: 0, content }
}

/// Returns random content for a series at a time.
pub fn some_content(env: &Env, ms: i64, number: u64) -> Content {
    let start = if env.random_below(4) == 0 { ms - env.random_below(90_000) as i64 } else { 0 };
    match env.random_below(10) {
        0..6 => Content::Float { bits: some_bits(env, number), start },
        6..8 => {
            let (histogram, integer) = some_histogram(env, number);
            Content::Histogram(HistogramSample { timestamp: ms, start, integer, histogram })
        }
        _ => Content::Exemplar { bits: some_bits(env, number), trace: format!("{number:032x}") },
    }
}

/// Returns the bits of a usual number, or of one that is hard to preserve.
fn some_bits(env: &Env, number: u64) -> u64 {
    match env.random_below(8) {
        0 => STALE_BITS,
        1 => [0x7ff8_0000_0000_0001, 0xfff8_0000_0000_0000, 0x7ff0_0000_0000_0001, 1, 1 << 63]
            [env.random_below(5) as usize],
        2 => [f64::INFINITY, f64::NEG_INFINITY, f64::MAX][env.random_below(3) as usize].to_bits(),
        3 => env.random_u64(),
        4 => (number as f64 * 0.1).to_bits(),
        _ => (number as f64).to_bits(),
    }
}

/// Returns a random histogram of integers or floats, with exponential or custom buckets, and whether it
/// was sent with integers.
fn some_histogram(env: &Env, number: u64) -> (Arc<FloatHistogram>, bool) {
    let integer = env.random_below(2) == 0;
    let counts = |indices: Vec<i32>| {
        let count = |_: &i32| env.random_below(1_000) as f64 * if integer { 1.0 } else { 0.37 };
        let counts = indices.iter().map(count).collect();
        Buckets { indices, counts }
    };
    let mut histogram = FloatHistogram { sum: number as f64 * 1.5, ..FloatHistogram::default() };
    if env.random_below(3) == 0 {
        histogram.schema = CUSTOM_SCHEMA;
        histogram.bounds = Arc::from([0.1, 0.5, 1.0 + env.random_below(3) as f64]);
        histogram.positive = counts((0..env.random_below(5) as i32).collect());
    } else {
        histogram.schema = env.random_below(13) as i32 - 4;
        histogram.zero_threshold = [0.0, 1e-128, 0.5][env.random_below(3) as usize];
        histogram.zero_count = env.random_below(10) as f64;
        let from = env.random_below(2_000) as i32 - 1_000;
        histogram.positive = counts((0..env.random_below(9) as i32).map(|n| from + n * n).collect());
        histogram.negative = counts((0..env.random_below(3) as i32).map(|n| n - from).collect());
    }
    let sums = histogram.positive.counts.iter().chain(&histogram.negative.counts);
    histogram.count = histogram.zero_count + sums.sum::<f64>();
    let resets = [CounterReset::Unknown, CounterReset::Reset, CounterReset::NotReset, CounterReset::Gauge];
    histogram.reset = resets[env.random_below(4) as usize];
    if env.random_below(8) == 0 {
        histogram.sum = f64::from_bits(STALE_BITS);
    }
    (Arc::new(histogram), integer)
}
