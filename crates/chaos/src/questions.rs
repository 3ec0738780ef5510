//! Questions in each language: the requests, and what their answers say.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_bench::http::{Answer, escaped};
use serde_json::Value;

use crate::client::{Request, warnings};
use crate::ledger::{Found, Row, SECOND_NS, STEP_NS, Window};
use crate::signals::{OTLP_SAMPLES, POINTS, SAMPLES, Signal, id_of};

/// The most rows that a query of lines may return.
const LINES_MAX: usize = 5_000;
const STEP_S: i64 = STEP_NS / SECOND_NS;

/// A way to ask for the rows of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// LogQL: lines.
    Lines,
    /// LogQL: the number of lines.
    LineCount,
    /// LogQL: numbers of lines in steps, which a process keeps.
    LineSteps,
    /// PromQL: samples.
    Samples,
    /// PromQL: numbers of samples in steps, which a process keeps.
    SampleSteps,
    /// Graphite: points.
    Render,
}

/// The questions that a signal answers.
pub fn of(signal: Signal) -> &'static [Question] {
    match signal {
        Signal::Lines | Signal::LateLines | Signal::OtlpLines => {
            &[Question::Lines, Question::LineCount, Question::LineSteps]
        }
        Signal::Samples | Signal::OtlpSamples => &[Question::Samples, Question::SampleSteps],
        Signal::Points => &[Question::Render, Question::Samples],
    }
}

/// A complete answer.
pub struct Answered {
    pub found: Found,
    /// Whether it says that rows may be missing.
    pub is_warned: bool,
}

/// Asks a node for the rows of a window, which begins at a multiple of a step and ends with a second. An
/// answer that is an error or no answer is one here.
pub fn ask(
    node: SocketAddr,
    (signal, question): (Signal, Question),
    window: Window,
    fresh: bool,
    patience: Duration,
) -> Result<Answered> {
    let mut request = Request::get(path(signal, question, window));
    if fresh {
        request.headers.push(("X-Sandur-Min-Freshness", "0s".to_owned()));
    }
    let answer = request.send(node, patience)?;
    if answer.status != 200 {
        bail!("status {}: {}", answer.status, answer.text());
    }
    let is_warned = !warnings(&answer).is_empty();
    let body: Value = serde_json::from_slice(&answer.body).context("no JSON")?;
    if question != Question::Render && is_warned != has_warnings(&body) {
        // Annotations of PromQL are no header; these queries have none.
        bail!("{FINDING} a warning is only in the header or only in the body: {}", long_text(&answer));
    }
    let found =
        found(question, window, &body).with_context(|| format!("{FINDING} {}", long_text(&answer)))?;
    Ok(Answered { found, is_warned })
}

/// How the text of an error begins that is not a failure of the node but a wrong answer.
pub const FINDING: &str = "wrong answer:";

fn long_text(answer: &Answer) -> String {
    format!("{:?} {}", warnings(answer), answer.text())
}

fn has_warnings(body: &Value) -> bool {
    body["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty())
}

fn path(signal: Signal, question: Question, window: Window) -> String {
    let (from_s, to_s) = (window.from_ns / SECOND_NS, window.to_ns / SECOND_NS);
    let length = to_s - from_s;
    let (selector, series) = (selector(signal), series(signal));
    match question {
        Question::Lines => {
            let range = format!("start={}&end={}", window.from_ns, window.to_ns);
            let rest = format!("limit={LINES_MAX}&direction=forward");
            format!("/loki/api/v1/query_range?query={}&{range}&{rest}", escaped(selector))
        }
        Question::LineCount => {
            let query = format!("sum(count_over_time({selector}[{length}s]))");
            format!("/loki/api/v1/query?query={}&time={}", escaped(&query), window.to_ns)
        }
        Question::LineSteps => {
            let query = format!("sum(count_over_time({selector}[{STEP_S}s]))");
            let range = format!("start={from_s}&end={to_s}&step={STEP_S}");
            format!("/loki/api/v1/query_range?query={}&{range}", escaped(&query))
        }
        Question::Samples => {
            let query = format!("{series}[{length}s]");
            format!("/api/v1/query?query={}&time={to_s}", escaped(&query))
        }
        Question::SampleSteps => {
            let query = format!("sum(count_over_time({series}[{STEP_S}s]))");
            let range = format!("start={from_s}&end={to_s}&step={STEP_S}");
            format!("/api/v1/query_range?query={}&{range}", escaped(&query))
        }
        Question::Render => {
            format!("/render?format=json&target={POINTS}*&from={from_s}&until={to_s}&now={to_s}")
        }
    }
}

fn selector(signal: Signal) -> &'static str {
    match signal {
        Signal::LateLines => r#"{job="chaos", stream="late-lines"}"#,
        Signal::OtlpLines => r#"{service_name="otlp-lines"}"#,
        _ => r#"{job="chaos", stream="lines"}"#,
    }
}

