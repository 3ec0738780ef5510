//! LogQL: records answers of Loki and checks those of our implementation.
//!
//! Of a scalar only the value is recorded: rule `scalar-time` of [`crate::rules`] explains why the time
//! differs.
//!
//! Our answer comes first, since it costs less. Loki is not asked if that answer is too long, or if there are
//! enough cases with an error or an empty answer. The recorder counts these cases as not asked for: an answer
//! of Loki might have differed.

use std::time::Duration;

use anyhow::{Result, bail};
use sandur_bench::http::Answer;
use sandur_logql::{Kind, Request, function_names, stage_names, template_function_names};
use sandur_query::Direction;
use serde_json::{Value, json};

use super::choice::{Candidate, Choice, Outcome, described};
use super::draw::{Drawn, UNANSWERED, draw};
use super::file::Recording;
use crate::ask::{Ask, Shape};
use crate::compare::{self, Difference, compare};
use crate::corpus::{HALF_NS, MIDDLE_NS, SECOND_NS, push_bodies, streams};
use crate::grammar::{Query, log_query, metric_query, spoilt};
use crate::in_memory::InMemory;
use crate::random::Random;
use crate::rules::Case;
use crate::run::{Sides, explained};
use crate::servers::Loki;

/// The name of the language and of its recording.
pub const LANGUAGE: &str = "logql";

/// The largest number of steps of a recorded range query, except for those that rounding adds.
const STEPS_MAX: i64 = 5;
/// The largest length of a recorded case in bytes.
const CASE_BYTES_MAX: usize = 3_000;

/// The longest time to wait for an answer of Loki. Of 100 answers, 99 take less than 0.1 s.
const PATIENCE: Duration = Duration::from_secs(4);

/// Parts of the language without recorded cases: the answer of `now` varies.
pub const LEFT_OUT: &[&str] = &["now"];

/// Filters, operators and modifiers.
const OTHERS: [&str; 44] = [
    "|=",
    "!=",
    "|~",
    "!~",
    "|>",
    "!>",
    "ip(",
    "--strict",
    "--keep-empty",
    "| unwrap",
    "duration(",
    "duration_seconds(",
    "bytes(",
    "offset",
    "by",
    "without",
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "==",
    ">",
    "<",
    ">=",
    "<=",
    "bool",
    "and",
    "or",
    "unless",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "vector(",
    "label_replace(",
    "__error__",
    "__line__",
    "if",
    "range",
    "with",
    "define",
    "__timestamp__",
];

/// The parts of the language that are counted.
pub fn parts() -> Vec<String> {
    let stages = stage_names().map(|name| format!("| {name}"));
    let names = function_names().chain(template_function_names()).chain(OTHERS);
    let mut parts: Vec<String> = stages.chain(names.map(str::to_owned)).collect();
    parts.sort();
    parts.dedup();
    parts
}

/// A Loki and our implementation, over the corpus of a seed.
pub struct Pair {
    loki: Loki,
    ours: InMemory,
}

impl Pair {
    /// Pushes the corpus of a seed to Loki.
    pub fn over(mut loki: Loki, seed: u64) -> Result<Self> {
        let pushes = push_bodies(&streams(seed));
        for push in &pushes {
            let answer = loki.peer.push(push)?;
            if answer.status != 204 {
                bail!("a push: {} {}", answer.status, answer.text());
            }
        }
        loki.peer = loki.peer.with_patience(PATIENCE);
        Ok(Self { loki, ours: InMemory::over(&pushes)? })
    }
}

/// Returns the data of a seed as they are sent.
pub fn data(seed: u64) -> Vec<Vec<u8>> {
    push_bodies(&streams(seed)).into_iter().map(String::into_bytes).collect()
}

/// Returns query number `index` of a seed.
fn random_request(seed: u64, index: u64) -> (Query, Request) {
    let random = &mut Random::fork(seed ^ 0x005E_C05D, index);
    let query = match random.below(100) {
        0..=4 => Query::Text(spoilt(random)),
        5..=44 => Query::Log(log_query(random)),
        _ => Query::Metric(metric_query(random, 2)),
    };
    let half_s = HALF_NS / SECOND_NS;
    let near = |random: &mut Random| MIDDLE_NS + random.between(-half_s, half_s) * SECOND_NS;
    let is_log = matches!(query, Query::Log(_));
    let kind = if is_log {
        let start_ns = near(random);
        Kind::Range { start_ns, end_ns: start_ns + random.between(1, 1200) * SECOND_NS, step_ns: SECOND_NS }
    } else if random.chance(50) || query.to_string().contains("approx_topk") {
        // Loki never answers `approx_topk` over a range: rule `loki-fails`.
        Kind::Instant { time_ns: near(random) }
    } else {
        let start_ns = near(random);
        let step_ns = [5_000, 7_500, 15_000, 60_000, 300_000][random.below(5)] * 1_000_000;
        Kind::Range { start_ns, end_ns: start_ns + step_ns * random.between(0, STEPS_MAX), step_ns }
    };
    let limit = [1, 2, 3, 5, 10, 20][random.below(6)];
    let direction = if random.chance(50) { Direction::Forward } else { Direction::Backward };
    let request = Request { query: query.to_string(), kind, limit, direction, interval_ns: 0 };
    (query, request)
}

