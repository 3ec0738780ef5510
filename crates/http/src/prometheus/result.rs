//! Writes the answer of a query as JSON, piece by piece.

use sandur_promql::{Answer, Point, Value};
use sandur_service::promql::Rows;

use super::instants::Instants;
use super::numbers;
use super::reply::{BEGIN, PIECE_BYTES, Pieces, notes};
use crate::marshal::json;

/// Everything that the body of an answer contains.
pub struct Shown {
    /// The rows.
    pub rows: Rows,
    /// Timestamp of scalars and vectors, milliseconds.
    pub at_ms: i64,
    /// Warnings.
    pub warnings: Vec<String>,
    /// Infos.
    pub infos: Vec<String>,
    /// The object `stats`, if it was requested.
    pub stats: Option<Vec<u8>>,
}

/// The position of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Begin,
    /// Before a series.
    Series(usize),
    /// Within a series: the numbers of floats and histograms that are written.
    Within(usize, usize, usize),
}

/// Writes an answer.
pub struct Writer {
    shown: Shown,
    at: At,
    instants: Instants,
    /// Size at which the present piece is complete.
    piece_bytes: usize,
}

/// Estimated bytes of a series, a float and a histogram of an answer.
const SERIES_BYTES: usize = 256;
const FLOAT_BYTES: usize = 32;
const HISTOGRAM_BYTES: usize = 1_024;

/// Size of pieces after the first: of large answers, so that they are handed over less often.
const LATER_PIECE_BYTES: usize = 4 * PIECE_BYTES;

impl Writer {
    /// A writer at the start of the answer.
    pub fn new(shown: Shown) -> Self {
        Self { shown, at: At::Begin, instants: Instants::default(), piece_bytes: PIECE_BYTES }
    }

    fn begin(&self, out: &mut Vec<u8>) -> At {
        out.reserve(about_bytes(&self.shown.rows, PIECE_BYTES + PIECE_BYTES / 4));
        out.extend_from_slice(BEGIN);
        json::push(out, format_args!("{{\"resultType\":\"{}\",\"result\":[", result_type(&self.shown.rows)));
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
                json::utf8(out, text);
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
        write_labels(&self.shown.rows, out, series);
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

    /// Writes floats of a series, after the `done` that are written, until the piece is complete. Returns
    /// how many are written then.
    fn floats(&mut self, out: &mut Vec<u8>, series: usize, done: usize) -> usize {
        if done == 0 {
            self.instants.begin();
        }
        match &self.shown.rows {
            Rows::Joined(held) => {
                let samples = &held.series[series].samples;
                let left = samples[done..].iter().map(|sample| (sample.timestamp_ms, sample.value));
                self.instants.push_floats((out, self.piece_bytes), done, left)
            }
            Rows::Evaluated(Answer { value: Value::Matrix(all), .. }) => {
                let left = all[series].floats[done..].iter().copied();
                self.instants.push_floats((out, self.piece_bytes), done, left)
            }
            Rows::Evaluated(_) => done,
        }
    }

    /// Writes the samples of a series from these indices on, until the piece is complete.
    fn samples(&mut self, out: &mut Vec<u8>, series: usize, (floats, mut histograms): (usize, usize)) -> At {
        let (all_floats, all_histograms) = counts(&self.shown.rows, series);
        let floats = if floats < all_floats { self.floats(out, series, floats) } else { floats };
        if floats < all_floats {
            return At::Within(series, floats, histograms);
        }
        while histograms < all_histograms {
            if out.len() >= self.piece_bytes {
                return At::Within(series, floats, histograms);
            }
            out.extend_from_slice(if histograms == 0 { b",\"histograms\":[" } else { b"," });
            write_histogram(&self.shown.rows, out, series, histograms);
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
        while out.len() < self.piece_bytes {
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
        self.piece_bytes = LATER_PIECE_BYTES;
        true
    }
}

/// The `resultType` of an answer.
fn result_type(rows: &Rows) -> &'static str {
    match rows {
        Rows::Joined(_) => "matrix",
        Rows::Evaluated(answer) => match &answer.value {
            Value::Scalar(_) => "scalar",
            Value::String(_) => "string",
            Value::Vector(_) => "vector",
            Value::Matrix(_) => "matrix",
        },
    }
}

/// Writes the labels of a series.
fn write_labels(rows: &Rows, out: &mut Vec<u8>, series: usize) {
    match rows {
        Rows::Joined(held) => {
            let labels = held.series[series].labels.iter();
            json::labels(out, labels.map(|(name, value)| (&**name, &**value)));
        }
        Rows::Evaluated(answer) => match &answer.value {
            Value::Vector(all) => json::labels(out, all[series].0.iter()),
            Value::Matrix(all) => json::labels(out, all[series].labels.iter()),
            Value::Scalar(_) | Value::String(_) => {}
        },
    }
}

/// Returns the number of floats and of histograms of a series of a matrix.
fn counts(rows: &Rows, series: usize) -> (usize, usize) {
    match rows {
        Rows::Joined(held) => (held.series[series].samples.len(), 0),
        Rows::Evaluated(answer) => match &answer.value {
            Value::Matrix(all) => (all[series].floats.len(), all[series].histograms.len()),
            _ => (0, 0),
        },
    }
}

/// Estimates the size of the answer in bytes, up to `most`.
fn about_bytes(rows: &Rows, most: usize) -> usize {
    let mut bytes = 0;
    for series in 0..rows.len() {
        let (floats, histograms) = counts(rows, series);
        bytes += SERIES_BYTES + floats * FLOAT_BYTES + histograms * HISTOGRAM_BYTES;
        if bytes >= most {
            return most;
        }
    }
    bytes
}

/// Writes the `n`th histogram of a series of a matrix.
fn write_histogram(rows: &Rows, out: &mut Vec<u8>, series: usize, n: usize) {
    if let Rows::Evaluated(Answer { value: Value::Matrix(all), .. }) = rows {
        let (ms, histogram) = &all[series].histograms[n];
        numbers::histogram_sample(out, *ms, histogram);
    }
}
