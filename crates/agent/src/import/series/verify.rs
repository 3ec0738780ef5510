//! `--verify`: reads everything again, and compares a random window of one series of each part with the
//! server.
//!
//! A window is some consecutive samples. The server must have every sample of it: floats with the same bits,
//! histograms with the same count, sum and buckets. Answers of queries have no stale markers and one kind of
//! NaN, so stale markers are left out and each NaN equals each other. The server may have more samples.

use std::collections::BTreeMap;
use std::process::ExitCode;

use indicatif::HumanCount;
use sandur_cli::escape::escaped;
use sandur_model::{FloatHistogram, STALE_BITS};
use sandur_terminal::{Failed, counted};
use sandur_tsdb::Samples;
use tokio::sync::mpsc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::sink::Sink;
use super::source::Source;
use crate::import::stored::{DIFFERENCES_SHOWN_MAX, Series, Stored, selector};

/// A comparison of files with a server.
pub struct Verification {
    /// The server.
    pub server: Stored,
    /// Seed of the windows, together with the labels.
    pub seed: u64,
    /// Samples per window.
    pub window: usize,
    /// Whether all samples are compared, not only those of one window of each part.
    pub is_complete: bool,
}

/// What is compared of a sample.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Float(u64),
    Histogram { count: u64, sum: u64, buckets: Vec<u64> },
}

/// A window of a series.
#[derive(Clone, Debug)]
struct Window {
    labels: Vec<(String, String)>,
    samples: BTreeMap<i64, Value>,
}

enum Item {
    Window(Window),
    /// Samples of a part, of which some were chosen.
    Read(u64),
    Failure {
        name: String,
        text: String,
    },
}

/// Chooses a window of each part, on the reading thread.
struct Choosing {
    items: mpsc::Sender<Item>,
    seed: u64,
    length: usize,
    is_complete: bool,
    /// Samples of the part that were read.
    read: u64,
    best: Option<(u64, Window)>,
}

impl Sink for Choosing {
    fn begin(&mut self, _line: &str) -> bool {
        self.best = None;
        true
    }

    fn series(&mut self, labels: &[(String, String)], samples: &Samples) {
        let stale = samples.floats.iter().filter(|(_, value)| value.to_bits() == STALE_BITS).count();
        self.read += (samples.len() - stale) as u64;
        let hash = xxh3_64_with_seed(format!("{labels:?}").as_bytes(), self.seed);
        if !self.is_complete && self.best.as_ref().is_some_and(|(best, _)| *best <= hash) {
            return;
        }
        let mut all: Vec<(i64, Value)> = samples.floats.iter().map(|(t, v)| (*t, float(*v))).collect();
        samples.each_histogram(|one| all.push((one.time_ms, histogram(&one.histogram))));
        all.retain(|(_, value)| !value.is_stale());
        all.sort_by_key(|(time, _)| *time);
        if all.is_empty() {
            return;
        }
        if self.is_complete {
            for samples in all.chunks(self.length) {
                let samples = samples.iter().cloned().collect();
                let _ = self.items.blocking_send(Item::Window(Window { labels: labels.to_vec(), samples }));
            }
            return;
        }
        let places = all.len().saturating_sub(self.length) + 1;
        let start = (hash >> 8) as usize % places;
        let end = (start + self.length).min(all.len());
        let samples = all[start..end].iter().cloned().collect();
        self.best = Some((hash, Window { labels: labels.to_vec(), samples }));
    }

    fn end(&mut self) {
        if let Some((_, window)) = self.best.take() {
            let _ = self.items.blocking_send(Item::Window(window));
        }
        let _ = self.items.blocking_send(Item::Read(std::mem::take(&mut self.read)));
    }

    fn failure(&mut self, name: &str, text: &str) {
        let _ = self.items.blocking_send(Item::Failure { name: name.to_owned(), text: text.to_owned() });
    }

    fn skipped(&mut self, _name: &str, _text: &str) {
        // The import has named it.
    }

    fn is_closed(&self) -> bool {
        self.items.is_closed()
    }
}

impl Value {
    fn is_stale(&self) -> bool {
        matches!(self, Self::Float(STALE_BITS) | Self::Histogram { sum: STALE_BITS, .. })
    }
}

/// The bits of a float; those of all NaN are the same.
fn bits(value: f64) -> u64 {
    if value.is_nan() && value.to_bits() != STALE_BITS { f64::NAN.to_bits() } else { value.to_bits() }
}

fn float(value: f64) -> Value {
    Value::Float(bits(value))
}

fn histogram(of: &FloatHistogram) -> Value {
    let counts = of.positive.counts.iter().chain(&of.negative.counts).chain([&of.zero_count]);
    buckets_of(of.count, of.sum, counts.copied())
}

fn buckets_of(count: f64, sum: f64, counts: impl Iterator<Item = f64>) -> Value {
    let mut buckets: Vec<u64> = counts.filter(|count| *count != 0.0).map(bits).collect();
    buckets.sort_unstable();
    Value::Histogram { count: bits(count), sum: bits(sum), buckets }
}

