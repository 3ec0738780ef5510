//! PromQL: records answers of Prometheus and checks those of the engine.

use anyhow::Result;
use sandur_promql::{FUNCTIONS, Times};
use serde_json::{Map, Value, json};

use super::choice::{Candidate, Choice, Outcome, described};
use super::draw::{Drawn, draw};
use super::file::Recording;
use super::points;
use crate::prometheus::answer::{Answer, Data, Names, Point, Row, ShownHistogram};
use crate::prometheus::ask::{Ask, random_ask};
use crate::prometheus::compare::compare;
use crate::prometheus::expression::{Expression, Kind};
use crate::prometheus::grammar::AGGREGATIONS;
use crate::prometheus::peers::{Engine, Peer};
use crate::prometheus::remote_write::requests;
use crate::prometheus::run::Pair;
use crate::prometheus::series::series;

/// The name of the language and of its recording.
pub const LANGUAGE: &str = "promql";

/// The largest number of steps of a recorded range query.
const STEPS_MAX: i64 = 5;
/// The largest length of a recorded case in bytes.
const CASE_BYTES_MAX: usize = 3_000;

/// Part of a warning that depends on the counter resets that storage has found between histograms.
/// Series in memory do not know them; the differential tests with a server compare the warning.
const OF_CHUNKS: &str = "conflicting counter resets";

/// Operators, modifiers, and selectors of every kind of samples.
const OTHERS: [&str; 45] = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "^",
    "atan2",
    "==",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "</",
    ">/",
    "and",
    "or",
    "unless",
    "bool",
    "on",
    "ignoring",
    "group_left",
    "group_right",
    "fill",
    "fill_left",
    "fill_right",
    "by",
    "without",
    "offset",
    "@",
    "start()",
    "end()",
    "anchored",
    "smoothed",
    ":]",
    "=~",
    "!~",
    "weird",
    "native_seconds",
    "native_float",
    "native_gauge",
    "nan_seconds",
    "custom_seconds",
    "mixed",
    "sparse",
];

/// Parts of the language without recorded cases.
pub const LEFT_OUT: &[&str] = &[];

/// The parts of the language that are counted.
pub fn parts() -> Vec<String> {
    let functions = FUNCTIONS.iter().map(|function| format!("{}(", function.name));
    let mut parts: Vec<String> =
        functions.chain(AGGREGATIONS.into_iter().chain(OTHERS).map(str::to_owned)).collect();
    parts.sort();
    parts.dedup();
    parts
}

/// Returns the data of a seed as they are sent.
pub fn data(seed: u64) -> Vec<Vec<u8>> {
    requests(&series(seed))
}

/// Returns query number `index` of a seed, with few steps.
pub fn short_ask(seed: u64, index: u64) -> Ask {
    let mut ask = random_ask(seed, index);
    ask.times.end = ask.times.end.min(ask.times.start + STEPS_MAX * ask.times.step);
    ask
}

/// Asks both, Prometheus twice.
pub fn candidate(pair: &mut Pair, ask: &Ask) -> Candidate {
    let theirs = pair.theirs.ask(ask);
    let case = written(ask, &theirs);
    if case.to_string().len() > CASE_BYTES_MAX {
        return Candidate::Dropped("long answer");
    }
    if compare(&theirs, &pair.theirs.ask(ask), ask.is_ordered()).is_some() {
        return Candidate::Dropped("answers vary");
    }
    let ours = pair.ours.ask(ask);
    match pair.judged(ask, &theirs, &ours) {
        Some((_, Some(rule))) => return Candidate::Explained(rule),
        Some((difference, None)) if difference.detail.contains(OF_CHUNKS) => {
            return Candidate::Dropped("depends on counter resets of chunks");
        }
        Some((difference, None)) => {
            return Candidate::Finding(described(ask, &difference.kind, &difference.detail));
        }
        None => {}
    }
    let outcome = match &theirs.outcome {
        Err(_) => Outcome::Error,
        Ok(data) if data.is_empty() => Outcome::Empty,
        Ok(_) => Outcome::Answer,
    };
    Candidate::Case(case, outcome)
}

