//! `sandur import victoria-metrics`: sends what `/api/v1/export` of VictoriaMetrics returns: lines of JSON,
//! each with some samples of a series.
//!
//! A part is some consecutive lines of a file with at least [`PART_SAMPLES`] samples, or the rest of it.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use sandur_runtime::Env;
use sandur_terminal::Failed;
use sandur_tsdb::Samples;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::series::{self, Sink, Source, Wanted};
use crate::push::opened::{self, Opened};

/// Samples after which a part ends.
const PART_SAMPLES: usize = 50_000;
/// Longest line: some million samples.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// The command.
pub fn command() -> Command {
    let files = Arg::new("file").value_name("FILE").required(true).action(ArgAction::Append);
    let files = files.value_parser(value_parser!(PathBuf));
    let files = files.help("Files of /api/v1/export, also compressed (gzip, zstd, xz, bzip2)");
    let command =
        Command::new("victoria-metrics").about("Import JSON lines that VictoriaMetrics exported").after_help(
            "Example:\n  curl -sG http://vm:8428/api/v1/export --data-urlencode 'match[]={__name__!=\"\"}' | \
             gzip > export.gz\n  sandur import victoria-metrics --resume victoria.state export.gz\n\
             Export with reduce_mem_usage=1 to get the samples of a series in several lines.\n\
             Exit codes: 0 everything is stored, or equal; 1 some is not; 2 wrong usage.",
        );
    series::arguments(command.arg(files))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let files = matches.get_many::<PathBuf>("file").into_iter().flatten().cloned().collect();
    let wanted = series::wanted(&env, matches)?;
    series::run(env, matches, "victoria-metrics", Files { files, wanted }).await
}

struct Files {
    files: Vec<PathBuf>,
    wanted: Wanted,
}

impl Source for Files {
    fn read(self, sink: &mut dyn Sink) {
        for path in &self.files {
            if sink.is_closed() {
                return;
            }
            if let Err(text) = self.file(path, sink) {
                sink.failure(&path.display().to_string(), &text);
            }
        }
    }
}

/// A line of an export.
#[derive(Deserialize)]
struct Line {
    metric: std::collections::BTreeMap<String, String>,
    values: Vec<Number>,
    timestamps: Vec<i64>,
}

/// A number; JSON has no NaN and no infinities, so these are `null` or text.
struct Number(f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number, null, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }

            fn visit_f64<E>(self, value: f64) -> Result<Number, E> {
                Ok(Number(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Number, E> {
                Ok(Number(value as f64))
            }

            fn visit_unit<E>(self) -> Result<Number, E> {
                Ok(Number(f64::NAN))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map(Number).map_err(|_| E::custom(format!("'{text}' is not a number")))
            }
        }
        from.deserialize_any(Any)
    }
}

impl Files {
    fn file(&self, path: &Path, sink: &mut dyn Sink) -> Result<(), String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let name = format!(
            "{} {}.{} {} {}",
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            path.display().to_string().escape_default(),
            self.wanted.name()
        );
        let input = match opened::open(Box::new(file)).map_err(unreadable)? {
            Opened::Plain(input) | Opened::Compressed(input) => input,
            Opened::Binary(what) => return Err(format!("is {what}, not lines of JSON")),
        };
        let mut input = BufReader::new(input);
        let (mut text, mut number, mut part) = (Vec::new(), 0u64, Part::default());
        loop {
            text.clear();
            let read = (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut text).map_err(unreadable)?;
            number += 1;
            if read as u64 == LINE_BYTES_MAX && !text.ends_with(b"\n") {
                part.send(&name, sink);
                let limit = LINE_BYTES_MAX;
                return Err(format!(
                    "line {number} is longer than {limit} bytes: export with reduce_mem_usage=1; the lines \
                     before it are imported"
                ));
            }
            let is_end = read == 0;
            if is_end || part.samples >= PART_SAMPLES {
                part.send(&name, sink);
                part.first_line = number;
            }
            if is_end || sink.is_closed() {
                return Ok(());
            }
            if !text.trim_ascii().is_empty() {
                match self.line(&text) {
                    Ok((labels, samples)) => part.add(labels, samples),
                    Err(text) => {
                        sink.failure(&path.display().to_string(), &format!("line {number}: {text}"));
                    }
                }
            }
        }
    }

    fn line(&self, text: &[u8]) -> Result<(Vec<(String, String)>, Samples), String> {
        let line: Line = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if line.values.len() != line.timestamps.len() {
            let (values, times) = (line.values.len(), line.timestamps.len());
            return Err(format!("has {values} values and {times} timestamps"));
        }
        let mut labels: Vec<(String, String)> = line.metric.into_iter().collect();
        self.wanted.complete(&mut labels);
        let all = line.timestamps.into_iter().zip(line.values);
        let wanted = all.filter(|(time, _)| self.wanted.has(*time));
        let floats = wanted.map(|(time, Number(value))| (time, value)).collect();
        Ok((labels, Samples::of_floats(floats)))
    }
}

