//! Requests to the read endpoints other than queries.

use crate::ask::{Ask, Shape, moment, range};
use crate::corpus::{HALF_NS, MIDDLE_NS, SECOND_NS};
use crate::grammar::{Query, log_query, metric_query, spoilt};
use crate::random::Random;

const SELECTORS: &[&str] = &[
    r#"{app="web"}"#,
    r#"{app=~".+"}"#,
    r#"{env="prod"}"#,
    r#"{service_name="shop"}"#,
    r#"{app="api", env="dev"}"#,
    r#"{app="none"}"#,
    r#"{app!="web", env=~"p.*"}"#,
    r#"{app="meta"}"#,
    r#"{cluster="a"}"#,
    r#"{app="ünï"}"#,
];

const WRONG_SELECTORS: &[&str] =
    &["{", "{}", r#"{app=~".*"}"#, "x", r#"{app="web"} |"#, r#"{app="web"} |= "x""#, ""];

/// Returns request number `index` of a seed. Loki reports labels of what it has not flushed yet, and
/// sizes of the rest.
pub fn random_endpoint(seed: u64, index: u64, flushed: bool) -> Ask {
    let mut random = Random::fork(seed ^ 0x00E5_D901, index);
    let random = &mut random;
    let (start, end) = range(random);
    let ranged = |ask: Ask, random: &mut Random| {
        ask.with("start", moment(random, start)).with("end", moment(random, end))
    };
    let selector = if random.chance(8) { random.pick(WRONG_SELECTORS) } else { random.pick(SELECTORS) };
    let mut ask = match random.below(12) {
        0 => selected(ranged(Ask::new("labels", Shape::Set), random), random, selector),
        1..=2 => {
            let name = random.pick(&["app", "env", "cluster", "service_name", "absent", "name_with_quote"]);
            selected(ranged(Ask::new(&format!("label/{name}/values"), Shape::Set), random), random, selector)
        }
        3 => {
            let mut ask = ranged(Ask::new("series", Shape::Set), random).with("match[]", selector);
            if random.chance(30) {
                ask = ask.with("match[]", random.pick(SELECTORS));
            }
            ask
        }
        4 if flushed => queried(ranged(Ask::new("index/stats", Shape::IndexStats), random), selector),
        5..=6 if flushed => {
            let (start, end) = (MIDDLE_NS - HALF_NS - 60 * SECOND_NS, MIDDLE_NS + HALF_NS + 60 * SECOND_NS);
            let ask = Ask::new("index/volume", Shape::Volume).with("start", start).with("end", end);
            volume(ask, random, selector)
        }
        7 if flushed => {
            let ask = ranged(Ask::new("index/volume_range", Shape::Volume), random).with("step", "300");
            volume(ask, random, selector)
        }
        4..=8 if !flushed => {
            queried(ranged(Ask::new("detected_labels", Shape::DetectedLabels), random), selector)
        }
        9 => detected(ranged(Ask::new("detected_fields", Shape::DetectedFields), random), random),
        10 => {
            let name = random.pick(&["level", "status", "method", "trace_id", "user", "absent", "app", "n"]);
            detected(ranged(Ask::new(&format!("detected_field/{name}/values"), Shape::Set), random), random)
        }
        _ => return format_query(random),
    };
    ask.by_post = random.chance(10);
    ask
}

fn queried(ask: Ask, selector: &str) -> Ask {
    ask.with_query(Query::Text(selector.to_owned()))
}

fn selected(ask: Ask, random: &mut Random, selector: &str) -> Ask {
    if random.chance(60) { queried(ask, selector) } else { ask }
}

fn volume(ask: Ask, random: &mut Random, selector: &str) -> Ask {
    let mut ask = queried(ask, selector);
    if random.chance(40) {
        ask = ask.with("targetLabels", random.pick(&["app", "env", "app,env", "absent", "cluster"]));
    }
    if random.chance(40) {
        ask = ask.with("aggregateBy", random.pick(&["series", "labels", "labels", "nothing"]));
    }
    if random.chance(20) {
        ask = ask.with("limit", random.pick(&["1", "2", "5", "0"]));
    }
    ask
}

fn detected(ask: Ask, random: &mut Random) -> Ask {
    let selector = random.pick(&[r#"{app="web"}"#, r#"{app="api"}"#, r#"{app="meta"}"#, r#"{app="none"}"#]);
    let stage = random.pick(&[
        "",
        "",
        " | json",
        " | logfmt",
        " |= \"error\"",
        " | drop level",
        " | json | status=500",
    ]);
    queried(ask.with("line_limit", "2000").with("limit", "1000"), &format!("{selector}{stage}"))
}

fn format_query(random: &mut Random) -> Ask {
    let query = match random.below(10) {
        0..=2 => Query::Text(spoilt(random)),
        3..=5 => Query::Log(log_query(random)),
        _ => Query::Metric(metric_query(random, 3)),
    };
    Ask::new("format_query", Shape::Exact).with_query(query)
}
