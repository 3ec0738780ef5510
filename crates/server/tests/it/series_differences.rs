//! Goal: `/sandur/differences/series` compares the series in a box of a plot with the others as a plain
//! computation does, within its bounds, and says what is wrong with a request.
//!
//! Method: requests to the router over series in memory.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_model::Labels;
use sandur_query::MemorySeries;
use serde_json::Value;

use crate::harness::{NOW, Server};

const PATH: &str = "/sandur/differences/series";
const MINUTES: i64 = 60;

/// Labels of a series, and its value at a minute.
fn labels(n: usize) -> Labels {
    let (pod, zone) = (format!("pod-{n}"), ["a", "b", "c"][n % 3]);
    let version = if n.is_multiple_of(10) { "2" } else { "1" };
    Labels::from_pairs([("__name__", "latency"), ("pod", &pod), ("zone", zone), ("version", version)])
}

/// Series of version 2 in zone a are slow in the second half hour.
fn value(n: usize, minute: i64) -> f64 {
    let is_slow = n.is_multiple_of(10) && n.is_multiple_of(3) && minute >= 30;
    if is_slow { 9.0 } else { (n % 4) as f64 }
}

fn server(number: usize) -> Server {
    let mut series = MemorySeries::default();
    for n in 0..number {
        series.edit(&labels(n), |samples| {
            for minute in 0..=MINUTES {
                samples.times.push((NOW - (MINUTES - minute) * 60) * 1_000);
                samples.values.push(value(n, minute));
            }
        });
    }
    Server::over_samples(Arc::new(series), |_| ())
}

