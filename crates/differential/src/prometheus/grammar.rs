//! Random expressions: mostly valid ones of every form of the language, and some invalid ones.
//!
//! Functions come from the language's own table, so that none is missing.

use sandur_promql::{FUNCTIONS, Function};

use super::expression::{Expression, Kind, Part};
use super::series::{BEGIN_MS, BOUNDS, LENGTH_MS};
use crate::random::Random;

/// Builds an expression from texts and other expressions.
macro_rules! expression {
    ($kind:expr; $($part:expr),* $(,)?) => {
        Expression { kind: $kind, parts: vec![$($part.into()),*] }
    };
}

impl From<&str> for Part {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Expression> for Part {
    fn from(inner: Expression) -> Self {
        Self::Inner(inner)
    }
}

const METRICS: [&str; 22] = [
    "requests_total",
    "requests_total",
    "errors_total",
    "temperature",
    "temperature",
    "weird",
    "sparse",
    "up",
    "build_info",
    "latency_seconds_bucket",
    "latency_seconds_count",
    "latency_seconds_sum",
    "native_seconds",
    "native_float",
    "native_gauge",
    "nan_seconds",
    "custom_seconds",
    "custom_around_zero",
    "typed_bytes",
    "typed_total",
    "mixed",
    "absent_metric",
];

const LABELS: [&str; 14] = [
    "job",
    "job",
    "job",
    "instance",
    "instance",
    "instance",
    "code",
    "room",
    "le",
    "pod",
    "version",
    "absent",
    "dotted.label",
    "__type__",
];

const DURATIONS: [&str; 14] =
    ["15s", "30s", "1m", "1m30s", "2m", "5m", "5m", "7m", "10m", "10m", "15m", "30m", "1h", "500ms"];

const NUMBERS: [&str; 22] = [
    "0", "1", "2", "-1", "0.5", "0.9", "0.99", "1.5", "10", "100", "1e3", "-0.1", "NaN", "Inf", "-Inf", "3",
    "0x1F", "5m", "1e-3", "4", "7", "60",
];

/// Returns a random expression as a tree.
pub fn random_expression(random: &mut Random, is_range: bool) -> Expression {
    let depth = random.between(0, 3);
    match random.below(20) {
        0 => scalar(random, depth),
        // A range query cannot return range vectors.
        1 if !is_range || random.chance(5) => matrix(random, depth),
        _ => vector(random, depth),
    }
}

/// Returns the text of an expression with an error in it.
pub fn spoilt(random: &mut Random) -> Expression {
    let text = random_expression(random, true).to_string();
    let chars: Vec<char> = text.chars().collect();
    let at = random.below(chars.len());
    let end = (at + 1 + random.below(4)).min(chars.len());
    let wrong = match random.below(4) {
        0 => "",
        1 => random.pick(&[")", "(", "}", "{", "]", "[", "'", "\"", ",", "@", "=", "!"]),
        2 => random.pick(&["by", "on", "offset", "bool", "sum", "NaN", "5m", "ignoring", "start()", "-"]),
        _ => random.pick(&["$", "#", "\\", "ä", "0x", "1e", "`", "==", "=~", "  ", "\n"]),
    };
    let spoilt: String = chars[..at].iter().chain(&wrong.chars().collect::<Vec<_>>()).collect();
    Expression::text(Kind::Vector, spoilt + &chars[end..].iter().collect::<String>())
}

/// Returns an expression of this kind, rarely one of another kind.
fn of_kind(random: &mut Random, kind: Kind, depth: i64) -> Expression {
    let kind = match random.below(200) {
        0 => Kind::Scalar,
        1 => Kind::Vector,
        2 => Kind::Matrix,
        _ => kind,
    };
    match kind {
        Kind::Scalar => scalar(random, depth),
        Kind::Vector => vector(random, depth),
        Kind::Matrix => matrix(random, depth),
        Kind::Text => Expression::text(Kind::Text, format!("\"{}\"", random.pick(&LABELS))),
    }
}

fn scalar(random: &mut Random, depth: i64) -> Expression {
    let number = random.pick(&NUMBERS);
    if depth <= 0 || random.chance(50) {
        return Expression::text(Kind::Scalar, number);
    }
    match random.below(6) {
        0 => Expression::text(
            Kind::Scalar,
            random.pick(&["time()", "pi()", "start()", "end()", "step()", "range()"]),
        ),
        1 => expression!(Kind::Scalar; "scalar(", of_kind(random, Kind::Vector, depth - 1), ")"),
        2 => expression!(Kind::Scalar; "-", scalar(random, depth - 1)),
        3 => {
            let name = random.pick(&["max_of(", "min_of("]);
            expression!(Kind::Scalar; name, scalar(random, depth - 1), ", ", scalar(random, depth - 1), ")")
        }
        _ => {
            let comparison = random.chance(20);
            let operator = match comparison {
                true => format!(" {} bool ", random.pick(&["==", "!=", "<", ">", "<=", ">="])),
                false => format!(" {} ", random.pick(&["+", "-", "*", "/", "%", "^", "atan2"])),
            };
            let (left, right) = (scalar(random, depth - 1), scalar(random, depth - 1));
            expression!(Kind::Scalar; "(", left, operator, right, ")")
        }
    }
}

fn matcher(random: &mut Random) -> String {
    let label = random.pick(&LABELS);
    let (operator, value) = match random.below(24) {
        0 => ("=", ""),
        1 => ("!=", ""),
        2 => ("=~", ".+"),
        3 => ("=~", "a:1|b:1|1.*|4..|api|web"),
        4..=6 => ("!~", "a:.*|p1"),
        7..=8 => ("=~", ".*"),
        9..=12 => ("!=", random.pick(&["api", "a:1", "200", "north", "+Inf", "p2"])),
        13 => return format!("le=\"{}\"", random.pick(&BOUNDS)),
        _ => {
            return random
                .pick(&["job=\"api\"", "job=\"db\"", "job=\"web\"", "instance=\"a:1\"", "code=\"200\""])
                .to_owned();
        }
    };
    format!("{label}{operator}\"{value}\"")
}

/// Returns a selector without range and offset.
fn selector(random: &mut Random) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    match random.below(40) {
        0 => parts.push(r#"{"dotted.name", "dotted.label"=~".*b"}"#.into()),
        1 => parts.push(r#"{__name__=~".*_of_two"}"#.into()),
        2 => parts.push(r#"{__name__=~"requests_total|temperature", job="api"}"#.into()),
        3 => parts.push(r#"{__name__="up"}"#.into()),
        4 => parts.push(r#"dotted.name{dotted.label=~".*b"}"#.into()),
        5 => parts.push(r#"{__name__=~"mixed|native_.*|temperature"}"#.into()),
        6 => parts.push(r#"{__name__=~"typed_.*"}"#.into()),
        _ => {
            parts.push(random.pick(&METRICS).into());
            if random.chance(40) {
                let matchers: Vec<String> =
                    (0..1 + i64::from(random.chance(20))).map(|_| matcher(random)).collect();
                parts.push(Part::Optional(format!("{{{}}}", matchers.join(","))));
            }
        }
    }
    parts
}

/// Appends `offset` and `@`.
fn moved(random: &mut Random, parts: &mut Vec<Part>) {
    let at = |random: &mut Random| match random.below(4) {
        0 => " @ start()".to_owned(),
        1 => " @ end()".to_owned(),
        _ => format!(" @ {:.3}", (BEGIN_MS + random.between(0, LENGTH_MS)) as f64 / 1000.0),
    };
    let offset = |random: &mut Random| match random.below(6) {
        0 => " offset -3m".to_owned(),
        1 => random
            .pick(&[" offset (2m + 30s)", " offset -min_of(step(), 2m)", " offset (range() / 7)"])
            .into(),
        2 => " offset step()".to_owned(),
        _ => format!(" offset {}", random.pick(&DURATIONS)),
    };
    match random.below(24) {
        0 => parts.push(Part::Optional(at(random))),
        1 => parts.push(Part::Optional(offset(random))),
        2 => {
            parts.push(Part::Optional(at(random)));
            parts.push(Part::Optional(offset(random)));
        }
        _ => {}
    }
}

fn window(random: &mut Random) -> String {
    match random.below(30) {
        0 => "[2m * 3]".to_owned(),
        1 => "[step() + 1m]".to_owned(),
        2 => "[max_of(step(), 3m)]".to_owned(),
        // Some are invalid at some steps.
        3 => random
            .pick(&["[step() - 30s]", "[5m % step()]", "[range() / 3]", "[-max_of(1m, step())]"])
            .to_owned(),
        _ => format!("[{}]", random.pick(&DURATIONS)),
    }
}

fn matrix(random: &mut Random, depth: i64) -> Expression {
    if depth > 0 && random.chance(25) {
        let step = random.pick(&["", "15s", "1m", "37s", "5m", "step()"]);
        let range = random.pick(&["5m", "10m", "20m", "1h", "90s"]);
        let inner = vector(random, depth - 1);
        let mut made = expression!(Kind::Matrix; "(", inner, ")", format!("[{range}:{step}]"));
        moved(random, &mut made.parts);
        return made;
    }
    let mut parts = selector(random);
    parts.push(window(random).into());
    if random.chance(8) {
        parts.push(Part::Optional(random.pick(&[" anchored", " smoothed"]).to_owned()));
    }
    moved(random, &mut parts);
    Expression { kind: Kind::Matrix, parts }
}

fn vector(random: &mut Random, depth: i64) -> Expression {
    if depth <= 0 {
        let mut parts = selector(random);
        moved(random, &mut parts);
        return Expression { kind: Kind::Vector, parts };
    }
    match random.below(100) {
        0..=7 => vector(random, 0),
        8..=10 => expression!(Kind::Vector; random.pick(&["-", "+"]), "(", vector(random, depth - 1), ")"),
        11..=50 => call(random, depth),
        51..=72 => aggregation(random, depth),
        73..=98 => binary(random, depth),
        _ => expression!(Kind::Vector; "(", vector(random, depth - 1), ")"),
    }
}

fn call(random: &mut Random, depth: i64) -> Expression {
    if random.chance(25) {
        let name = random.pick(&[
            "rate",
            "increase",
            "delta",
            "sum_over_time",
            "integral",
            "histogram_quantile",
            "histogram_fraction",
        ]);
        let function = Function::named(name).expect("a function of the language");
        return called(random, function, depth);
    }
    let of_vectors: Vec<&Function> = FUNCTIONS.iter().filter(|f| f.returns.name() == "vector").collect();
    let function = of_vectors[random.below(of_vectors.len())];
    called(random, function, depth)
}

fn called(random: &mut Random, function: &Function, depth: i64) -> Expression {
    match function.name {
        "label_replace" => return label_replace(random, depth),
        "label_join" => {
            let inner = vector(random, depth - 1);
            let labels = format!(
                ", \"{}\", \"{}\", \"{}\", \"{}\")",
                random.pick(&["joined", "job", "__name__", "pod"]),
                random.pick(&["-", "", "ä"]),
                random.pick(&LABELS),
                random.pick(&LABELS)
            );
            return expression!(Kind::Vector; "label_join(", inner, labels);
        }
        "histogram_quantiles" => {
            let inner = histograms(random, depth - 1);
            let label = format!(", \"{}\", ", random.pick(&["q", "le", "job"]));
            let (first, second) = (scalar(random, 0), scalar(random, 0));
            return expression!(Kind::Vector; "histogram_quantiles(", inner, label, first, ", ", second, ")");
        }
        "info" => {
            let inner = vector(random, depth - 1);
            let selector = random.pick(&[
                ")",
                ", {region=~\".+\"})",
                ", {__name__=\"build_info\"})",
                ", {__name__=~\".+_info\", version=~\"1.*\"})",
                ", {zone!=\"\"})",
            ]);
            return expression!(Kind::Vector; "info(", inner, selector);
        }
        // Other factors than those between 0 and 1 are errors.
        "double_exponential_smoothing" if random.chance(80) => {
            let (level, trend) = (random.pick(&["0.1", "0.5", "0.9"]), random.pick(&["0.2", "0.5", "0.99"]));
            let inner = matrix(random, depth - 1);
            let factors = format!(", {level}, {trend})");
            return expression!(Kind::Vector; "double_exponential_smoothing(", inner, factors);
        }
        "sort_by_label" | "sort_by_label_desc" => {
            let inner = vector(random, depth - 1);
            let labels = format!(", \"{}\", \"{}\")", random.pick(&LABELS), random.pick(&LABELS));
            return expression!(Kind::Vector; format!("{}(", function.name), inner, labels);
        }
        _ => {}
    }
    plain_call(random, function, depth)
}

/// Returns a call whose arguments have the types of the parameters.
fn plain_call(random: &mut Random, function: &Function, depth: i64) -> Expression {
    let mut count = function.args.len();
    if function.variadic != 0 && random.chance(30) {
        count -= 1;
    }
    if random.chance(1) {
        count += 1;
    }
    let mut parts: Vec<Part> = vec![format!("{}(", function.name).into()];
    for n in 0..count {
        if n > 0 {
            parts.push(", ".into());
        }
        let kind = match function.args[n.min(function.args.len().saturating_sub(1))].name() {
            "scalar" => Kind::Scalar,
            "matrix" => Kind::Matrix,
            "string" => Kind::Text,
            _ => Kind::Vector,
        };
        let depth = if kind == Kind::Scalar { (depth - 2).max(0) } else { depth - 1 };
        parts.push(match kind {
            Kind::Vector if function.name.starts_with("histogram_") => histograms(random, depth).into(),
            _ => of_kind(random, kind, depth).into(),
        });
    }
    parts.push(")".into());
    Expression { kind: Kind::Vector, parts }
}

/// Returns a vector that often has histograms.
fn histograms(random: &mut Random, depth: i64) -> Expression {
    if random.chance(40) {
        return of_kind(random, Kind::Vector, depth);
    }
    let metric = random.pick(&[
        "native_seconds",
        "native_float",
        "native_gauge",
        "nan_seconds",
        "custom_seconds",
        "custom_around_zero",
        "mixed",
        "latency_seconds_bucket",
    ]);
    let window = window(random);
    Expression::text(
        Kind::Vector,
        match random.below(4) {
            0 => metric.to_owned(),
            1 => format!("rate({metric}{window})"),
            2 => format!("sum by (le, job) ({metric})"),
            _ => format!("avg_over_time({metric}{window})"),
        },
    )
}

fn label_replace(random: &mut Random, depth: i64) -> Expression {
    let inner = vector(random, depth - 1);
    let (regex, with) = [
        ("(.*)", "$1"),
        ("(.).*", "x$1"),
        ("", ""),
        ("a(.+)", "${1}y"),
        ("(?P<n>.+):1", "$n"),
        (".*", ""),
        ("(", "$1"),
        ("(.*)", "$2"),
    ][random.below(8)];
    let labels = format!(
        ", \"{}\", \"{with}\", \"{}\", \"{regex}\")",
        random.pick(&["new", "job", "instance", "__name__", "bad-label", "pod"]),
        random.pick(&LABELS)
    );
    expression!(Kind::Vector; "label_replace(", inner, labels)
}

fn grouping(random: &mut Random) -> Option<String> {
    let labels = |random: &mut Random| {
        let count = random.between(0, 2);
        let names: Vec<&str> =
            (0..count).map(|_| *[LABELS[random.below(LABELS.len())]].first().unwrap_or(&"job")).collect();
        names.join(", ")
    };
    match random.below(10) {
        0..=4 => Some(format!(" by ({}) ", labels(random))),
        5..=6 => Some(format!(" without ({}) ", labels(random))),
        _ => None,
    }
}

/// The aggregations of generated queries; `sum` is drawn twice as often as others.
pub const AGGREGATIONS: [&str; 15] = [
    "sum",
    "sum",
    "avg",
    "count",
    "min",
    "max",
    "group",
    "stddev",
    "stdvar",
    "topk",
    "bottomk",
    "quantile",
    "count_values",
    "limitk",
    "limit_ratio",
];

fn aggregation(random: &mut Random, depth: i64) -> Expression {
    let name = random.pick(&AGGREGATIONS);
    let mut parts: Vec<Part> = vec![name.into()];
    parts.extend(grouping(random).map(Part::Optional));
    parts.push("(".into());
    match name {
        "topk" | "bottomk" | "limitk" => {
            parts.push(random.pick(&["1", "2", "3", "5", "0", "-1", "1.5", "NaN", "1e20"]).into());
            parts.push(", ".into());
        }
        "quantile" => {
            parts.push(scalar(random, 0).into());
            parts.push(", ".into());
        }
        "limit_ratio" => {
            parts.push(random.pick(&["0.5", "-0.5", "0.1", "1", "-1", "0", "2", "NaN"]).into());
            parts.push(", ".into());
        }
        "count_values" => parts.push(random.pick(&["\"value\", ", "\"job\", ", "\"bad label\", "]).into()),
        _ => {}
    }
    parts.push(of_kind(random, Kind::Vector, depth - 1).into());
    parts.push(")".into());
    Expression { kind: Kind::Vector, parts }
}

fn matching(random: &mut Random, is_set: bool) -> String {
    let on = random.pick(&[
        "on(job)",
        "on(job, instance)",
        "on(instance, job, pod)",
        "on()",
        "ignoring(code)",
        "ignoring(code, room, pod)",
        "ignoring(le)",
        "ignoring(absent)",
    ]);
    if is_set {
        return format!("{on} ");
    }
    let group = random.pick(&[
        "",
        "",
        "",
        "group_left ",
        "group_right ",
        "group_left(version) ",
        "group_right(code) ",
        "group_left(job) ",
    ]);
    let fill = random.pick(&[
        "",
        "",
        "",
        "",
        "",
        "",
        "fill(0) ",
        "fill(NaN) ",
        "fill_left(1) ",
        "fill_right(-2) ",
        "fill_left(5) fill_right(7) ",
        "fill_right(3) fill_left(0.5) ",
    ]);
    format!("{on} {group}{fill}")
}

fn binary(random: &mut Random, depth: i64) -> Expression {
    let left = of_kind(random, Kind::Vector, depth - 1);
    match random.below(10) {
        0..=1 => {
            let mut parts: Vec<Part> = vec!["(".into(), left.into()];
            parts.push(format!(") {} ", random.pick(&["and", "or", "unless"])).into());
            if random.chance(60) {
                parts.push(Part::Optional(matching(random, true)));
            }
            parts.extend(["(".into(), of_kind(random, Kind::Vector, depth - 1).into(), ")".into()]);
            return Expression { kind: Kind::Vector, parts };
        }
        2..=5 => {
            let operator = operator(random);
            let right = scalar(random, (depth - 2).max(0));
            return match random.chance(60) {
                true => expression!(Kind::Vector; "(", left, ")", operator, right),
                false => expression!(Kind::Vector; right, operator, "(", left, ")"),
            };
        }
        _ => {}
    }
    let mut parts: Vec<Part> = vec!["(".into(), left.clone().into(), ")".into(), operator(random).into()];
    if random.chance(60) {
        parts.push(Part::Optional(matching(random, false)));
    }
    let right = if random.chance(25) { left } else { of_kind(random, Kind::Vector, depth - 1) };
    parts.extend(["(".into(), right.into(), ")".into()]);
    Expression { kind: Kind::Vector, parts }
}

fn operator(random: &mut Random) -> String {
    match random.below(10) {
        0..=5 => format!(" {} ", random.pick(&["+", "-", "*", "/", "%", "^", "atan2", "+", "-", "/"])),
        6..=7 => format!(" {} ", random.pick(&["==", "!=", "<", ">", "<=", ">="])),
        8 => format!(" {} bool ", random.pick(&["==", "!=", "<", ">", "<=", ">="])),
        _ => format!(" {} ", random.pick(&["</", ">/"])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_expressions_are_valid_and_every_function_occurs() {
        let mut missing: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
        let mut other =
            vec!["fill_left(5) fill_right(7)", "dotted.name{", "nan_seconds", "typed_", "[step() - "];
        let mut read = 0;
        for index in 0..4000 {
            let text = random_expression(&mut Random::fork(1, index), index % 2 == 0).to_string();
            read += usize::from(sandur_promql::parse(&text).is_ok());
            missing.retain(|name| !text.contains(&format!("{name}(")));
            other.retain(|piece| !text.contains(piece));
        }
        assert!(read > 3200, "{read} of 4000");
        assert_eq!((missing, other), (Vec::new(), Vec::new()));
    }
}
