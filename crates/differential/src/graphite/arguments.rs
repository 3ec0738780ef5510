//! Random arguments without series: for each parameter, values that mostly fit.

use sandur_graphite::{Kind, Parameter};

use crate::random::Random;

const AGGREGATIONS: &[&str] = &[
    "average",
    "avg",
    "avg_zero",
    "count",
    "current",
    "diff",
    "last",
    "max",
    "median",
    "min",
    "multiply",
    "range",
    "rangeOf",
    "stddev",
    "sum",
    "total",
    "averageSeries",
    "sumSeries",
    "maxSeries",
];

/// The names that group functions accept; some of these functions accept no single series.
const CALLBACKS: &[&str] = &[
    "sum",
    "average",
    "max",
    "min",
    "count",
    "median",
    "sumSeries",
    "averageSeries",
    "countSeries",
    "diffSeries",
    "maxSeries",
    "minSeries",
    "rangeOfSeries",
    "stddevSeries",
    "multiplySeries",
    "asPercent",
    "last",
    "diff",
];

const INTERVALS: &[&str] =
    &["1min", "5min", "2min", "90s", "10s", "30s", "1h", "7min", "-5min", "10minutes", "1d", "300s", "65s"];

fn quoted(random: &mut Random, text: &str) -> String {
    if random.chance(70) { format!("'{text}'") } else { format!("\"{text}\"") }
}

fn float(random: &mut Random) -> String {
    let fixed =
        ["0", "1", "2", "0.5", "10", "50", "95", "99.9", "-1", "1e3", "100", "0.1", "-0.5", "3", "25"];
    random.pick(&fixed).to_owned()
}

/// Returns an argument without series for a parameter of a function.
pub(super) fn plain(random: &mut Random, function: &str, parameter: &Parameter) -> String {
    let text = |random: &mut Random, from: &[&str]| {
        let value = random.pick(from).to_owned();
        quoted(random, &value)
    };
    match parameter.kind {
        Kind::AggFunc => text(random, AGGREGATIONS),
        Kind::AggOrSeriesFunc => text(random, CALLBACKS),
        Kind::Boolean => random.pick(&["true", "false", "True", "False", "1", "0", "'true'"]).to_owned(),
        Kind::Date => {
            text(random, &["-30min", "-1h", "now", "12:00_20210315", "-90min", "1615806000", "today"])
        }
        Kind::Float | Kind::Any => number(random, parameter.name),
        Kind::Integer => match parameter.name {
            "step" => random.pick(&["60", "10", "300", "7"]).to_owned(),
            "pos" => random.below(5).to_string(),
            "timeShiftStart" | "timeShiftEnd" => random.below(3).to_string(),
            _ => random.pick(&["1", "2", "3", "5", "10", "0", "-1", "-2", "7"]).to_owned(),
        },
        Kind::IntOrInf => random.pick(&["inf", "1", "2", "5", "0", "INF", "100"]).to_owned(),
        Kind::IntOrInterval if random.chance(50) => random.pick(&["1", "2", "3", "5", "10", "7"]).to_owned(),
        Kind::Interval | Kind::IntOrInterval => match parameter.name {
            "bootstrapInterval" => text(random, &["1h", "2h", "30min", "7d"]),
            "seasonality" => text(random, &["30min", "1h", "10min"]),
            _ => text(random, INTERVALS),
        },
        Kind::Node => random.pick(&["0", "1", "2", "3", "-1", "-2", "4"]).to_owned(),
        Kind::NodeOrTag if random.chance(80) => {
            random.pick(&["0", "1", "2", "3", "-1", "-2", "5"]).to_owned()
        }
        Kind::NodeOrTag | Kind::Tag => text(random, &["name", "host", "dc", "none"]),
        Kind::SeriesList | Kind::SeriesLists => "total".to_owned(),
        Kind::Text | Kind::Regex => words(random, function, parameter),
    }
}

fn number(random: &mut Random, name: &str) -> String {
    match name {
        "xFilesFactor" => random.pick(&["0", "0.5", "1", "0.2", "0.9"]).to_owned(),
        "seconds" => random.pick(&["1", "60", "3600"]).to_owned(),
        "factor" if random.chance(30) => random.pick(&["0.001", "-1", "1000000", "1.5"]).to_owned(),
        _ => float(random),
    }
}

/// Returns a text for a parameter with texts.
fn words(random: &mut Random, function: &str, parameter: &Parameter) -> String {
    let from: &[&str] = match (function, parameter.name) {
        ("events", _) => &["deploy", "web", "none"],
        ("seriesByTag", _) => &["name=disk.used", "dc=eu", "host=~web", "dc!=us", "name!=x"],
        ("applyByNode", "templateFunction") => {
            &["sumSeries(%.cpu.*)", "%.cpu.user", "alias(%.requests,'%')", "scale(%.web1.cpu.user,2)"]
        }
        ("applyByNode", _) => &["%.new", "x", "%"],
        (_, "pattern") => &["cpu", "web[12]", "^app", "idle$", "(user|system)", ".*", "^$"],
        (_, "search") => {
            &["cpu", "^.*\\.web(\\d)", "(\\w+)$", "app", "^[^(]*\\((.*)\\)$", "web1", "(a)(p)p", "$"]
        }
        ("useSeriesAbove", "replace") => &["cpu", "web2", "total", "app"],
        (_, "replace") => &["x", "\\1", "host\\1", "", "\\g<1>_", "app.web2", "&"],
        (_, "newName") => &["x", "a b", "é", "%s", "%d items", "%.2f", "a.b.c"],
        (_, "operator") => &["=", "!=", ">", ">=", "<", "<=", "=="],
        (_, "consolidationFunc") => {
            &["average", "avg", "avg_zero", "first", "last", "max", "min", "sum", "median", "diff", "count"]
        }
        (_, "intervalUnit") => &["1h", "10min", "1d", "30min", "5min"],
        (_, "system") => &["si", "binary", ""],
        (_, "units") => &["b", "", "B/s"],
        (_, "alignTo") => &["hours", "minutes", "days", "weeks", "months", "1h", "seconds", "years"],
        (_, "valuesTypes") => &["avg", "max", "min", "last", "total", "si", "binary", "none", "current"],
        (_, "reduceFunction") => &["asPercent", "divideSeries", "diffSeries", "sumSeries", "averageSeries"],
        (_, "reduceMatchers") => &["user", "system", "idle", "web1", "web2", "cpu"],
        (_, "theColor" | "color") => &["red", "#ff0000", "blue", "ff00ff", "black"],
        (_, "label") => &["limit", "a b", ""],
        (_, "stack") => &["__DEFAULT__", "s", ""],
        (_, "tags") => &["name", "host", "dc"],
        _ => &["x", "name", "a.b"],
    };
    let value = random.pick(from).to_owned();
    quoted(random, &value)
}