fn series(signal: Signal) -> String {
    match signal {
        Signal::OtlpSamples => OTLP_SAMPLES.to_owned(),
        Signal::Points => format!(r#"{{__name__=~"{}.*"}}"#, POINTS.replace('.', "\\\\.")),
        _ => SAMPLES.to_owned(),
    }
}

fn found(question: Question, window: Window, body: &Value) -> Result<Found> {
    let list = |value: &Value| value.as_array().cloned().context("a list is missing");
    match question {
        Question::Lines => {
            let mut rows = Vec::new();
            for stream in list(&body["data"]["result"])? {
                for value in list(&stream["values"])? {
                    let at_ns = text(&value[0])?.parse()?;
                    let id = id_of(text(&value[1])?).context("a line without a number")?;
                    rows.push(Row { at_ns, series: 0, id });
                }
            }
            if rows.len() >= LINES_MAX {
                bail!("the window is too long for the limit of lines");
            }
            Ok(Found::Rows(window, rows))
        }
        Question::LineCount => {
            let result = list(&body["data"]["result"])?;
            let count = result.first().map_or(Ok(0), |first| count(&first["value"][1]))?;
            Ok(Found::Counts(vec![(window, count)]))
        }
        Question::LineSteps | Question::SampleSteps => {
            let mut counts = Vec::new();
            for series in list(&body["data"]["result"])? {
                for value in list(&series["values"])? {
                    let to_ns = value[0].as_f64().context("a time is missing")? as i64 * SECOND_NS;
                    let step = Window { from_ns: to_ns - STEP_NS, to_ns };
                    counts.push((step, count(&value[1])?));
                }
            }
            Ok(Found::Counts(with_empty_steps(window, counts)))
        }
        Question::Samples => {
            let mut rows = Vec::new();
            for series in list(&body["data"]["result"])? {
                let number = series["metric"]["__name__"].as_str().and_then(|name| name.strip_prefix(POINTS));
                let number = number.map_or(Ok(0), str::parse)?;
                for value in list(&series["values"])? {
                    let ms = (value[0].as_f64().context("a time is missing")? * 1e3).round() as i64;
                    rows.push(Row { at_ns: ms * 1_000_000, series: number, id: count(&value[1])? });
                }
            }
            Ok(Found::Rows(window, rows))
        }
        Question::Render => {
            let mut rows = Vec::new();
            for series in list(body)? {
                let target = text(&series["target"])?;
                let number = target.strip_prefix(POINTS).context("another target")?.parse()?;
                for point in list(&series["datapoints"])? {
                    let at_s = point[1].as_i64().context("a time is missing")?;
                    if let Some(value) = point[0].as_f64() {
                        rows.push(Row { at_ns: at_s * SECOND_NS, series: number, id: value as u64 });
                    }
                }
            }
            Ok(Found::Rows(window, rows))
        }
    }
}

/// Adds the steps of a window that an answer leaves out because nothing is in them.
fn with_empty_steps(window: Window, counts: Vec<(Window, u64)>) -> Vec<(Window, u64)> {
    let mut all = Vec::new();
    let mut to_ns = window.from_ns;
    while to_ns <= window.to_ns {
        let step = Window { from_ns: to_ns - STEP_NS, to_ns };
        let count = counts.iter().find(|(of, _)| *of == step).map_or(0, |(_, count)| *count);
        all.push((step, count));
        to_ns += STEP_NS;
    }
    // A step that was not asked for is judged, too.
    let asked: Vec<Window> = all.iter().map(|(of, _)| *of).collect();
    all.extend(counts.into_iter().filter(|(of, _)| !asked.contains(of)));
    all
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("a text is missing")
}

fn count(value: &Value) -> Result<u64> {
    let number: f64 = text(value)?.parse()?;
    Ok(number as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const WINDOW: Window = Window { from_ns: 0, to_ns: 30 * SECOND_NS };

    fn rows(question: Question, body: &Value) -> Vec<Row> {
        match found(question, WINDOW, body).unwrap() {
            Found::Rows(window, rows) => {
                assert_eq!(window, WINDOW);
                rows
            }
            Found::Counts(_) => panic!("no rows"),
        }
    }

    #[test]
    fn answers_of_each_language_are_read() {
        let row = |at_ns, series, id| Row { at_ns, series, id };
        let lines = json!({"data": {"result": [{"values": [["7", "row=3 of a run under faults"]]}]}});
        assert_eq!(rows(Question::Lines, &lines), [row(7, 0, 3)]);
        let samples = json!({"data": {"result": [
            {"metric": {"__name__": "chaos.point.2"}, "values": [[1.5, "4"]]},
            {"metric": {"__name__": "chaos_sample"}, "values": [[2, "5"]]},
        ]}});
        let expected = [row(1_500_000_000, 2, 4), row(2 * SECOND_NS, 0, 5)];
        assert_eq!(rows(Question::Samples, &samples), expected);
        let render = json!([{"target": "chaos.point.1", "datapoints": [[6.0, 3], [null, 4]]}]);
        assert_eq!(rows(Question::Render, &render), [row(3 * SECOND_NS, 1, 6)]);
        assert!(found(Question::Lines, WINDOW, &json!({"data": {}})).is_err());
    }

    #[test]
    fn steps_without_rows_count_as_empty() {
        let steps = json!({"data": {"result": [{"values": [[10, "2"], [30, "1"]]}]}});
        let Found::Counts(counts) = found(Question::LineSteps, WINDOW, &steps).unwrap() else { panic!() };
        assert_eq!(counts.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [0, 2, 0, 1]);
        assert!(counts.iter().all(|(step, _)| step.to_ns - step.from_ns == STEP_NS));
    }
}