async fn ask(server: &Server, more: &[(&str, &str)]) -> (u16, Value) {
    let (start, end) = ((NOW - MINUTES * 60).to_string(), NOW.to_string());
    let range = [("start", &*start), ("end", &*end), ("step", "60")];
    let is_asked_otherwise = |name: &str| more.iter().any(|(other, _)| *other == name);
    let range = range.into_iter().filter(|(name, _)| !is_asked_otherwise(name));
    let asked: Vec<_> = range.chain(more.iter().copied()).collect();
    let answer = server.get(PATH, &asked).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

/// Numbers of series inside and outside by label and value.
type Counts = BTreeMap<(String, String), (u64, u64)>;

#[tokio::test(start_paused = true)]
async fn counts_equal_a_plain_computation() {
    const NUMBER: usize = 600;
    let server = server(NUMBER);
    let start = (NOW - 20 * 60).to_string();
    let (status, found) =
        ask(&server, &[("query", "latency"), ("box_start", &start), ("box_min", "5"), ("box_max", "10")])
            .await;
    assert_eq!(status, 200, "{found}");
    let mut plain = Counts::new();
    let mut sides = (0, 0);
    for n in 0..NUMBER {
        let is_inside = (MINUTES - 20..=MINUTES).any(|minute| (5.0..=10.0).contains(&value(n, minute)));
        let add = |at: &mut (u64, u64)| if is_inside { at.0 += 1 } else { at.1 += 1 };
        add(&mut sides);
        for (name, value) in labels(n).iter() {
            add(plain.entry((name.to_owned(), value.to_owned())).or_default());
        }
    }
    assert_eq!((found["inside"].as_u64(), found["outside"].as_u64()), (Some(sides.0), Some(sides.1)));
    let fields = found["fields"].as_array().unwrap();
    let names: Vec<&str> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["version", "zone", "__name__", "pod"], "those that differ, then the others");
    for field in fields {
        let name = field["name"].as_str().unwrap();
        let number = plain.keys().filter(|(label, _)| label == name).count() as u64;
        assert_eq!(field["number"].as_u64(), Some(number), "{field}");
        assert_eq!((field["origin"].as_str(), field["restScoreMax"].as_f64()), (Some("label"), Some(0.0)));
        for value in field["values"].as_array().unwrap() {
            let key = (name.to_owned(), value["value"].as_str().unwrap().to_owned());
            let counts = (value["inside"].as_u64().unwrap(), value["outside"].as_u64().unwrap());
            assert_eq!(counts, plain[&key], "{key:?}");
        }
    }
    // Without bounds of values every series with a point in the time is inside.
    let (_, all) = ask(&server, &[("query", "latency"), ("box_start", &start)]).await;
    assert_eq!((all["inside"].as_u64(), all["outside"].as_u64()), (Some(NUMBER as u64), Some(0)));
    // The series are those of the query.
    let (_, summed) = ask(&server, &[("query", "max by (zone) (latency)"), ("box_min", "9")]).await;
    assert_eq!((summed["inside"].as_u64(), summed["outside"].as_u64()), (Some(1), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn a_label_with_many_values_has_a_bound_of_the_error() {
    let server = server(10_500);
    let (status, found) = ask(&server, &[("query", "latency"), ("box_min", "5")]).await;
    assert_eq!(status, 200, "{found}");
    let pod = found["fields"].as_array().unwrap().iter().find(|field| field["name"] == "pod").unwrap();
    let rest = pod["restInside"].as_u64().unwrap() + pod["restOutside"].as_u64().unwrap();
    assert_eq!((pod["number"].as_u64(), rest), (Some(10_000), 500));
    let bound = pod["restScoreMax"].as_f64().unwrap();
    let share = |side: &str, rest: &str| pod[rest].as_f64().unwrap() / found[side].as_f64().unwrap();
    let expected = share("inside", "restInside").max(share("outside", "restOutside"));
    assert!(bound > 0.0 && (bound - expected).abs() < 1e-5, "{bound} {expected}");
}

/// Bug: times that the query names were those of one instant, not those of the plot.
#[tokio::test(start_paused = true)]
async fn the_times_that_a_query_names_are_those_of_the_plot() {
    let server = server(31);
    // NOW is 40 s after a multiple of the step: the plot begins 3,580 s before it and ends 40 s before it.
    // The box ends 1,900 s before it, when no series is slow yet.
    let until = (NOW - 31 * 60).to_string();
    for (query, least, inside) in [
        // Series 0 and 30 are slow at the end of the plot, also for steps in the box.
        ("latency @ end()", "9", 2),
        ("latency @ start()", "9", 0),
        ("max_over_time(latency[1m] @ end())", "9", 2),
        ("latency * 0 + range()", "3540", 31),
        ("latency * 0 + range()", "3541", 0),
        ("latency * 0 + step()", "60", 31),
        ("latency * 0 + step()", "61", 0),
        ("latency * 0 + (time() - start())", "1680", 31),
        ("latency * 0 + (time() - start())", "1681", 0),
        ("latency * 0 + (end() - time())", "3540", 31),
    ] {
        let asked = [("query", query), ("box_end", &*until), ("box_min", least)];
        let (status, found) = ask(&server, &asked).await;
        assert_eq!((status, found["inside"].as_u64()), (200, Some(inside)), "{query}: {found}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_no_series_and_what_is_wrong_is_refused() {
    let server = server(5);
    for (more, status, text) in [
        (&[("query", "1 + 1")][..], 400, "no series over time"),
        (&[("query", "'text'")], 400, "string"),
        (&[("query", "latency[5m]")], 400, "range vector"),
        (&[("query", "rate(")], 400, "parse"),
        (&[("query", "latency"), ("box_start", "1"), ("box_end", "2")], 400, "outside of the time range"),
        (&[("query", "latency"), ("box_min", "x")], 400, "not a number"),
        (&[("query", "latency"), ("step", "0.1")], 400, "11,000 steps"),
    ] {
        let (found, body) = ask(&server, more).await;
        assert_eq!(found, status, "{more:?}: {body}");
        assert!(body["error"].as_str().unwrap().contains(text), "{more:?}: {body}");
    }
    // The query can be parsed, but not within the selection of its series.
    let deep = format!("{}latency{}", "abs(".repeat(98), ")".repeat(98));
    let (status, body) = ask(&server, &[("query", &deep)]).await;
    assert_eq!(status, 400, "{body}");
    assert!(body["error"].as_str().unwrap().contains("nest less"), "{body}");
    let (status, empty) = ask(&server, &[("query", "absent_metric")]).await;
    assert_eq!(
        (status, empty["inside"].as_u64(), empty["fields"].as_array().unwrap().len()),
        (200, Some(0), 0)
    );
}