fn written(ask: &Ask, theirs: &Answer) -> Value {
    let Times { start, end, step } = ask.times;
    let mut case = json!({"query": ask.expression.to_string(), "times": [start, end, step]});
    let mut with = |name: &str, value: Value| case[name] = value;
    let rows = |rows: &[Row], write: &dyn Fn(&[(i64, Point)]) -> String| -> Value {
        rows.iter().map(|(names, points)| json!([names, write(points)])).collect()
    };
    let word = |point: &(i64, Point)| (point.0, point_word(&point.1));
    match &theirs.outcome {
        Err(_) => with("error", Value::Bool(true)),
        Ok(Data::Scalar(number)) => with("scalar", points::number(*number).into()),
        Ok(Data::Text(text)) => with("text", text.as_str().into()),
        Ok(Data::Vector(all)) => {
            let only = |points: &[(i64, Point)]| points.iter().map(|(_, point)| point_word(point)).collect();
            with("vector", rows(all, &only));
        }
        Ok(Data::Matrix(all)) => {
            let several = |points: &[(i64, Point)]| {
                points::written(&points.iter().map(word).collect::<Vec<_>>(), start)
            };
            with("matrix", rows(all, &several));
        }
    }
    let notes = theirs.clone().without_texts();
    for (name, texts) in [("warnings", notes.warnings), ("infos", notes.infos)] {
        if !texts.is_empty() {
            case[name] = texts.len().into();
        }
    }
    case
}

/// A number, or a histogram: count, sum, and for each bucket its kind, bounds and count.
fn point_word(point: &Point) -> String {
    let ShownHistogram { count, sum, buckets } = match point {
        Point::Float(number) => return points::number(*number),
        Point::Histogram(histogram) => histogram,
    };
    let mut word = format!("{};{}", points::number(*count), points::number(*sum));
    for (kind, numbers) in buckets {
        let numbers = numbers.map(points::number).join(",");
        word.push_str(&format!(";{kind},{numbers}"));
    }
    word
}

fn read_point(word: &str) -> Option<Point> {
    let Some((count, rest)) = word.split_once(';') else { return Some(Point::Float(word.parse().ok()?)) };
    let mut parts = rest.split(';');
    let sum = parts.next()?.parse().ok()?;
    let bucket = |text: &str| {
        let mut words = text.split(',');
        let kind = words.next()?.parse::<u64>().ok()?;
        let numbers: Vec<f64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some((kind, <[f64; 3]>::try_from(numbers).ok()?))
    };
    let buckets = parts.map(bucket).collect::<Option<Vec<_>>>()?;
    Some(Point::Histogram(ShownHistogram { count: count.parse().ok()?, sum, buckets }))
}

fn read(case: &Value) -> Option<(Ask, Answer)> {
    let time = |n: usize| case["times"][n].as_i64();
    let times = Times { start: time(0)?, end: time(1)?, step: time(2)? };
    let ask = Ask { expression: Expression::text(Kind::Vector, case["query"].as_str()?), times };
    let names = |labels: &Map<String, Value>| -> Option<Names> {
        labels.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
    };
    let rows = |rows: &Value, points: &dyn Fn(&str) -> Option<Vec<(i64, Point)>>| -> Option<Vec<Row>> {
        let row = |row: &Value| Some((names(row[0].as_object()?)?, points(row[1].as_str()?)?));
        rows.as_array()?.iter().map(row).collect()
    };
    let outcome = if case["error"] == true {
        Err(String::new())
    } else if let Some(number) = case["scalar"].as_str() {
        Ok(Data::Scalar(number.parse().ok()?))
    } else if let Some(text) = case["text"].as_str() {
        Ok(Data::Text(text.to_owned()))
    } else if case["vector"].is_array() {
        Ok(Data::Vector(rows(&case["vector"], &|word| Some(vec![(times.end, read_point(word)?)]))?))
    } else {
        Ok(Data::Matrix(rows(&case["matrix"], &|text| points::read(text, times.start, read_point))?))
    };
    let notes = |name: &str| vec![String::new(); case[name].as_u64().unwrap_or(0) as usize];
    let (warnings, infos) = (notes("warnings"), notes("infos"));
    Some((ask, Answer { outcome, error_type: None, warnings, infos }))
}

