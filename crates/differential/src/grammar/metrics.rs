//! Metric queries: ranges, vectors, operators.

use super::logs::{label_filter, of_kind};
use super::tree::{Metric, Unwrap};
use super::words::{self, Kind, grouping};
use crate::random::Random;

/// Returns a metric query with at most `depth` levels.
pub fn metric_query(random: &mut Random, depth: usize) -> Metric {
    if depth == 0 {
        return window(random);
    }
    match random.below(20) {
        0..=5 => window(random),
        6..=14 => vector(random, depth),
        15..=17 => binary(random, depth),
        18 => replace(random, depth),
        _ => Metric::Constant(random.pick(CONSTANTS).to_owned()),
    }
}

/// Returns a metric query that is not a plain number, since Loki never answers an aggregation of a
/// number.
fn series_query(random: &mut Random, depth: usize) -> Metric {
    match metric_query(random, depth) {
        Metric::Constant(_) => window(random),
        other => other,
    }
}

const CONSTANTS: &[&str] =
    &["1", "0", "-3.5", "1e3", "vector(1)", "vector(0)", "vector(-2.5)", "0x10", "Inf", "NaN"];

const OF_LINES: &[&str] =
    &["count_over_time", "count_over_time", "rate", "bytes_over_time", "bytes_rate", "absent_over_time"];

const OF_VALUES: &[&str] = &[
    "sum_over_time",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "quantile_over_time",
    "first_over_time",
    "last_over_time",
    "rate",
    "rate_counter",
    "absent_over_time",
];

/// Functions that may have a grouping.
const GROUPED: &[&str] = &[
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "quantile_over_time",
    "first_over_time",
    "last_over_time",
];

fn window(random: &mut Random) -> Metric {
    let (mut log, kind) = of_kind(random);
    if random.chance(60) {
        // otherwise most ranges contain a line with an error, which fails the query
        log.stages.push(random.pick(&["| __error__=\"\"", "| drop __error__, __error_details__"]).to_owned());
    }
    let with_values = random.chance(45);
    let function = random.pick(if with_values { OF_VALUES } else { OF_LINES }).to_owned();
    let unwrap = with_values.then(|| unwrap(random, kind));
    let parameter = (function == "quantile_over_time")
        .then(|| random.pick(&["0.5", "0.99", "0", "1", "0.25", "1.5", "-1"]).to_owned());
    let mut range = random
        .pick(&["[1m]", "[5m]", "[5m]", "[30s]", "[10m]", "[1h]", "[7s]", "[90s]", "[1m30s]"])
        .to_owned();
    if random.chance(8) {
        range += random.pick(&[" offset 5m", " offset 1m", " offset -2m", " offset 30s", " offset 1h"]);
    }
    let may_group = GROUPED.contains(&function.as_str());
    let grouping = (may_group && random.chance(45)).then(|| grouping(random));
    Metric::Window { function, parameter, log, unwrap, range, early_range: random.chance(8), grouping }
}

fn unwrap(random: &mut Random, kind: Kind) -> Unwrap {
    let fitting: &[&str] = match kind {
        Kind::Json => &["latency_ms", "n", "status", "duration(dur)", "duration_seconds(dur)", "bytes(size)"],
        Kind::Counter => &["total", "gauge", "odd", "value", "duration(took)", "n"],
        Kind::Access => &["status", "bytes", "bytes(bytes)"],
        Kind::Metadata => &["took", "duration(took)", "trace_id", "http_status"],
        _ => &["latency", "status", "duration(duration)", "duration_seconds(duration)", "bytes(bytes)", "n"],
    };
    let what = if random.chance(85) { random.pick(fitting) } else { random.pick(words::NUMERIC) };
    let mut filters = Vec::new();
    if random.chance(70) {
        filters.push("__error__=\"\"".to_owned());
    }
    if random.chance(10) {
        filters.push(label_filter(random, 1));
    }
    Unwrap { what: what.to_owned(), filters }
}

fn vector(random: &mut Random, depth: usize) -> Metric {
    let function = random.pick(&[
        "sum",
        "sum",
        "sum",
        "avg",
        "count",
        "max",
        "min",
        "stddev",
        "stdvar",
        "topk",
        "bottomk",
        "approx_topk",
        "sort",
        "sort_desc",
    ]);
    let inner = Box::new(series_query(random, depth - 1));
    let parameter = matches!(function, "topk" | "bottomk" | "approx_topk")
        .then(|| random.pick(&["1", "2", "3", "10", "100"]).to_owned());
    let may_group = !matches!(function, "sort" | "sort_desc" | "approx_topk");
    let grouping = (may_group && random.chance(70)).then(|| grouping(random));
    Metric::Vector {
        function: function.to_owned(),
        parameter,
        inner,
        grouping,
        early_grouping: random.chance(60),
    }
}

fn binary(random: &mut Random, depth: usize) -> Metric {
    let left = metric_query(random, depth - 1);
    // users most often divide by the same vector
    let right = match random.below(10) {
        0..=3 => Metric::Constant(random.pick(CONSTANTS).to_owned()),
        4..=6 => left.clone(),
        _ => metric_query(random, depth - 1),
    };
    let symbol =
        random.pick(&["+", "-", "*", "/", "%", "^", "==", "!=", ">", ">=", "<", "<=", "and", "or", "unless"]);
    let mut operator = symbol.to_owned();
    let compares = matches!(symbol, "==" | "!=" | ">" | ">=" | "<" | "<=");
    if compares && random.chance(40) {
        operator += " bool";
    }
    let constant = matches!(left, Metric::Constant(_)) || matches!(right, Metric::Constant(_));
    if !constant && random.chance(35) {
        let word = random.pick(&["on", "ignoring"]);
        operator += &format!(" {word}({})", random.pick(&["app", "level", "app, env", "", "detected_level"]));
        if !matches!(symbol, "and" | "or" | "unless") && random.chance(35) {
            operator += random.pick(&[
                " group_left",
                " group_right",
                " group_left(env)",
                " group_right(level)",
                " group_left()",
            ]);
        }
    }
    let (left, right) = if random.chance(15) { (right, left) } else { (left, right) };
    Metric::Binary { left: Box::new(left), operator, right: Box::new(right), parentheses: random.chance(60) }
}

fn replace(random: &mut Random, depth: usize) -> Metric {
    let arguments = random.pick(&[
        r#""new", "$1", "app", "(.*)""#,
        r#""new", "x-$1-$2", "level", "(.)(.*)""#,
        r#""app", "", "app", ".*""#,
        r#""new", "fixed", "absent", """#,
        r#""level", "$1", "app", "(we.)""#,
        r#""new", "${name}", "app", "(?P<name>.+)""#,
    ]);
    Metric::Replace { inner: Box::new(series_query(random, depth - 1)), arguments: arguments.to_owned() }
}
