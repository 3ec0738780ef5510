//! Prints answers: in a readable form, or line by line for programs.
//!
//! On a terminal, hidden characters of lines and labels are escaped, matches of line filters are
//! highlighted, and errors are colored. Into a pipe everything is printed unchanged.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, ArgMatches};
use sandur_logql::Highlights;

use super::chart;
use super::escape::escaped;
use super::moment::{Window, Zone};
use super::paging::Row;
use super::paint::{Ink, Paint};
use super::results::{Data, LabelMap, MatrixSeries, VectorSeries};

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A readable form.
    Default,
    /// Only lines or values.
    Raw,
    /// One JSON object per entry or series.
    Jsonl,
    /// Comma-separated values: time, labels, line or value.
    Csv,
}

/// The argument `--output`.
pub fn output_argument() -> Arg {
    output_argument_with(&[])
}

/// The argument `--output` with additional formats.
pub fn output_argument_with(more: &'static [&'static str]) -> Arg {
    let word = |name: &'static str| PossibleValue::new(name);
    let words = [word("default").alias("text"), word("raw"), word("jsonl").alias("json"), word("csv")];
    let words = words.into_iter().chain(more.iter().map(|name| word(name)));
    let output = Arg::new("output").long("output").short('o').value_name("FORM").default_value("default");
    output
        .value_parser(PossibleValuesParser::new(words))
        .help("default: readable; raw: only lines and values; jsonl: one JSON object per line; csv: a table")
}

impl Output {
    /// The format that the arguments select.
    pub fn from_arguments(matches: &ArgMatches) -> Self {
        match matches.get_one::<String>("output").map(String::as_str) {
            Some("jsonl" | "json") => Self::Jsonl,
            Some("raw") => Self::Raw,
            Some("csv") => Self::Csv,
            _ => Self::Default,
        }
    }
}

/// Prints answers in one format.
pub struct Printer<W> {
    /// The output.
    pub out: W,
    /// The format.
    pub output: Output,
    /// Whether to use colors.
    pub paint: Paint,
    /// The zone of times.
    pub zone: Zone,
    /// What is highlighted in lines.
    pub highlights: Highlights,
    /// Whether hidden characters of lines and labels are escaped, for a terminal.
    pub escapes: bool,
    /// Labels that all entries shown so far have; `None` before the first entry.
    pub hidden: Option<LabelMap>,
    /// Whether the header of a table was written.
    pub has_head: bool,
}

impl<W: Write> Printer<W> {
    /// A printer for the answers to a query on stdout.
    pub fn new(out: W, output: Output, zone: Zone, query: &str) -> Self {
        let (paint, escapes) = (Paint::for_stdout(), std::io::stdout().is_terminal());
        let highlights = if paint.is_on() { Highlights::of(query) } else { Highlights::default() };
        Self { out, output, paint, zone, highlights, escapes, hidden: None, has_head: false }
    }

    /// Prints rows of a log query, without the labels that all of them have.
    pub fn page(&mut self, rows: &[Row]) -> std::io::Result<()> {
        if self.output == Output::Default {
            self.hide_shared(rows);
        }
        rows.iter().try_for_each(|row| self.row(row))?;
        self.out.flush()
    }

    /// Prints labels that all rows so far have once. A later page may have fewer of them.
    fn hide_shared(&mut self, rows: &[Row]) {
        let Some(first) = rows.first() else { return };
        let is_first = self.hidden.is_none();
        let mut shared = self.hidden.clone().unwrap_or_else(|| first.labels.clone());
        for row in rows {
            shared.retain(|name, value| row.labels.get(name) == Some(value));
        }
        if is_first && rows.iter().all(|row| row.labels == first.labels) {
            shared.clear(); // a single stream is shown in full
        }
        if !shared.is_empty() && self.hidden.as_ref() != Some(&shared) {
            let whose = if is_first { "all entries" } else { "all entries from here on" };
            eprintln!("labels of {whose}: {}", self.labels(&shared));
        }
        self.hidden = Some(shared);
    }