/// Lines that are sent together.
#[derive(Default)]
struct Part {
    first_line: u64,
    samples: usize,
    series: Vec<(Vec<(String, String)>, Samples)>,
}

impl Part {
    fn add(&mut self, labels: Vec<(String, String)>, samples: Samples) {
        self.samples += samples.len();
        if !samples.is_empty() {
            self.series.push((labels, samples));
        }
    }

    fn send(&mut self, name: &str, sink: &mut dyn Sink) {
        let series = std::mem::take(&mut self.series);
        self.samples = 0;
        if series.is_empty() || !sink.begin(&format!("{} {name}", self.first_line)) {
            return;
        }
        for (labels, samples) in &series {
            sink.series(labels, samples);
        }
        sink.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a source passed on.
    #[derive(Default)]
    struct Passed {
        samples: Vec<(i64, u64)>,
        parts: usize,
        failures: Vec<String>,
    }

    impl Sink for Passed {
        fn begin(&mut self, _line: &str) -> bool {
            true
        }

        fn series(&mut self, _labels: &[(String, String)], samples: &Samples) {
            self.samples.extend(samples.floats.iter().map(|(time, value)| (*time, value.to_bits())));
        }

        fn end(&mut self) {
            self.parts += 1;
        }

        fn failure(&mut self, _name: &str, text: &str) {
            self.failures.push(text.to_owned());
        }

        fn skipped(&mut self, _name: &str, _text: &str) {}

        fn is_closed(&self) -> bool {
            false
        }
    }

    fn read(path: &Path) -> Passed {
        let wanted = Wanted { from_ms: i64::MIN, to_ms: i64::MAX, labels: Vec::new() };
        let mut passed = Passed::default();
        Files { files: vec![path.to_owned()], wanted }.read(&mut passed);
        passed
    }

    #[test]
    fn values_have_the_bits_that_the_export_shows() {
        let mut values = vec![0.1 + 0.2, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, 9_007_199_254_740_993.0];
        let mut state = 1u64;
        while values.len() < 2_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(state);
            values.extend(value.is_finite().then_some(value));
        }
        let shown: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        let times: Vec<String> = (0..values.len()).map(|time| time.to_string()).collect();
        let (shown, times) = (shown.join(","), times.join(","));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        let line = format!("{{\"metric\":{{}},\"values\":[{shown}],\"timestamps\":[{times}]}}\n");
        std::fs::write(&path, line).unwrap();
        let passed = read(&path);
        let expected: Vec<(i64, u64)> =
            values.iter().enumerate().map(|(time, value)| (time as i64, value.to_bits())).collect();
        assert_eq!((passed.samples, passed.failures), (expected, Vec::new()));
    }

    #[test]
    fn lines_before_one_that_is_too_long_are_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("export");
        let line = "{\"metric\":{},\"values\":[1],\"timestamps\":[7]}\n".to_owned();
        std::fs::write(&path, line + &" ".repeat(LINE_BYTES_MAX as usize)).unwrap();
        let passed = read(&path);
        assert_eq!((passed.samples, passed.parts), (vec![(7, 1f64.to_bits())], 1));
        assert!(
            passed.failures.len() == 1 && passed.failures[0].starts_with("line 2"),
            "{:?}",
            passed.failures
        );
    }
}
