//! `sandur query` for samples: evaluates PromQL at an instant or over a range, and prints the answer.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use clap::ArgMatches;
use sandur_logql::Diagnosis;
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::absent::{self, Found};
use super::caret;
use super::chart;
use super::client::Client;
use super::language;
use super::moment::Window;
use super::outcome::{Wanted, warn, written};
use super::paint::Paint;
use super::samples::{self, Answer, Data, Row};

/// Number of points of a range if no step is given.
const POINTS: i64 = 250;

/// The format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A chart for a range, a table for an instant.
    Default,
    /// Timestamps, values and labels in columns.
    Table,
    /// One JSON object per series.
    Jsonl,
    /// Comma-separated values.
    Csv,
    /// The OpenMetrics text format.
    OpenMetrics {
        /// Whether to escape hidden characters, for a terminal.
        visible: bool,
    },
    /// Only values.
    Raw,
}

impl Form {
    /// The format that the arguments select.
    pub fn from_arguments(matches: &ArgMatches) -> Self {
        match matches.get_one::<String>("output").map(String::as_str) {
            Some("jsonl" | "json") => Self::Jsonl,
            Some("csv") => Self::Csv,
            Some("table") => Self::Table,
            Some("openmetrics") => Self::OpenMetrics { visible: std::io::stdout().is_terminal() },
            Some("raw") => Self::Raw,
            _ => Self::Default,
        }
    }
}

/// Runs the query and prints the answer.
pub async fn run(
    (env, client): (&Env, &Client),
    query: &str,
    window: &Window,
    matches: &ArgMatches,
) -> Result<ExitCode, Failed> {
    let answer = ask(client, query, window, matches).await?;
    warn(&answer.warnings);
    for info in &answer.infos {
        eprintln!("note: {}", super::escape::escaped(info));
    }
    if answer.data.rows().is_empty() && !matches!(answer.data, Data::Text(_)) {
        let is_instant = matches.get_flag("instant");
        let found = Found { query, wanted: Wanted::Metrics, window, is_instant };
        absent::report("series", (env, client), found).await;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let shown = show(&mut out, &answer.data, Form::from_arguments(matches), window);
    written(shown.and_then(|()| out.flush()))
}

async fn ask(client: &Client, query: &str, window: &Window, matches: &ArgMatches) -> Result<Answer, Failed> {
    let seconds =
        |ns: i64| format!("{}.{:03}", ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000) / 1_000_000);
    let mut pairs = vec![("query", query.to_owned())];
    let path = if matches.get_flag("instant") {
        pairs.push(("time", seconds(window.end)));
        "/api/v1/query"
    } else {
        let step = match matches.get_one::<String>("step") {
            Some(step) => step.clone(),
            None => (window.end.saturating_sub(window.start) / 1_000_000_000 / POINTS).max(1).to_string(),
        };
        pairs.extend([("start", seconds(window.start)), ("end", seconds(window.end)), ("step", step)]);
        "/api/v1/query_range"
    };
    let body = client.get(path, &pairs).await.map_err(|mut refusal| {
        refusal.text = samples::error_text(&refusal.text);
        explain(query, refusal)
    })?;
    samples::read(&body)
}

/// The message for a refused query: the server's message, the query, and a mark below the error.
pub(super) fn explain(query: &str, refusal: super::client::Refusal) -> Failed {
    let failed = Failed::from(refusal);
    let Some((span, words)) = sandur_promql::mistake(query) else { return failed };
    if let Some(advice) = language::advice(query) {
        return caret::marked(query, &failed, &advice);
    }
    let known = unknown_name(&words).and_then(|name| {
        let known = sandur_base::spelling::nearest(name, sandur_promql::function_names())?;
        Some(format!("did you mean `{known}`?"))
    });
    let help = known.or_else(|| language::unquoted_value(query, span.start));
    caret::marked(query, &failed, &Diagnosis { span: Some(span), help })
}

/// The unknown function in the message of the parser.
fn unknown_name(words: &str) -> Option<&str> {
    words.strip_prefix("unknown function with name \"")?.strip_suffix('"')
}

/// Prints an answer.
pub fn show(out: &mut impl Write, data: &Data, form: Form, window: &Window) -> std::io::Result<()> {
    if let Data::Text(text) = data {
        return match form {
            Form::Jsonl => writeln!(out, "{}", serde_json::json!({ "value": text })),
            _ => writeln!(out, "{}", super::escape::escaped(text)),
        };
    }
    let rows = data.rows();
    match form {
        Form::Jsonl => rows.iter().try_for_each(|row| writeln!(out, "{}", row.source)),
        Form::Raw => values(rows).try_for_each(|(_, _, value)| writeln!(out, "{value}")),
        Form::Csv => {
            writeln!(out, "timestamp,labels,value")?;
            values(rows).try_for_each(|(row, time, value)| {
                let labels = row.labels().replace('"', "\"\"");
                writeln!(out, "{},\"{labels}\",{value}", window.zone.show_exactly(time))
            })
        }
        Form::OpenMetrics { visible } => open_metrics(out, rows, visible),
        Form::Default if matches!(data, Data::Range(_)) => {
            chart::draw(out, rows, window, Paint::for_stdout())
        }
        Form::Default | Form::Table => table(out, rows, window, matches!(data, Data::Range(_))),
    }
}