    /// Prints one row.
    pub fn row(&mut self, row: &Row) -> std::io::Result<()> {
        match self.output {
            Output::Raw => {
                let line = self.line(&row.line, None).into_owned();
                writeln!(self.out, "{line}")
            }
            Output::Jsonl => {
                let timestamp = self.zone.show_exactly(row.timestamp);
                let object =
                    serde_json::json!({ "timestamp": timestamp, "labels": row.labels, "line": row.line });
                writeln!(self.out, "{object}")
            }
            Output::Csv => {
                self.head(["timestamp", "labels", "line"])?;
                let time = self.zone.show_exactly(row.timestamp);
                self.cells([&time, &text_of(&row.labels), &row.line])
            }
            Output::Default => {
                let level = row.labels.get("detected_level").and_then(|level| Paint::of_level(level));
                let is_hidden = |name: &str, value: &String| {
                    name == "detected_level"
                        || self.hidden.as_ref().is_some_and(|hidden| hidden.get(name) == Some(value))
                };
                let own = row.labels.iter().filter(|(n, v)| !is_hidden(n, v));
                let own: LabelMap = own.map(|(n, v)| (n.clone(), v.clone())).collect();
                let time = self.paint.ink(Ink::Dim, &self.zone.show(row.timestamp));
                let labels = if own.is_empty() { String::new() } else { format!(" {}", self.labels(&own)) };
                let line = self.line(&row.line, level).into_owned();
                writeln!(self.out, "{time}{labels} {line}")
            }
        }
    }

    /// A line with matches highlighted, and escaped for a terminal.
    fn line<'t>(&self, line: &'t str, ink: Option<Ink>) -> Cow<'t, str> {
        let piece = |text: &'t str, ink: Option<Ink>| {
            let text = if self.escapes { escaped(text) } else { Cow::Borrowed(text) };
            match ink {
                Some(ink) if !text.is_empty() => Cow::Owned(self.paint.ink(ink, &text)),
                _ => text,
            }
        };
        let spans = if self.paint.is_on() { self.highlights.spans(line) } else { Vec::new() };
        if spans.is_empty() {
            return piece(line, ink);
        }
        let (mut out, mut at) = (String::new(), 0);
        for span in spans {
            out.push_str(&piece(&line[at..span.start], ink));
            out.push_str(&piece(&line[span.clone()], Some(Ink::Match)));
            at = span.end;
        }
        out.push_str(&piece(&line[at..], ink));
        out.into()
    }

    /// Prints the answer to a metric query over the window.
    pub fn metrics(&mut self, data: &Data, window: &Window) -> std::io::Result<()> {
        match data {
            Data::Streams(_) => {}
            Data::Matrix(series) if self.output == Output::Default => {
                let rows: Vec<super::samples::Row> = series.iter().map(Into::into).collect();
                chart::draw(&mut self.out, &rows, window, self.paint)?;
            }
            Data::Matrix(series) => series.iter().try_for_each(|s| self.matrix(s))?,
            Data::Vector(series) => {
                let width = series.iter().map(|s| s.value.1.len()).max().unwrap_or(0);
                series.iter().try_for_each(|s| self.vector(s, width))?;
            }
            Data::Scalar((time, value)) => match self.output {
                Output::Csv => self.value(*time, &LabelMap::new(), value)?,
                Output::Jsonl => writeln!(self.out, "{}", serde_json::json!({ "value": (time, value) }))?,
                Output::Default | Output::Raw => writeln!(self.out, "{value}")?,
            },
        }
        self.out.flush()
    }

    fn vector(&mut self, series: &VectorSeries, width: usize) -> std::io::Result<()> {
        match self.output {
            Output::Raw => writeln!(self.out, "{}", series.value.1),
            Output::Jsonl => {
                let object = serde_json::json!({"metric": series.metric, "value": series.value});
                writeln!(self.out, "{object}")
            }
            Output::Csv => self.value(series.value.0, &series.metric, &series.value.1),
            Output::Default => {
                let value = self.paint.ink(Ink::Strong, &format!("{:>width$}", series.value.1));
                let labels = self.labels(&series.metric);
                writeln!(self.out, "{value}  {labels}")
            }
        }
    }

    fn matrix(&mut self, series: &MatrixSeries) -> std::io::Result<()> {
        match self.output {
            Output::Raw => series.values.iter().try_for_each(|(_, value)| writeln!(self.out, "{value}")),
            Output::Jsonl => {
                let object = serde_json::json!({"metric": series.metric, "values": series.values});
                writeln!(self.out, "{object}")
            }
            Output::Csv => {
                series.values.iter().try_for_each(|(time, value)| self.value(*time, &series.metric, value))
            }
            // Drawn as a whole.
            Output::Default => Ok(()),
        }
    }

    fn value(&mut self, seconds: f64, labels: &LabelMap, value: &str) -> std::io::Result<()> {
        self.head(["timestamp", "labels", "value"])?;
        let time = self.zone.show_exactly((seconds * 1_000.0).round() as i64 * 1_000_000);
        self.cells([&time, &text_of(labels), value])
    }

    fn head(&mut self, names: [&str; 3]) -> std::io::Result<()> {
        if std::mem::replace(&mut self.has_head, true) {
            return Ok(());
        }
        self.cells(names)
    }

    /// Writes a row of a table as in RFC 4180.
    fn cells(&mut self, cells: [&str; 3]) -> std::io::Result<()> {
        let cell = |text: &str| {
            let quoted = text.contains([',', '"', '\n', '\r']);
            if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
        };
        let line = cells.map(cell).join(",");
        let line = if self.escapes { escaped(&line) } else { line.as_str().into() };
        writeln!(self.out, "{line}")
    }

    fn labels(&self, labels: &LabelMap) -> String {
        self.paint.ink(Ink::Name, &text_of(labels))
    }
}

