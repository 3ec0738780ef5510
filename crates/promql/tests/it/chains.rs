//! Goal: a chain of operators has the same answer as its pairs in parentheses, and takes the memory of a
//! few operands at any length.
//!
//! Method: random chains are compared with the same operators with parentheses around each left side, which
//! are planned as nested expressions. Chains of ten and of a thousand operands run over the same series.

use std::fmt::Write as _;

use proptest::prelude::*;
use sandur_base::ErrorKind;
use sandur_promql::{Times, pretty, to_json};

use super::engine::{MINUTE, ask, context, range, store};

/// Operators by descending precedence, so that a chain in this order is evaluated from left to right.
const OPERATORS: &[&[&str]] = &[
    &["*", "/", "%", "atan2", "* on (job, instance)", "* on (job, instance) group_left ()"],
    &["+", "-", "+ fill (1)", "- ignoring (x)"],
    &["== bool", "> bool", "<= bool", "!= bool", ">/"],
    &["and", "unless", "and on (job)", "unless on (instance)", "unless ignoring (job)"],
    &["or", "or", "or on (job)", "or ignoring (instance)"],
];

const OPERANDS: &[&str] = &[
    "requests_total",
    "rate(requests_total[5m])",
    "requests_total{instance=~\".*[1-4]\"}",
    "requests_total @ 600",
    "(requests_total > 40)",
    "label_replace(requests_total, \"job\", \"all\", \"\", \"\")",
    "vector(3)",
    "2",
    "time()",
    "scalar(requests_total{instance=\"instance1\"})",
];

