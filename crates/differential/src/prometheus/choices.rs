//! Decides whether answers differ because `topk`, `bottomk` or `limitk` had to choose among equal
//! series.
//!
//! Such a difference concerns only labels: at each step both answers have the same values. If the choice
//! is part of another expression, it may have any consequence. Therefore the choice itself is evaluated
//! at the same steps and over the complete time of the series. The difference is explained if one of
//! these answers differs by a choice among equals.

use std::collections::BTreeMap;

use sandur_promql::Times;

use super::answer::{Answer, Data, Point};
use super::ask::Ask;
use super::case::Case;
use super::compare::{Kind, close};
use super::expression::{Expression, Part};
use super::series::{BEGIN_MS, LENGTH_MS};

/// The aggregations that choose series.
const CHOOSING: [&str; 3] = ["topk", "bottomk", "limitk"];

/// The step at which a choice is evaluated: that of the densest series.
const STEP_MS: i64 = 15_000;

/// Returns whether a text contains one of them.
pub fn has_choice(text: &str) -> bool {
    CHOOSING.iter().any(|name| text.contains(name))
}

/// Returns the aggregation of an expression that is a choice, or a choice whose names are kept.
fn choice(text: &str) -> Option<&'static str> {
    let text = text.strip_prefix(NAMED.0).unwrap_or(text);
    CHOOSING.into_iter().find(|name| text.starts_with(name))
}

/// Text before and after a choice that drops metric names. Without the names, equal series that only
/// differ in the name would look the same.
const NAMED: (&str, &str) = ("label_replace(", ", \"chosen\", \"$1\", \"__name__\", \"(.*)\")");

fn named(choice: &Expression) -> Expression {
    let text = |text: &str| Part::Text(text.to_owned());
    let parts = vec![text(NAMED.0), Part::Inner(choice.clone()), text(NAMED.1)];
    Expression { kind: choice.kind, parts }
}

/// Returns whether a difference may follow from a choice among equals: by itself, or because the
/// expression contains a choice.
pub fn may_follow(case: &Case<'_>) -> bool {
    let within = case.text.get(1..).is_some_and(has_choice);
    match case.difference.kind {
        Kind::Shape | Kind::Order => false,
        _ => is_of_equals(case) || within,
    }
}

/// Returns queries for the choices within an expression, unless the expression itself is a choice among
/// equals.
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

/// Returns queries for a part of an expression: at the times of the original query, and, since a
/// subquery has other steps, over the complete time.
pub fn by_itself(case: &Case<'_>, part: &Expression) -> Vec<Ask> {
    let whole = Times { start: BEGIN_MS, end: BEGIN_MS + LENGTH_MS, step: STEP_MS };
    [case.ask.times, whole].map(|times| Ask { expression: part.clone(), times }).to_vec()
}

/// Returns whether an expression is a choice for which both answers have the same values at each step.
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

/// Returns the sorted numbers of each time; histograms count as infinity.
fn by_time(answer: &Answer) -> Option<BTreeMap<i64, Vec<f64>>> {
    let Ok(Data::Vector(rows) | Data::Matrix(rows)) = &answer.outcome else { return None };
    let mut all: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (time, point) in rows.iter().flat_map(|(_, points)| points) {
        let number = match point {
            // NaN has many bit patterns, which would affect the order.
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

    /// Returns whether a difference may follow from a choice, and the choices that must be evaluated to
    /// confirm it.
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
    fn a_choice_among_equals_has_different_labels_and_equal_values() {
        let of = |text, theirs: &[_], ours: &[_]| explained(text, theirs, ours).0;
        assert!(of("topk(up)", &[("x", "3"), ("y", "1")], &[("x", "3"), ("z", "1")]));
        assert!(!of("topk(up)", &[("x", "3"), ("y", "1")], &[("x", "3"), ("z", "2")]));
        assert!(!of("topk(up)", &[("x", "3"), ("y", "1")], &[("x", "3")]));
        assert!(of("limitk(up)", &[("x", "3")], &[("y", "4")]));
        assert!(!of("limitk(up)", &[("x", "3")], &[]));
        assert!(!of("sum(up)", &[("x", "3")], &[("y", "3")]));
    }

    #[test]
    fn a_choice_within_an_expression_is_evaluated_by_itself() {
        let (theirs, ours) = (&[("x", "3")], &[("x", "4")]);
        let named = format!("{}topk(1, up{}", NAMED.0, NAMED.1);
        let all = ["topk(1, up", "topk(1, up", &named, &named].map(str::to_owned).to_vec();
        assert_eq!(explained("sum(topk(1, up)", theirs, ours), (true, all.clone()));
        assert_eq!(explained("topk(topk(1, up)", theirs, ours), (true, all));
        assert_eq!(explained("limitk(topk(1, up)", theirs, ours), (true, Vec::new()), "a choice itself");
    }
}