/// Formats labels as `{app="api", env="prod"}`.
pub fn text_of(labels: &LabelMap) -> String {
    let inner: Vec<String> = labels.iter().map(|(n, v)| format!("{n}={v:?}")).collect();
    format!("{{{}}}", inner.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::paging::rows;
    use super::super::results::read;
    use super::*;

    fn printer(output: Output, query: &str) -> Printer<Vec<u8>> {
        Printer {
            out: Vec::new(),
            output,
            paint: Paint::none(),
            zone: Zone::utc(),
            highlights: Highlights::of(query),
            escapes: false,
            hidden: None,
            has_head: false,
        }
    }

    fn printed(body: &str, output: Output) -> String {
        let mut printer = printer(output, "");
        match read(body.as_bytes()).unwrap().data {
            Data::Streams(streams) => printer.page(&rows(streams)).unwrap(),
            other => {
                let window = Window { start: 0, end: 4_000_000_000, zone: Zone::utc() };
                printer.metrics(&other, &window).unwrap();
            }
        }
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn rows_are_printed_without_the_labels_that_all_have() {
        let body = r#"{"status":"success","data":{"resultType":"streams","encodingFlags":[],"result":[
            {"stream":{"app":"a","pod":"1"},"values":[["3000000","three, \"3\""],["1000000","one"]]},
            {"stream":{"app":"a","pod":"2"},"values":[["2000000","two"]]}],"stats":{}}}"#;
        assert_eq!(
            printed(body, Output::Default),
            "1970-01-01T00:00:00.003Z {pod=\"1\"} three, \"3\"\n1970-01-01T00:00:00.001Z {pod=\"1\"} one\n\
             1970-01-01T00:00:00.002Z {pod=\"2\"} two\n"
        );
        assert_eq!(printed(body, Output::Raw), "three, \"3\"\none\ntwo\n");
        assert_eq!(
            printed(body, Output::Jsonl).lines().nth(1).unwrap(),
            r#"{"labels":{"app":"a","pod":"1"},"line":"one","timestamp":"1970-01-01T00:00:00.001Z"}"#
        );
        assert_eq!(
            printed(body, Output::Csv).lines().take(2).collect::<Vec<_>>(),
            ["timestamp,labels,line", r#"1970-01-01T00:00:00.003Z,"{app=""a"", pod=""1""}","three, ""3""""#]
        );
    }

    #[test]
    fn labels_that_a_later_page_lacks_are_shown_from_there_on() {
        let row = |app: &str, pod: &str| Row {
            timestamp: 1_000_000,
            labels: [("app", app), ("pod", pod)].map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
            line: "x".to_owned(),
        };
        let mut printer = printer(Output::Default, "");
        printer.page(&[row("a", "1"), row("a", "2")]).unwrap();
        printer.page(&[row("b", "1")]).unwrap();
        printer.page(&[row("a", "1")]).unwrap();
        let text = String::from_utf8(printer.out).unwrap();
        let labels: Vec<&str> = text.lines().map(|l| &l["1970-01-01T00:00:00.001Z ".len()..]).collect();
        assert_eq!(
            labels,
            [r#"{pod="1"} x"#, r#"{pod="2"} x"#, r#"{app="b", pod="1"} x"#, r#"{app="a", pod="1"} x"#]
        );
    }

    #[test]
    fn on_a_terminal_matches_are_highlighted_and_control_characters_escaped() {
        let row = Row {
            timestamp: 0,
            labels: LabelMap::from([("detected_level".to_owned(), "error".to_owned())]),
            line: "an \x1b[2Jerr\nor".to_owned(),
        };
        let mut printer = printer(Output::Default, r#"{a="b"} |= "err""#);
        printer.row(&row).unwrap();
        (printer.paint, printer.escapes) = (Paint::always(), true);
        printer.row(&row).unwrap();
        printer.output = Output::Raw;
        printer.row(&row).unwrap();
        let text = String::from_utf8(printer.out).unwrap();
        let (red, found, end) = ("\x1b[31m", "\x1b[30;43m", "\x1b[0m");
        let line = format!("{red}an \\x1b[2J{end}{found}err{end}{red}\n    or{end}\n");
        let raw = format!("an \\x1b[2J{found}err{end}\n    or\n");
        let plain = "1970-01-01T00:00:00.000Z an \x1b[2Jerr\nor\n";
        assert_eq!(text, format!("{plain}\x1b[2m1970-01-01T00:00:00.000Z{end} {line}{raw}"));
    }

    #[test]
    fn metrics_are_shown_as_numbers_and_charts() {
        let vector = r#"{"data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1.5,"10"]},
            {"metric":{},"value":[1.5,"7"]}]},"warnings":["x"]}"#;
        assert_eq!(printed(vector, Output::Default), "10  {a=\"b\"}\n 7  {}\n");
        let table = "timestamp,labels,value\n\
                     1970-01-01T00:00:01.5Z,\"{a=\"\"b\"\"}\",10\n1970-01-01T00:00:01.5Z,{},7\n";
        assert_eq!(printed(vector, Output::Csv), table);
        let matrix = r#"{"data":{"resultType":"matrix","result":
            [{"metric":{"a":"b"},"values":[[1,"0"],[2,"4"],[3,"8"]]}]}}"#;
        let chart = printed(matrix, Output::Default);
        assert!(chart.starts_with("8 \u{2524}") && chart.contains("from 1970-01-01T00:00:00"), "{chart}");
        assert!(chart.ends_with("\u{25a0} {a=\"b\"}  last 8, min 0, max 8, 3 points\n"), "{chart}");
        let scalar = r#"{"data":{"resultType":"scalar","result":[1,"2"]}}"#;
        assert_eq!(printed(scalar, Output::Default), "2\n");
    }
}
