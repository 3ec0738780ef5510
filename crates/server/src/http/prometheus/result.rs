//! The answer of a query as JSON, written piece by piece.

use sandur_query::HeldSeries;

use super::numbers;
use super::reply::{BEGIN, PIECE_BYTES, Pieces, notes};
use crate::http::marshal::json;
use crate::wiring::promql::{Answer, Point, Value};

/// What was answered.
pub enum Rows {
    /// As it was evaluated.
    Evaluated(Answer),
    /// Series over steps, some of which were kept from before.
    Joined(HeldSeries),
}

/// An answer with all that stands in its body.
pub struct Shown {
    /// The rows.
    pub rows: Rows,
    /// The instant of scalars and vectors.
    pub at_ms: i64,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Infos.
    pub infos: Vec<String>,
    /// The object of statistics, if it was asked for.
    pub stats: Option<Vec<u8>>,
}

impl Rows {
    /// Series of the answer; a number is one.
    pub fn len(&self) -> usize {
        match self {
            Self::Joined(held) => held.series.len(),
            Self::Evaluated(answer) => match &answer.value {
                Value::Vector(all) => all.len(),
                Value::Matrix(all) => all.len(),
                Value::Scalar(_) | Value::String(_) => 1,
            },
        }
    }

    /// Leaves the first series; whether there were more.
    pub fn truncate(&mut self, limit: usize) -> bool {
        let before = self.len();
        match self {
            Self::Joined(held) => held.series.truncate(limit),
            Self::Evaluated(answer) => match &mut answer.value {
                Value::Vector(all) => all.truncate(limit),
                Value::Matrix(all) => all.truncate(limit),
                Value::Scalar(_) | Value::String(_) => {}
            },
        }
        self.len() < before
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Joined(_) => "matrix",
            Self::Evaluated(answer) => match &answer.value {
                Value::Scalar(_) => "scalar",
                Value::String(_) => "string",
                Value::Vector(_) => "vector",
                Value::Matrix(_) => "matrix",
            },
        }
    }

    fn labels(&self, out: &mut Vec<u8>, series: usize) {
        match self {
            Self::Joined(held) => {
                let labels = held.series[series].labels.iter();
                json::labels(out, labels.map(|(name, value)| (&**name, &**value)));
            }
            Self::Evaluated(answer) => match &answer.value {
                Value::Vector(all) => json::labels(out, all[series].0.iter()),
                Value::Matrix(all) => json::labels(out, all[series].labels.iter()),
                Value::Scalar(_) | Value::String(_) => {}
            },
        }
    }

    /// Floats and histograms of a series.
    fn counts(&self, series: usize) -> (usize, usize) {
        match self {
            Self::Joined(held) => (held.series[series].samples.len(), 0),
            Self::Evaluated(answer) => match &answer.value {
                Value::Matrix(all) => (all[series].floats.len(), all[series].histograms.len()),
                _ => (0, 0),
            },
        }
    }

    fn float(&self, series: usize, n: usize) -> (i64, f64) {
        match self {
            Self::Joined(held) => {
                let sample = held.series[series].samples[n];
                (sample.timestamp_ms, sample.value)
            }
            Self::Evaluated(answer) => match &answer.value {
                Value::Matrix(all) => all[series].floats[n],
                _ => (0, 0.0),
            },
        }
    }

    fn histogram(&self, out: &mut Vec<u8>, series: usize, n: usize) {
        if let Self::Evaluated(Answer { value: Value::Matrix(all), .. }) = self {
            let (ms, histogram) = &all[series].histograms[n];
            numbers::histogram_sample(out, *ms, histogram);
        }
    }
}

/// Where writing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Begin,
    /// Before a series.
    Series(usize),
    /// Within a series: floats and histograms that are written.
    Within(usize, usize, usize),
}

/// An answer that is being written.
pub struct Writer {
    shown: Shown,
    at: At,
}

impl Writer {
    /// Begins.
    pub fn new(shown: Shown) -> Self {
        Self { shown, at: At::Begin }
    }

    fn begin(&self, out: &mut Vec<u8>) -> At {
        out.extend_from_slice(BEGIN);
        json::push(out, format_args!("{{\"resultType\":\"{}\",\"result\":[", self.shown.rows.kind()));
        let Rows::Evaluated(answer) = &self.shown.rows else { return At::Series(0) };
        match &answer.value {
            Value::Scalar(value) => {
                numbers::seconds(out, self.shown.at_ms);
                out.push(b',');
                numbers::quoted(out, *value);
            }
            Value::String(text) => {
                numbers::seconds(out, self.shown.at_ms);
                out.push(b',');
                json::string(out, text.as_bytes());
            }
            Value::Vector(_) | Value::Matrix(_) => return At::Series(0),
        }
        At::Series(1)
    }

    fn end(&self, out: &mut Vec<u8>) {
        out.push(b']');
        if let Some(stats) = &self.shown.stats {
            out.extend_from_slice(b",\"stats\":");
            out.extend_from_slice(stats);
        }
        out.push(b'}');
        notes(out, "warnings", &self.shown.warnings);
        notes(out, "infos", &self.shown.infos);
        out.push(b'}');
    }

    fn series(&self, out: &mut Vec<u8>, series: usize) -> At {
        if series > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"metric\":");
        self.shown.rows.labels(out, series);
        if let Rows::Evaluated(Answer { value: Value::Vector(all), .. }) = &self.shown.rows {
            match &all[series].1 {
                Point::Float(value) => {
                    out.extend_from_slice(b",\"value\":");
                    numbers::sample(out, self.shown.at_ms, *value);
                }
                Point::Histogram(histogram) => {
                    out.extend_from_slice(b",\"histogram\":");
                    numbers::histogram_sample(out, self.shown.at_ms, histogram);
                }
            }
            out.push(b'}');
            return At::Series(series + 1);
        }
        At::Within(series, 0, 0)
    }

    /// The samples of a series from these on, until the piece is complete.
    fn samples(&self, out: &mut Vec<u8>, series: usize, (mut floats, mut histograms): (usize, usize)) -> At {
        let (all_floats, all_histograms) = self.shown.rows.counts(series);
        while floats < all_floats {
            if out.len() >= PIECE_BYTES {
                return At::Within(series, floats, histograms);
            }
            out.extend_from_slice(if floats == 0 { b",\"values\":[" } else { b"," });
            let (ms, value) = self.shown.rows.float(series, floats);
            numbers::sample(out, ms, value);
            floats += 1;
            if floats == all_floats {
                out.push(b']');
            }
        }
        while histograms < all_histograms {
            if out.len() >= PIECE_BYTES {
                return At::Within(series, floats, histograms);
            }
            out.extend_from_slice(if histograms == 0 { b",\"histograms\":[" } else { b"," });
            self.shown.rows.histogram(out, series, histograms);
            histograms += 1;
            if histograms == all_histograms {
                out.push(b']');
            }
        }
        out.push(b'}');
        At::Series(series + 1)
    }
}

impl Pieces for Writer {
    fn next(&mut self, out: &mut Vec<u8>) -> bool {
        while out.len() < PIECE_BYTES {
            self.at = match self.at {
                At::Begin => self.begin(out),
                At::Series(series) if series >= self.shown.rows.len() => {
                    self.end(out);
                    return false;
                }
                At::Series(series) => self.series(out, series),
                At::Within(series, floats, histograms) => self.samples(out, series, (floats, histograms)),
            };
        }
        true
    }
}