/// Returns the request to the HTTP API.
fn ask(query: Query, request: &Request) -> Ask {
    let direction = if request.direction == Direction::Forward { "forward" } else { "backward" };
    let ask = match request.kind {
        Kind::Instant { time_ns } => Ask::new("query", Shape::Query).with("time", time_ns),
        Kind::Range { start_ns, end_ns, step_ns } => Ask::new("query_range", Shape::Query)
            .with("start", start_ns)
            .with("end", end_ns)
            .with("step", step_ns as f64 / SECOND_NS as f64),
    };
    ask.with("limit", request.limit).with("direction", direction).with_query(query)
}

/// Returns the part of an answer that is recorded: the type and the result, or that it is an error.
fn essence(answer: &Answer) -> Option<Answer> {
    if answer.status / 100 != 2 {
        return Some(Answer::new(400, Vec::new()));
    }
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    if !body["warnings"].is_null() {
        return None;
    }
    let (kind, mut result) = (body["data"]["resultType"].clone(), body["data"]["result"].clone());
    if kind == "scalar" {
        result[0] = 0.into();
    }
    let body = json!({"data": {"resultType": kind, "result": result}});
    Some(Answer::new(200, body.to_string()))
}

/// Returns how two answers differ, unless only by the rounding of sums.
fn difference(ask: &Ask, theirs: &Answer, ours: &Answer) -> Option<Difference> {
    compare(ask, theirs, ours).filter(|difference| difference.kind != compare::Kind::Rounding)
}

/// Both sides, for a request and for others with the same parameters.
struct OfRequest<'a> {
    pair: &'a mut Pair,
    request: &'a Request,
}

impl Sides for OfRequest<'_> {
    fn loki(&mut self, ask: &Ask) -> Answer {
        self.pair.loki.peer.ask(ask)
    }

    fn ours(&mut self, ask: &Ask) -> Answer {
        self.pair.ours.ask(&Request { query: ask.query_text().to_owned(), ..self.request.clone() })
    }

    fn difference(&self, ask: &Ask, loki: &Answer, ours: &Answer) -> Option<Difference> {
        match (essence(loki), essence(ours)) {
            (Some(loki), Some(ours)) => difference(ask, &loki, &ours),
            _ => Some(Difference { kind: compare::Kind::Remarks, detail: "warnings".to_owned() }),
        }
    }
}

/// Returns what kind of answer a case has.
fn outcome_of(case: &Value) -> Outcome {
    match &case["result"] {
        _ if case["error"] == true => Outcome::Error,
        Value::Array(rows) if rows.is_empty() => Outcome::Empty,
        _ => Outcome::Answer,
    }
}

/// Returns whether the case is too long to be recorded.
fn is_long(case: &Value) -> bool {
    case.to_string().len() > CASE_BYTES_MAX
}

/// Returns why a case with this answer of ours is not worth asking Loki.
fn unwanted(request: &Request, ours: &Answer, choice: &Choice) -> Option<&'static str> {
    let case = written(request, &essence(ours)?);
    match outcome_of(&case) {
        _ if is_long(&case) => Some("not asked: long answer"),
        Outcome::Error if !choice.has_room(Outcome::Error) => Some("not asked: enough errors"),
        Outcome::Empty if !choice.has_room(Outcome::Empty) => Some("not asked: enough empty answers"),
        _ => None,
    }
}

