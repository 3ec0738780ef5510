//! Graphite: records answers of graphite-web and checks those of our language.

use std::path::Path;

use anyhow::Result;
use sandur_graphite::{FUNCTIONS, Origin};
use serde_json::{Value, json};

use super::choice::{self, Candidate, Choice, described};
use super::draw::{Drawn, draw};
use super::file::Recording;
use super::points;
use crate::graphite::answer::{Answer, Row, compare};
use crate::graphite::ask::{Ask, random_ask};
use crate::graphite::expression::Expression;
use crate::graphite::oracle::Oracle;
use crate::graphite::ours::Ours;
use crate::graphite::run::{Outcome, Pair, cancels};
use crate::graphite::series::Known;

/// The name of the language and of its recording.
pub const LANGUAGE: &str = "graphite";

/// The largest length of a recorded case in bytes.
const CASE_BYTES_MAX: usize = 2_400;

/// Functions without recorded cases: the answers of `randomWalk` are random.
pub const LEFT_OUT: &[&str] = &["randomWalk("];

/// Syntax and parameters.
const OTHERS: [&str; 10] =
    ["|", "*", "{", "[", "true", "until=", "maxDataPoints=", "tz=", "xFilesFactor=", "noNullPoints="];

/// The names of the parameters of [`Ask::others`].
const PARAMETERS: [&str; 6] = ["from", "until", "maxDataPoints", "tz", "xFilesFactor", "noNullPoints"];

/// The parts of the language that are counted: graphite-web's functions under all of their names are one.
pub fn parts() -> Vec<String> {
    let functions = FUNCTIONS.iter().copied().filter(|function| function.origin == Origin::Graphite);
    let functions = functions.map(|function| format!("{}(", function.name));
    functions.chain(OTHERS.map(str::to_owned)).collect()
}

/// Returns the text of a request in which parts are counted, with the main names of functions.
fn counted(ask: &Ask) -> String {
    let mut text = ask.text();
    for function in FUNCTIONS.iter() {
        for alias in function.aliases {
            text = text.replace(&format!("{alias}("), &format!("{alias}({}(", function.name));
        }
    }
    ask.others.iter().for_each(|(name, value)| text.push_str(&format!(" {name}={value}")));
    text
}

/// Returns the data of a seed as graphite-web gets them.
pub fn data(seed: u64) -> Vec<Vec<u8>> {
    vec![Known::random(seed).to_json().to_string().into_bytes()]
}

/// Returns both sides over the data of a seed.
pub fn pair(python: &Path, directory: &Path, seed: u64) -> Result<Pair> {
    let known = Known::random(seed);
    let theirs = Oracle::start(python, directory, &known)?;
    Ok(Pair { theirs, ours: Ours::over(known)? })
}

/// Draws cases until there are enough.
pub fn record(pair: &mut Pair, seed: u64, choice: &mut Choice, tries: u64) -> Result<Drawn> {
    draw(choice, tries, |index, choice| {
        let ask = random_ask(seed, index);
        let text = counted(&ask);
        if !choice.may_take(&text) {
            return Ok(None);
        }
        Ok(Some((text, candidate(pair, &ask)?)))
    })
}

/// Asks both, graphite-web twice.
fn candidate(pair: &mut Pair, ask: &Ask) -> Result<Candidate> {
    let outcome = pair.unexplained(ask)?;
    let theirs = match outcome {
        Outcome::Differs(_, Some(rule)) => return Ok(Candidate::Explained(rule)),
        Outcome::Differs(difference, None) => {
            return Ok(Candidate::Finding(described(ask, &difference.kind, &difference.detail)));
        }
        Outcome::Equal(theirs) => theirs,
    };
    let outcome = match &theirs {
        Answer::Failed(_) => return Ok(Candidate::Dropped("no answer")),
        Answer::Refused(_) => choice::Outcome::Error,
        Answer::Rows(rows) if rows.is_empty() => choice::Outcome::Empty,
        Answer::Rows(_) => choice::Outcome::Answer,
    };
    let case = written(ask, &theirs);
    if case.to_string().len() > CASE_BYTES_MAX {
        return Ok(Candidate::Dropped("long answer"));
    }
    match pair.unexplained(ask)? {
        Outcome::Equal(again) if written(ask, &again) == case => Ok(Candidate::Case(case, outcome)),
        _ => Ok(Candidate::Dropped("answers vary")),
    }
}