/// Checks the recorded answers. Returns their number and descriptions of those that are not ours.
pub fn check() -> Result<(usize, Vec<String>)> {
    let recording = Recording::read(LANGUAGE, data)?;
    let engine = Engine::over(&series(recording.seed))?;
    recording.check(read, |(ask, theirs)| {
        let difference = compare(&theirs, &engine.ask(&ask).without_texts(), ask.is_ordered())?;
        Some(described(&ask, &difference.kind, &difference.detail))
    })
}

/// Draws cases until there are enough.
pub fn record(pair: &mut Pair, seed: u64, choice: &mut Choice, tries: u64) -> Result<Drawn> {
    draw(choice, tries, |index, choice| {
        let ask = short_ask(seed, index);
        let query = ask.expression.to_string();
        if !choice.may_take(&query) {
            return Ok(None);
        }
        Ok(Some((query, candidate(pair, &ask))))
    })
}

/// Returns both peers over the data of a seed.
pub fn pair(theirs: Peer, seed: u64) -> Result<Pair> {
    Ok(Pair { theirs, ours: Peer::Engine(Engine::over(&series(seed))?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::Labels;

    #[test]
    fn recorded_answers_of_prometheus_are_ours() {
        let (count, wrong) = check().unwrap();
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(count >= 3000, "only {count} cases");
    }

    /// Goal: an answer that several processes compute from parts of the series is that of one process, to the
    /// last bit, with its warnings.
    ///
    /// Method: every fourth recorded case, divided into 2 to 5 parts; all messages travel as bytes.
    #[test]
    fn answers_of_parts_are_those_of_one_process() {
        let recording = Recording::read(LANGUAGE, data).unwrap();
        let mut stored = series(recording.seed);
        let name = |labels: &Labels| labels.get("__name__").map(str::to_owned);
        stored.sort_by(|a, b| name(&a.labels).cmp(&name(&b.labels)).then_with(|| a.labels.cmp(&b.labels)));
        let engine = Engine::over(&stored).unwrap();
        let (mut wrong, mut number) = (Vec::new(), 0);
        let all = recording.check(read, |(ask, _)| {
            number += 1;
            if number % 4 == 0 {
                let [whole, parts] = engine.ask_in_parts(&ask, 2 + number / 4 % 4);
                if whole != parts {
                    wrong.push(format!("{} at {:?}:\n  {whole}\n  {parts}", ask.expression, ask.times));
                }
            }
            None
        });
        assert!(all.unwrap().0 >= 3000);
        assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let ask = short_ask(1, 1);
        let row = r#"{"metric":{"a":"1"},"values":[[1,"1"],[2.5,"-0.3"]],"histograms":[[3,
            {"count":"3","sum":"1.5","buckets":[[0,"-1","2e300","+Inf"],[3,"0","1","2"]]}]]}"#;
        for data in [
            format!(r#"{{"resultType":"matrix","result":[{row}]}}"#),
            r#"{"resultType":"scalar","result":[1,"NaN"]}"#.to_owned(),
            r#"{"resultType":"string","result":[1,"x"]}"#.to_owned(),
        ] {
            let body = format!(r#"{{"status":"success","data":{data},"warnings":["w","v"]}}"#);
            let theirs = Answer::from_json(body.as_bytes());
            let (_, again) = read(&written(&ask, &theirs)).unwrap();
            assert!(theirs.outcome.is_ok(), "{body}");
            let wanted = theirs.without_texts();
            assert!(compare(&wanted, &again, true).is_none(), "{body}: {again:?}");
            assert_eq!(format!("{wanted:?}"), format!("{again:?}"));
        }
        let refusal = Answer::refusal("no");
        assert!(read(&written(&ask, &refusal)).unwrap().1.outcome.is_err());
    }
}
