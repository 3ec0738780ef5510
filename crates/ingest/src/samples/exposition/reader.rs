//! Reads the lines of an exposition: descriptions of metrics and samples.
//!
//! Prometheus's text format 0.0.4 has times in milliseconds. OpenMetrics 1.0 has times in seconds,
//! exemplars and a last line `# EOF`. The text of a series is returned unparsed: a caller that knows it
//! need not parse it.

use sandur_model::MetricKind;

use super::number::{seconds_in_ms, value};
use super::series_text::{end_of_series, unescape};

/// The two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus's text format.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl ExpositionFormat {
    /// Returns the format that a content type names.
    pub fn of(content_type: &str) -> Self {
        let essence = content_type.split(';').next().unwrap_or("").trim();
        if essence.eq_ignore_ascii_case("application/openmetrics-text") {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }
}

/// A line with content.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpositionLine<'a> {
    /// A sample.
    Sample(ExpositionSample<'a>),
    /// The type of a metric family.
    Kind(&'a str, MetricKind),
    /// The help text of a metric family.
    Help(&'a str, String),
    /// The unit of a metric family.
    Unit(&'a str, &'a str),
}

/// A sample.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpositionSample<'a> {
    /// Name and labels as in the text.
    pub series: &'a str,
    /// The value, with one NaN for every way to write it.
    pub value: f64,
    /// The time in milliseconds since the epoch, if the line has one.
    pub time_ms: Option<i64>,
    /// The exemplar of the line.
    pub exemplar: Option<LineExemplar<'a>>,
}

/// An exemplar after a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct LineExemplar<'a> {
    /// The labels in braces, as in the text.
    pub labels: &'a str,
    /// The observed value.
    pub value: f64,
    /// The time in milliseconds since the epoch, if the exemplar has one.
    pub time_ms: Option<i64>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}: '{shown}'")]
pub struct ExpositionError {
    /// Number of the line, from 1.
    pub line: u64,
    /// The fault.
    pub what: &'static str,
    /// The beginning of the line.
    pub shown: String,
}

/// Most bytes of a line in an error.
const SHOWN_MAX: usize = 120;

/// Reads one line at a time. After an error it continues with the next line.
pub struct ExpositionReader<'a> {
    rest: &'a str,
    format: ExpositionFormat,
    line: u64,
    ended: bool,
}

impl<'a> ExpositionReader<'a> {
    /// Returns a reader of a complete text.
    pub fn new(text: &'a str, format: ExpositionFormat) -> Self {
        Self { rest: text, format, line: 0, ended: false }
    }

    /// Returns the number of the last line that was read, from 1.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    fn error(&self, what: &'static str, line: &str) -> ExpositionError {
        let end = line.floor_char_boundary(SHOWN_MAX);
        ExpositionError { line: self.line, what, shown: line[..end].to_owned() }
    }

    fn read(&mut self, line: &'a str) -> Result<Option<ExpositionLine<'a>>, ExpositionError> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let outcome = match line.strip_prefix('#') {
            Some(comment) => self.comment(comment),
            None if line.trim_matches([' ', '\t']).is_empty() => match self.format {
                ExpositionFormat::Prometheus => Ok(None),
                ExpositionFormat::OpenMetrics => Err("an empty line"),
            },
            None => self.sample(line.trim_start_matches([' ', '\t'])).map(ExpositionLine::Sample).map(Some),
        };
        outcome.map_err(|what| self.error(what, line))
    }

    fn comment(&mut self, comment: &'a str) -> Result<Option<ExpositionLine<'a>>, &'static str> {
        let (word, rest) = next_word(comment);
        if word == "EOF" && self.format == ExpositionFormat::OpenMetrics {
            self.ended = true;
            return if self.rest.trim().is_empty() { Ok(None) } else { Err("unexpected data after # EOF") };
        }
        if !matches!(word, "TYPE" | "HELP" | "UNIT") {
            return Ok(None);
        }
        let (family, rest) = family_name(rest)?;
        let text = rest.strip_prefix([' ', '\t']).unwrap_or(rest);
        match word {
            "TYPE" => kind(text.trim()).map(|kind| Some(ExpositionLine::Kind(family, kind))),
            "HELP" => Ok(Some(ExpositionLine::Help(family, unescape(text)))),
            _ => Ok(Some(ExpositionLine::Unit(family, text.trim()))),
        }
    }

    fn sample(&self, line: &'a str) -> Result<ExpositionSample<'a>, &'static str> {
        let end = end_of_series(line)?;
        let (series, rest) = line.split_at(end);
        let (rest, exemplar) = match self.format {
            ExpositionFormat::OpenMetrics => match rest.split_once('#') {
                Some((rest, exemplar)) => (rest, Some(line_exemplar(exemplar)?)),
                None => (rest, None),
            },
            ExpositionFormat::Prometheus => (rest, None),
        };
        let (number, rest) = next_word(rest);
        let value = value(number).ok_or("expected a value")?;
        let (time, rest) = next_word(rest);
        if !rest.trim_matches([' ', '\t']).is_empty() {
            return Err("unexpected data after the timestamp");
        }
        let time_ms = match (time, self.format) {
            ("", _) => None,
            (time, ExpositionFormat::Prometheus) => Some(time.parse().map_err(|_| "expected a timestamp")?),
            (time, ExpositionFormat::OpenMetrics) => Some(seconds_in_ms(time).ok_or("expected a timestamp")?),
        };
        Ok(ExpositionSample { series, value, time_ms, exemplar })
    }
}