fn written(ask: &Ask, theirs: &Answer) -> Value {
    let targets: Vec<String> = ask.targets.iter().map(ToString::to_string).collect();
    let parameters = ask.others.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
    let mut case = json!({"targets": targets, "parameters": Value::Object(parameters)});
    match theirs {
        Answer::Rows(rows) => case["series"] = rows.iter().map(written_row).collect(),
        Answer::Refused(_) | Answer::Failed(_) => case["error"] = Value::Bool(true),
    }
    case
}

fn written_row(row: &Row) -> Value {
    let word = |value: &Option<f64>| value.map_or_else(|| "_".to_owned(), points::number);
    let words: Vec<_> = row.points.iter().map(|(value, time)| (*time, word(value))).collect();
    json!([row.target, row.tags, points::written(&words, 0)])
}

fn read(case: &Value) -> Option<(Ask, Answer)> {
    let targets = case["targets"].as_array()?.iter();
    let targets = targets.map(|target| target.as_str().map(Expression::text)).collect::<Option<_>>()?;
    let parameters = case["parameters"].as_object()?;
    let known = |name: &str| PARAMETERS.into_iter().find(|known| *known == name);
    let pair = |(name, value): (&String, &Value)| Some((known(name)?, value.as_str()?.to_owned()));
    let others = parameters.iter().map(pair).collect::<Option<_>>()?;
    let answer = match case["error"] == true {
        true => Answer::Refused(String::new()),
        false => Answer::Rows(case["series"].as_array()?.iter().map(read_row).collect::<Option<_>>()?),
    };
    Some((Ask { targets, others }, answer))
}

fn read_row(row: &Value) -> Option<Row> {
    let value = |word: &str| if word == "_" { Some(None) } else { word.parse().ok().map(Some) };
    let points = points::read(row[2].as_str()?, 0, value)?;
    let points = points.into_iter().map(|(time, value)| (value, time)).collect();
    Some(Row { target: row[0].as_str()?.to_owned(), tags: row[1].clone(), points })
}

/// Checks the recorded answers. Returns their number and descriptions of those that are not ours.
pub fn check() -> Result<(usize, Vec<String>)> {
    let recording = Recording::read(LANGUAGE, data)?;
    let ours = Ours::over(Known::random(recording.seed))?;
    recording.check(read, |(ask, theirs)| {
        let difference = compare(&theirs, &ours.ask(&ask), cancels(&ask.text()))?;
        Some(described(&ask, &difference.kind, &difference.detail))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_answers_of_graphite_web_are_ours() {
        let (count, wrong) = check().unwrap();
        assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
        assert!(count >= 2500, "only {count} cases");
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let body = r#"[{"target":"a b","tags":{"x":"y"},"datapoints":[[1.5,60],[null,120],[-1e9999,240]]}]"#;
        for answer in [Answer::read(body), Answer::Refused("no".to_owned())] {
            let ask = random_ask(1, 1);
            let (again, read) = read(&written(&ask, &answer)).unwrap();
            let sorted = |ask: &Ask| {
                let mut pairs = ask.parameters();
                pairs.sort();
                pairs
            };
            assert_eq!(sorted(&again), sorted(&ask));
            match (&answer, &read) {
                (Answer::Rows(left), Answer::Rows(right)) => assert_eq!(left, right),
                (Answer::Refused(_), Answer::Refused(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
