//! Whether answers differ because `topk`, `bottomk` or `limitk` had to choose among equal series.
//!
//! Such a difference is one of labels alone: each step has the same values in both answers. Where the choice
//! is within another expression anything may follow from it, so the choice itself is asked at the same steps
//! and over the whole time of the series: the difference is explained when one of these is among equals.

use std::collections::BTreeMap;

use sandur_promql::Times;

use super::answer::{Answer, Data, Point};
use super::ask::Ask;
use super::compare::{Kind, close};
use super::expression::{Expression, Part};
use super::rules::Case;
use super::series::{BEGIN_MS, LENGTH_MS};

/// The aggregations that choose.
const CHOOSING: [&str; 3] = ["topk", "bottomk", "limitk"];

/// Step of a question for a choice: that of the series that have most samples.
const STEP_MS: i64 = 15_000;

/// Whether a text has one of them.
pub fn has_choice(text: &str) -> bool {
    CHOOSING.iter().any(|name| text.contains(name))
}

/// The aggregation of a question that is for a choice, or for one with its names kept.
fn choice(text: &str) -> Option<&'static str> {
    let text = text.strip_prefix(NAMED.0).unwrap_or(text);
    CHOOSING.into_iter().find(|name| text.starts_with(name))
}

/// Before and after a choice whose names go: equal series that only names tell apart look the same without.
const NAMED: (&str, &str) = ("label_replace(", ", \"chosen\", \"$1\", \"__name__\", \"(.*)\")");

fn named(choice: &Expression) -> Expression {
    let text = |text: &str| Part::Text(text.to_owned());
    let parts = vec![text(NAMED.0), Part::Inner(choice.clone()), text(NAMED.1)];
    Expression { kind: choice.kind, parts }
}

/// Whether a difference may follow from a choice among equals: it is one by itself, or has a choice within.
pub fn may_follow(case: &Case<'_>) -> bool {
    let within = case.text.get(1..).is_some_and(has_choice);
    match case.difference.kind {
        Kind::Shape | Kind::Order => false,
        _ => is_of_equals(case) || within,
    }
}

/// Questions for the choices within a question, unless it is for one itself whose difference is of equals.
pub fn choices_within(case: &Case<'_>) -> Vec<Ask> {
    if is_of_equals(case) {
        return Vec::new();
    }
    let within = case.ask.expression.descendants().into_iter();
    let choices = within.filter(|inner| choice(&inner.to_string()).is_some());
    let asked = |choice: Expression| {
        let named = named(&choice);
        [by_itself(case, &choice), by_itself(case, &named)].concat()
    };
    choices.flat_map(asked).collect()
}

/// Questions for a part of a question: at the times of the question and, because a subquery has other steps,
/// over all times.
pub fn by_itself(case: &Case<'_>, part: &Expression) -> Vec<Ask> {
    let whole = Times { start: BEGIN_MS, end: BEGIN_MS + LENGTH_MS, step: STEP_MS };
    [case.ask.times, whole].map(|times| Ask { expression: part.clone(), times }).to_vec()
}

/// Whether a question is for a choice, and both answers have the same values at each step.
fn is_of_equals(case: &Case<'_>) -> bool {
    let Some(name) = choice(&case.text) else { return false };
    let is_counted = name == "limitk";
    match case.difference.kind {
        Kind::Series | Kind::Samples | Kind::Values => match (by_time(case.theirs), by_time(case.ours)) {
            (Some(theirs), Some(ours)) => have_the_same(&theirs, &ours, is_counted),
            _ => false,
        },
        _ => false,
    }
}