impl<'a> Iterator for ExpositionReader<'a> {
    type Item = Result<ExpositionLine<'a>, ExpositionError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() && !self.ended {
            let (line, rest) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            self.rest = rest;
            self.line += 1;
            match self.read(line) {
                Ok(None) => {}
                Ok(Some(line)) => return Some(Ok(line)),
                Err(error) => return Some(Err(error)),
            }
        }
        if self.format == ExpositionFormat::OpenMetrics && !self.ended {
            self.ended = true;
            return Some(Err(self.error("data does not end with # EOF", "")));
        }
        None
    }
}

fn next_word(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find([' ', '\t']).unwrap_or(text.len());
    text.split_at(end)
}

/// Returns the name of a family, without its quotes if it is quoted, and the rest of the text.
fn family_name(text: &str) -> Result<(&str, &str), &'static str> {
    let text = text.trim_start_matches([' ', '\t']);
    let Some(inner) = text.strip_prefix('"') else {
        let (name, rest) = next_word(text);
        return if name.is_empty() { Err("expected a metric name") } else { Ok((name, rest)) };
    };
    inner.split_once('"').ok_or("a metric name has no closing quote")
}

fn kind(text: &str) -> Result<MetricKind, &'static str> {
    match text {
        "untyped" => Ok(MetricKind::Unknown),
        _ => MetricKind::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or("an unknown metric type"),
    }
}

fn line_exemplar(text: &str) -> Result<LineExemplar<'_>, &'static str> {
    let text = text.trim_start_matches([' ', '\t']);
    if !text.starts_with('{') {
        return Err("expected the labels of an exemplar");
    }
    let (labels, rest) = text.split_at(end_of_series(text)?);
    let (number, rest) = next_word(rest);
    let value = value(number).ok_or("expected the value of an exemplar")?;
    let (time, rest) = next_word(rest);
    if !rest.trim_matches([' ', '\t']).is_empty() {
        return Err("unexpected data after an exemplar");
    }
    let time_ms = match time {
        "" => None,
        time => Some(seconds_in_ms(time).ok_or("expected the timestamp of an exemplar")?),
    };
    Ok(LineExemplar { labels, value, time_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: ExpositionFormat) -> Vec<Result<ExpositionLine<'_>, ExpositionError>> {
        ExpositionReader::new(text, format).collect()
    }

    #[test]
    fn prometheus_text_is_read() {
        let text =
            "# HELP up Whether a\\nb.\n# TYPE up gauge\n#comment\n\nup{a=\"b # c\"} 1 1000\r\nx NaN\n  y 2";
        let lines: Vec<_> =
            read(text, ExpositionFormat::Prometheus).into_iter().map(Result::unwrap).collect();
        assert_eq!(lines[0], ExpositionLine::Help("up", "Whether a\nb.".to_owned()));
        assert_eq!(lines[1], ExpositionLine::Kind("up", MetricKind::Gauge));
        let ExpositionLine::Sample(sample) = &lines[2] else { panic!() };
        assert_eq!((sample.series, sample.value, sample.time_ms), (r##"up{a="b # c"}"##, 1.0, Some(1_000)));
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn open_metrics_has_times_in_seconds_exemplars_and_an_end() {
        let text = "# TYPE h histogram\n# UNIT h seconds\nh_bucket{le=\"#\"} 3 1.5 # \
                    {trace_id=\"a b\"} 0.5 1.25\n\
                    # EOF\n";
        let lines: Vec<_> =
            read(text, ExpositionFormat::OpenMetrics).into_iter().map(Result::unwrap).collect();
        let ExpositionLine::Sample(sample) = &lines[2] else { panic!() };
        assert_eq!((sample.series, sample.time_ms), (r##"h_bucket{le="#"}"##, Some(1_500)));
        let exemplar = sample.exemplar.as_ref().unwrap();
        assert_eq!(
            (exemplar.labels, exemplar.value, exemplar.time_ms),
            (r#"{trace_id="a b"}"#, 0.5, Some(1_250))
        );
        assert!(read("x 1\n", ExpositionFormat::OpenMetrics)[1].is_err(), "without # EOF");
        assert!(read("x 1\n# EOF\ny 2\n", ExpositionFormat::OpenMetrics)[1].is_err(), "data after # EOF");
    }

    #[test]
    fn a_bad_line_is_reported_and_the_next_one_is_read() {
        let lines =
            read("up one\nup 1 x\nup 1 2 3\n{ 1\nup 1\n# TYPE up what\n", ExpositionFormat::Prometheus);
        let errors: Vec<String> =
            lines.iter().filter_map(|line| line.as_ref().err()).map(|e| e.to_string()).collect();
        assert_eq!(
            errors,
            [
                "line 1: expected a value: 'up one'",
                "line 2: expected a timestamp: 'up 1 x'",
                "line 3: unexpected data after the timestamp: 'up 1 2 3'",
                "line 4: expected \"}\": '{ 1'",
                "line 6: an unknown metric type: '# TYPE up what'",
            ]
        );
        assert_eq!(lines.len(), 6);
    }
}