/// Asks both, Loki twice.
fn candidate(pair: &mut Pair, query: Query, request: &Request, choice: &Choice) -> Candidate {
    let ask = ask(query, request);
    let sides = &mut OfRequest { pair, request };
    let ours = sides.ours(&ask);
    if let Some(reason) = unwanted(request, &ours, choice) {
        return Candidate::Dropped(reason);
    }
    let loki = sides.loki(&ask);
    let again = if loki.status == 0 { None } else { Some(sides.loki(&ask)) };
    let Some(again) = again.filter(|again| again.status != 0) else {
        return Candidate::Dropped(UNANSWERED);
    };
    let (Some(theirs), Some(again)) = (essence(&loki), essence(&again)) else {
        return Candidate::Dropped("warnings");
    };
    let case = written(request, &theirs);
    if let Some(difference) = sides.difference(&ask, &loki, &ours) {
        let case = Case { ask: &ask, difference: &difference, loki: &loki, ours: &ours };
        return match explained(sides, &case) {
            Some(rule) => Candidate::Explained(rule),
            None => Candidate::Finding(described(&ask, &difference.kind, &difference.detail)),
        };
    }
    if difference(&ask, &theirs, &again).is_some() {
        return Candidate::Dropped("answers vary");
    }
    if is_long(&case) {
        return Candidate::Dropped("long answer");
    }
    let outcome = outcome_of(&case);
    Candidate::Case(case, outcome)
}

fn written(request: &Request, theirs: &Answer) -> Value {
    let Request { query, limit, direction, .. } = request;
    let mut case = json!({"query": query, "limit": limit, "forward": *direction == Direction::Forward});
    case["times"] = match request.kind {
        Kind::Instant { time_ns } => json!([time_ns]),
        Kind::Range { start_ns, end_ns, step_ns } => json!([start_ns, end_ns, step_ns]),
    };
    match serde_json::from_slice::<Value>(&theirs.body) {
        Ok(mut body) => {
            case["type"] = body["data"]["resultType"].take();
            case["result"] = body["data"]["result"].take();
        }
        Err(_) => case["error"] = Value::Bool(true),
    }
    case
}

fn read(case: &Value) -> Option<(Request, Answer)> {
    let times: Vec<i64> = case["times"].as_array()?.iter().map(Value::as_i64).collect::<Option<_>>()?;
    let kind = match times[..] {
        [time_ns] => Kind::Instant { time_ns },
        [start_ns, end_ns, step_ns] => Kind::Range { start_ns, end_ns, step_ns },
        _ => return None,
    };
    let direction = if case["forward"] == true { Direction::Forward } else { Direction::Backward };
    let limit = u32::try_from(case["limit"].as_u64()?).ok()?;
    let query = case["query"].as_str()?.to_owned();
    let answer = if case["error"] == true {
        Answer::new(400, Vec::new())
    } else {
        let body = json!({"data": {"resultType": case["type"], "result": case["result"]}});
        Answer::new(200, body.to_string())
    };
    Some((Request { query, kind, limit, direction, interval_ns: 0 }, answer))
}

/// Draws cases until there are enough.
pub fn record(pair: &mut Pair, seed: u64, choice: &mut Choice, tries: u64) -> Result<Drawn> {
    draw(choice, tries, |index, choice| {
        let (query, request) = random_request(seed, index);
        if !choice.may_take(&request.query) {
            return Ok(None);
        }
        let candidate = candidate(pair, query, &request, choice);
        Ok(Some((request.query, candidate)))
    })
}

/// Checks the recorded answers. Returns their number and descriptions of those that are not ours.
pub fn check() -> Result<(usize, Vec<String>)> {
    let recording = Recording::read(LANGUAGE, data)?;
    let ours = InMemory::over(&push_bodies(&streams(recording.seed)))?;
    recording.check(read, |(request, theirs)| {
        let ask = ask(Query::Text(request.query.clone()), &request);
        let Some(own) = essence(&ours.ask(&request)) else {
            return Some(format!("{ask}\n  an answer without a result"));
        };
        let difference = difference(&ask, &theirs, &own)?;
        Some(described(&ask, &difference.kind, &difference.detail))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the recorder finds cases for every part of the language.
    ///
    /// Method: counts the parts in queries that nobody answers.
    #[test]
    fn every_part_of_the_language_is_asked_for() {
        const QUERIES: u64 = 20_000;
        let mut choice = Choice::new(QUERIES as usize, parts(), LEFT_OUT);
        for index in 0..QUERIES {
            choice.takes(&random_request(1, index).1.query, Outcome::Answer);
        }
        choice.report().unwrap();
    }

    #[test]
    fn recorded_answers_of_loki_are_ours() {
        let (count, wrong) = check().unwrap();
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(count >= 1500, "only {count} cases");
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let ours = InMemory::over(&push_bodies(&streams(1))).unwrap();
        let mut answered = 0;
        for index in 0..40 {
            let (_, request) = random_request(1, index);
            let answer = essence(&ours.ask(&request)).unwrap();
            let (again, read) = read(&written(&request, &answer)).unwrap();
            assert_eq!(format!("{again:?}"), format!("{request:?}"));
            assert_eq!((read.status, read.body), (answer.status, answer.body.clone()));
            answered += usize::from(answer.status == 200);
        }
        assert!(answered > 10, "only {answered} answers");
    }
}