impl Verification {
    /// Compares the parts of a source.
    pub async fn run(self, source: impl Source, parallel: usize) -> Result<ExitCode, Failed> {
        match self.is_complete {
            true => eprintln!("comparing all samples"),
            false => eprintln!("comparing windows of up to {} samples, --seed {}", self.window, self.seed),
        }
        let (items, mut windows) = mpsc::channel(parallel);
        let (seed, length, is_complete) = (self.seed, self.window, self.is_complete);
        let mut choosing = Choosing { items, seed, length, is_complete, read: 0, best: None };
        let reader = self.server.env.clone();
        let reading = async move { reader.run_blocking(move || source.read(&mut choosing)).await };
        let reading = self.server.env.spawn("import-read", reading);
        let (mut windows_compared, mut samples, mut read, mut differing) = (0u64, 0u64, 0u64, 0u64);
        let mut differs = |text: String| {
            differing += 1;
            if differing <= DIFFERENCES_SHOWN_MAX {
                eprintln!("sandur: {}", escaped(&text));
            }
        };
        while let Some(item) = windows.recv().await {
            match item {
                Item::Failure { name, text } => differs(format!("{name}: {text}")),
                Item::Read(of_part) => read += of_part,
                Item::Window(window) => {
                    windows_compared += 1;
                    samples += window.samples.len() as u64;
                    let stored = self.ask(&window).await?;
                    for (time, value) in &window.samples {
                        let found = stored.get(time);
                        if found != Some(value) {
                            let labels = &window.labels;
                            differs(format!("{labels:?} at {time}: {value:?}, but the server has {found:?}"));
                        }
                    }
                }
            }
        }
        reading.join().await.map_err(|error| Failed::new(format!("the files could not be read: {error}")))?;
        eprintln!("{}: {differing} differ", compared(samples, read, windows_compared));
        if samples < read && !is_complete {
            eprintln!("--verify=all compares every sample");
        }
        if windows_compared == 0 && differing == 0 {
            return Err(Failed::new("no samples were found: is this the right place?"));
        }
        Ok(if differing == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The server's samples of a window, by time.
    async fn ask(&self, window: &Window) -> Result<BTreeMap<i64, Value>, Failed> {
        let bounds = window.samples.first_key_value().zip(window.samples.last_key_value());
        let Some(((first, _), (last, _))) = bounds else { return Ok(BTreeMap::new()) };
        let labels = window.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        // The range excludes its begin.
        let length_ms = i128::from(*last) - i128::from(*first) + 1;
        let query = format!("{}[{length_ms}ms]", selector(labels));
        let all = self.server.series(query, seconds(*last)).await?;
        let wanted: BTreeMap<String, String> = window.labels.iter().cloned().collect();
        Ok(all.iter().find(|series| series.metric == wanted).map(by_time).unwrap_or_default())
    }
}

/// How much was compared, as a part of what was read.
fn compared(samples: u64, read: u64, windows: u64) -> String {
    let windows = counted(windows, "window", "windows");
    let (shown, of) = (HumanCount(samples), HumanCount(read));
    let percent = samples as f64 * 100.0 / (read as f64).max(1.0);
    format!("compared {shown} of {of} samples ({percent:.1} %) in {windows}")
}

/// A time in seconds, as text with milliseconds.
fn seconds(time_ms: i64) -> String {
    let (sign, ms) = (if time_ms < 0 { "-" } else { "" }, time_ms.unsigned_abs());
    format!("{sign}{}.{:03}", ms / 1_000, ms % 1_000)
}

/// The samples of a series of an answer.
fn by_time(series: &Series) -> BTreeMap<i64, Value> {
    let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
    let floats = series.floats().map(|(time, text)| (time, float(number(text))));
    let histograms = series.histograms().map(|(time, shown)| {
        let counts = shown.buckets.iter().map(|(_, _, _, count)| number(count));
        (time, buckets_of(number(&shown.count), number(&shown.sum), counts))
    });
    floats.chain(histograms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_compared_samples_is_shown() {
        assert_eq!(compared(246, 98_881, 2), "compared 246 of 98,881 samples (0.2 %) in 2 windows");
        assert_eq!(compared(0, 0, 0), "compared 0 of 0 samples (0.0 %) in 0 windows");
    }

    #[test]
    fn a_complete_comparison_has_every_sample() {
        let mut samples = Samples::default();
        samples.floats =
            (0..25).map(|time| (time, time as f64)).chain([(25, f64::from_bits(STALE_BITS))]).collect();
        let choose = |is_complete| {
            let (items, mut chosen) = mpsc::channel(100);
            let mut choosing = Choosing { items, seed: 1, length: 10, is_complete, read: 0, best: None };
            choosing.begin("part");
            for name in ["a", "b"] {
                choosing.series(&[("__name__".to_owned(), name.to_owned())], &samples);
            }
            choosing.end();
            drop(choosing);
            let (mut all, mut read) = (0, 0);
            while let Some(item) = chosen.blocking_recv() {
                match item {
                    Item::Window(window) => all += window.samples.len(),
                    Item::Read(samples) => read += samples,
                    Item::Failure { .. } => {}
                }
            }
            (all, read)
        };
        assert_eq!((choose(true), choose(false)), ((50, 50), (10, 50)));
    }

    #[test]
    fn times_before_the_epoch_are_written_as_such() {
        let texts = [-1_500, -500, 0, 7, 1_500, i64::MIN].map(seconds);
        let expected = ["-1.500", "-0.500", "0.000", "0.007", "1.500", "-9223372036854775.808"];
        assert_eq!(texts, expected);
    }
}