/// All values of the rows.
fn values(rows: &[Row]) -> impl Iterator<Item = (&Row, i64, &str)> {
    rows.iter().flat_map(|row| row.values.iter().map(move |(time, value)| (row, *time, value.as_str())))
}

fn table(out: &mut impl Write, rows: &[Row], window: &Window, has_times: bool) -> std::io::Result<()> {
    let width = values(rows).map(|(_, _, value)| value.len()).max().unwrap_or(0);
    values(rows).try_for_each(|(row, time, value)| {
        let time = if has_times { format!("{}  ", window.zone.show(time)) } else { String::new() };
        writeln!(out, "{time}{value:>width$}  {}", super::escape::escaped(&row.labels()))
    })
}

fn open_metrics(out: &mut impl Write, rows: &[Row], visible: bool) -> std::io::Result<()> {
    // The format has no native histograms.
    let numbers = values(rows).filter(|(_, _, value)| value.parse::<f64>().is_ok());
    for (row, time, value) in numbers {
        let (series, seconds) = (row.exposed(), time as f64 / 1e9);
        let series = if visible { super::escape::escaped(&series) } else { series.into() };
        writeln!(out, "{series} {value} {seconds}")?;
    }
    writeln!(out, "# EOF")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Zone;

    const RANGE: &str = r#"{"data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"up","job":"a"},"values":[[1,"0"],[2.5,"4"]]},
        {"metric":{"job":"b"},"values":[[1,"1"]]}]},"infos":["x"]}"#;

    fn shown(body: &str, form: Form) -> String {
        let mut out = Vec::new();
        let window = Window { start: 0, end: 4_000_000_000, zone: Zone::utc() };
        show(&mut out, &samples::read(body.as_bytes()).unwrap().data, form, &window).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_and_values_are_quoted_and_escaped_for_scrapes() {
        let body = r#"{"data":{"resultType":"vector","result":[
            {"metric":{"__name__":"http.size","host.name":"a, \"b\"\\\n\té"},"value":[1,"2"]},
            {"metric":{"__name__":"h"},"histogram":[1,{"count":"1","sum":"2"}]},
            {"metric":{"__name__":"a:b","c:d":"e"},"value":[1,"+Inf"]}]}}"#;
        let expected = "{\"http.size\",\"host.name\"=\"a, \\\"b\\\"\\\\\\n\té\"} 2 1\n\
                        a:b{\"c:d\"=\"e\"} +Inf 1\n# EOF\n";
        assert_eq!(shown(body, Form::OpenMetrics { visible: false }), expected);
        let read =
            sandur_ingest::series_pairs(expected.lines().next().unwrap().strip_suffix(" 2 1").unwrap());
        let read: Vec<String> = read.unwrap().into_iter().map(|(_, value)| value.into_owned()).collect();
        assert_eq!(read, ["http.size", "a, \"b\"\\\n\té"]);
    }

    #[test]
    fn every_form_shows_every_sample() {
        assert_eq!(
            shown(RANGE, Form::Csv),
            "timestamp,labels,value\n1970-01-01T00:00:01Z,\"up{job=\"\"a\"\"}\",0\n\
             1970-01-01T00:00:02.5Z,\"up{job=\"\"a\"\"}\",4\n1970-01-01T00:00:01Z,\"{job=\"\"b\"\"}\",1\n"
        );
        assert_eq!(
            shown(RANGE, Form::OpenMetrics { visible: false }),
            "up{job=\"a\"} 0 1\nup{job=\"a\"} 4 2.5\nunnamed{job=\"b\"} 1 1\n# EOF\n"
        );
        assert_eq!(shown(RANGE, Form::Raw), "0\n4\n1\n");
        assert!(shown(RANGE, Form::Table).contains("1970-01-01T00:00:02.500Z  4  up{job=\"a\"}\n"));
        assert_eq!(shown(RANGE, Form::Jsonl).lines().count(), 2);
        let chart = shown(RANGE, Form::Default);
        assert!(chart.contains("up{job=\"a\"}") && chart.lines().count() > 5, "{chart}");
        let instant = r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"7"]},
            {"metric":{"a":"b"},"histogram":[1,{"count":"3","sum":"6"}]}]}}"#;
        assert_eq!(shown(instant, Form::Default), "                 7  {}\n{count: 3, sum: 6}  {a=\"b\"}\n");
        let text = r#"{"data":{"resultType":"string","result":[1,"x"]}}"#;
        assert_eq!(shown(text, Form::Default), "x\n");
    }

    #[test]
    fn unknown_functions_are_named_in_the_words_of_the_parser() {
        let (_, words) = sandur_promql::mistake("rat(up[5m])").unwrap();
        assert_eq!(unknown_name(&words), Some("rat"));
    }
}