/// The numbers of each time, in order; histograms count as infinity.
fn by_time(answer: &Answer) -> Option<BTreeMap<i64, Vec<f64>>> {
    let Ok(Data::Vector(rows) | Data::Matrix(rows)) = &answer.outcome else { return None };
    let mut all: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (time, point) in rows.iter().flat_map(|(_, points)| points) {
        let number = match point {
            // NaN has one of many bit patterns, by which it would be sorted.
            Point::Float(number) if number.is_nan() => f64::NAN,
            Point::Float(number) => *number,
            Point::Histogram(_) => f64::INFINITY,
        };
        all.entry(*time).or_default().push(number);
    }
    all.values_mut().for_each(|numbers| numbers.sort_by(f64::total_cmp));
    Some(all)
}

fn have_the_same(theirs: &BTreeMap<i64, Vec<f64>>, ours: &BTreeMap<i64, Vec<f64>>, is_counted: bool) -> bool {
    let same = |a: &[f64], b: &[f64]| {
        a.len() == b.len() && (is_counted || a.iter().zip(b).all(|(a, b)| close(*a, *b)))
    };
    theirs.len() == ours.len()
        && theirs.iter().zip(ours).all(|((a_time, a), (b_time, b))| a_time == b_time && same(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::compare::compare;
    use crate::prometheus::expression::Kind as ExpressionKind;

    fn vector(rows: &[(&str, &str)]) -> Answer {
        let row = |(label, value): &(&str, &str)| {
            format!(r#"{{"metric":{{"a":"{label}"}},"value":[1,"{value}"]}}"#)
        };
        let rows: Vec<String> = rows.iter().map(row).collect();
        let rows = rows.join(",");
        Answer::from_json(
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{rows}]}}}}"#)
                .as_bytes(),
        )
    }

    /// Whether a difference may follow from a choice, and which choices have to be asked for that.
    fn explained(text: &str, theirs: &[(&str, &str)], ours: &[(&str, &str)]) -> (bool, Vec<String>) {
        let (theirs, ours) = (vector(theirs), vector(ours));
        let difference = &compare(&theirs, &ours, false).unwrap();
        let inner = |text: &str| Part::Inner(Expression::text(ExpressionKind::Vector, text));
        let parts = match text.split_once('(') {
            Some((head, rest)) => vec![Part::Text(format!("{head}(")), inner(rest.trim_end_matches(')'))],
            None => vec![inner(text)],
        };
        let expression = Expression { kind: ExpressionKind::Vector, parts };
        let ask = &Ask { expression, times: Times { start: 0, end: 0, step: 0 } };
        let (theirs, ours) = (&theirs, &ours);
        let case = Case { ask, text: text.to_owned(), difference, theirs, ours };
        let asked = choices_within(&case).iter().map(|ask| ask.expression.to_string()).collect();
        (may_follow(&case), asked)
    }

    #[test]
    fn a_choice_among_equals_has_other_labels_and_the_same_values() {
        let of = |text, theirs: &[_], ours: &[_]| explained(text, theirs, ours).0;
        assert!(of("topk(up)", &[("x", "3"), ("y", "1")], &[("x", "3"), ("z", "1")]));
        assert!(!of("topk(up)", &[("x", "3"), ("y", "1")], &[("x", "3"), ("z", "2")]));
        assert!(!of("topk(up)", &[("x", "3"), ("y", "1")], &[("x", "3")]));
        assert!(of("limitk(up)", &[("x", "3")], &[("y", "4")]));
        assert!(!of("limitk(up)", &[("x", "3")], &[]));
        assert!(!of("sum(up)", &[("x", "3")], &[("y", "3")]));
    }

    #[test]
    fn a_choice_within_an_expression_is_asked_by_itself() {
        let (theirs, ours) = (&[("x", "3")], &[("x", "4")]);
        let named = format!("{}topk(1, up{}", NAMED.0, NAMED.1);
        let all = ["topk(1, up", "topk(1, up", &named, &named].map(str::to_owned).to_vec();
        assert_eq!(explained("sum(topk(1, up)", theirs, ours), (true, all.clone()));
        assert_eq!(explained("topk(topk(1, up)", theirs, ours), (true, all));
        assert_eq!(explained("limitk(topk(1, up)", theirs, ours), (true, Vec::new()), "a choice itself");
    }
}