/// A chain, and the same expression with parentheses.
fn row() -> impl Strategy<Value = [String; 2]> {
    let operand = || prop::sample::select(OPERANDS);
    let strength = 0..OPERATORS.len();
    let link = (strength, any::<prop::sample::Index>(), operand());
    (operand(), prop::collection::vec(link, 1..7)).prop_map(|(first, mut links)| {
        links.sort_by_key(|(strength, ..)| *strength);
        let (mut row, mut pairs) = (first.to_owned(), first.to_owned());
        for (strength, index, operand) in links {
            let operator = index.get(OPERATORS[strength]);
            write!(row, " {operator} {operand}").unwrap();
            pairs = format!("({pairs}) {operator} {operand}");
        }
        [row, pairs]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn a_chain_answers_as_its_pairs_in_parentheses(queries in row(), is_range in any::<bool>()) {
        let store = store(9);
        let instant = Times { start: 20 * MINUTE, end: 20 * MINUTE, step: 0 };
        let times = if is_range { range() } else { instant };
        let answers = queries.each_ref().map(|query| {
            let context = context(64 << 20);
            let answer = ask(&store, &context, query, times);
            let said = answer.map(|answer| (format!("{:?}", answer.value), answer.infos.len()));
            prop_assert_eq!(context.budget().used(), 0, "{}", query);
            // The places in error texts differ.
            Ok(said.map_err(|error| error.kind()))
        });
        let [row, pairs] = answers;
        prop_assert_eq!(row?, pairs?, "{:?}", queries);
    }
}

/// Notes of `and` and `unless` name the last place, whichever side is evaluated first.
#[test]
fn notes_of_a_chain_name_the_last_operand_that_made_them() {
    let store = store(9);
    for (query, place) in [
        ("sort(requests_total) and sort_desc(requests_total)", "(1:26)"),
        ("sort(requests_total) unless sort(requests_total) and sort(requests_total)", "(1:54)"),
        ("sort(requests_total) and requests_total", "(1:1)"),
        ("requests_total unless sort(requests_total) or requests_total", "(1:23)"),
    ] {
        let answer = ask(&store, &context(64 << 20), query, range()).unwrap();
        let places: Vec<bool> = answer.warnings.iter().map(|text| text.ends_with(place)).collect();
        assert_eq!(places, [true], "{query}: {:?}", answer.warnings);
    }
}

/// Chains of each kind: the first operand, and the part that is repeated.
const ROWS: &[[&str; 2]] = &[
    ["requests_total", " or requests_total"],
    ["requests_total", " or on (instance) requests_total{job=\"job1\"}"],
    ["requests_total", " and requests_total"],
    ["requests_total", " unless requests_total{job=\"job2\"}"],
    ["requests_total", " + requests_total"],
    ["requests_total", " - on (job, instance) group_left () requests_total"],
    ["requests_total", " + fill (0) requests_total"],
    ["requests_total", " * 1.5"],
    ["1", " + 2"],
    ["requests_total @ 600", " + requests_total @ 600"],
    ["requests_total @ 600", " or requests_total"],
];

#[test]
fn a_long_chain_takes_the_memory_of_a_few_operands() {
    let store = store(40);
    for [first, link] in ROWS {
        let peak = |count: usize| {
            let (context, query) = (context(256 << 20), format!("{first}{}", link.repeat(count)));
            ask(&store, &context, &query, range()).unwrap_or_else(|error| panic!("{query:.80}: {error}"));
            assert_eq!(context.budget().used(), 0, "{query:.80}");
            context.budget().peak()
        };
        let (few, many) = (peak(10), peak(400));
        // Each operand leaves behind its selection; of `and` and `unless`, also the steps of its
        // signatures. Reservations of growing data include half as much again.
        let stays = if link.contains("and") || link.contains("unless") { 40 * 120 } else { 2_000 };
        let most = few * 2 + 400 * stays;
        assert!(many < most, "{first}{link}: {few} bytes for ten operands, {many} for 400");
    }
}

#[test]
fn a_chain_above_the_limit_fails_with_the_limit() {
    let (store, context) = (store(1), context(64 << 20));
    for [first, link] in ROWS {
        let error = |count: usize| {
            let query = format!("{first}{}", link.repeat(count));
            let error = ask(&store, &context, &query, range()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            error.to_string()
        };
        let limits = ["more than 2000 operands and functions", "at most 131072"];
        for count in [2_000, 10_000, 100_000] {
            let error = error(count);
            assert!(limits.iter().any(|limit| error.contains(limit)), "{error:.200}");
        }
    }
}

#[test]
fn a_long_chain_is_laid_out_as_in_prometheus() {
    let long = "a_metric_with_a_long_name{label=\"value\"}";
    let expr = sandur_promql::parse(&format!("{long} + {long} + {long} * 2 - 1")).unwrap();
    let expected = format!("    {long} + {long}\n  +\n    {long} * 2\n-\n  1");
    assert_eq!(pretty(&expr).unwrap(), expected);
    let expr = sandur_promql::parse(&vec![long; 1_500].join(" + ")).unwrap();
    let text = pretty(&expr).unwrap();
    let first = text.lines().next().unwrap();
    assert_eq!(first, format!("{}{long} + {long}", "  ".repeat(1_498)));
    assert_eq!(text.lines().count(), 1 + 2 * 1_498);
}

#[test]
fn the_json_tree_of_a_chain_is_that_of_its_pairs() {
    let tree = |text: &str| {
        let json = to_json(&sandur_promql::parse(text).unwrap()).unwrap();
        serde_json::from_str::<serde_json::Value>(&json).unwrap()
    };
    let row = tree("1 + 2 * a - on (x) group_left (y) sum by (z) (b) > bool topk(3, c)");
    assert_eq!((&row["op"], &row["bool"]), (&">".into(), &true.into()));
    assert_eq!((&row["lhs"]["op"], &row["lhs"]["lhs"]["op"]), (&"-".into(), &"+".into()));
    assert_eq!(row["lhs"]["matching"]["card"], "many-to-one");
    assert_eq!(row["lhs"]["lhs"]["matching"], serde_json::Value::Null);
    assert_eq!(row["lhs"]["lhs"]["rhs"], tree("2 * a"));
    assert_eq!((&row["lhs"]["rhs"], &row["rhs"]), (&tree("sum by (z) (b)"), &tree("topk(3, c)")));
    assert_eq!(row["rhs"]["param"], tree("3"));
    assert_eq!(tree("sum(a)")["param"], serde_json::Value::Null);
    assert_eq!(tree("max_of(1, 2)")["args"], serde_json::json!([tree("1"), tree("2")]));
}
