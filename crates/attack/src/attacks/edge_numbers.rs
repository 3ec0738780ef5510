//! Numbers at the limits of their types, in every parameter, literal and template.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "edge-numbers", about: "numbers at the limits of their types in every place", run };

pub(super) const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "-1e308",
    "1e-308",
    "1e999",
    "NaN",
    "Inf",
    "-Inf",
    "0x7fffffffffffffff",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "1.7976931348623157e308",
    "99999999999999999999999999999999",
    "",
    " ",
    "1_000",
    "٣",
];
pub(super) const DURATIONS: &[&str] = &[
    "0s",
    "1ns",
    "292y",
    "9223372036854775807ns",
    "106751d",
    "9999999999999h",
    "1.5h",
    "-5m",
    "1y1y",
    "1e9s",
];
const PARAMETERS: &[&str] = &[
    "start",
    "end",
    "time",
    "step",
    "limit",
    "since",
    "interval",
    "delay_for",
    "line_limit",
    "targetLabels",
    "aggregateBy",
    "shards",
    "max_interval",
];
const PATHS: &[&str] = &[
    "query",
    "query_range",
    "labels",
    "series",
    "index/stats",
    "index/volume",
    "index/volume_range",
    "patterns",
    "detected_fields",
    "detected_labels",
    "tail",
    "delete",
];

fn run(ground: &Ground<'_>) -> Result<()> {
    ground.form("/loki/api/v1/query", &[("query", &template(r#"{{printf "%.70000f" 1.5}}"#))]);
    ground.store_lines("numbers", &["a=1.5 b=-9223372036854775808 c=NaN ü".to_owned()]);
    let escape = sandur_bench::http::escaped;
    let query = escape(r#"{job="a"}"#);
    let metric = escape(r#"rate({job="a"}[5m])"#);
    // The short form uses every seventh input; the seed determines which.
    let (mut n, every) = (ground.seed, ground.pick(7, 1));
    let mut is_due = || {
        n += 1;
        n.is_multiple_of(every)
    };
    for path in PATHS {
        for parameter in PARAMETERS {
            for number in NUMBERS.iter().chain(DURATIONS).filter(|_| is_due()) {
                let value = escape(number);
                let query = if path.starts_with("query") { &metric } else { &query };
                let path = format!("/loki/api/v1/{path}?query={query}&{parameter}={value}");
                ground.ask("GET", &path, &[], b"");
            }
        }
    }
    for text in queries().iter().filter(|_| is_due()) {
        ground.form("/loki/api/v1/query", &[("query", text)]);
        ground.form("/loki/api/v1/query_range", &[("query", text), ("step", "1")]);
    }
    Ok(())
}

fn queries() -> Vec<String> {
    let mut queries = Vec::new();
    for duration in DURATIONS {
        queries.push(format!(r#"rate({{job="a"}}[{duration}])"#));
        queries.push(format!(r#"rate({{job="a"}}[5m] offset {duration})"#));
        queries.push(format!(r#"rate({{job="a"}}[5m] offset -{duration})"#));
        queries.push(format!(r#"{{job="a"}} | a > {duration}"#));
    }
    for number in NUMBERS {
        queries.push(format!(r#"topk({number}, rate({{job="a"}}[5m]))"#));
        queries.push(format!(r#"quantile_over_time({number}, {{job="a"}} | unwrap a [5m])"#));
        queries.push(format!(r#"{{job="a"}} | a > {number}"#));
        queries.push(format!(r#"rate({{job="a"}}[5m]) ^ {number} % {number} / {number}"#));
        queries.push(format!("vector({number}) * {number}"));
        for verb in ["d", "x", "f", "g", "e", "s", "q", "c", "U", "t", "b", "v", "T", "p"] {
            for form in ["%{n}.{n}{v}", "%-0{n}{v}", "%.{n}{v}", "%[{n}]{v}", "%+ #{n}{v}"] {
                let format = form.replace("{n}", number).replace("{v}", verb);
                queries.push(template(&format!(r#"{{{{printf "{format}" 1.5}}}}"#)));
            }
        }
        for call in [
            "trunc N .a",
            "substr N N .a",
            "repeat N .a",
            "alignLeft N .a",
            "alignRight N .a",
            "indent N .a",
            "nindent N .a",
            "div 1 N",
            "mod 1 N",
            "mul N N",
            "add N N",
            "sub N N",
            "round N N",
            "floor N",
            "ceil N",
            "int N",
            "float64 N",
            "unixEpoch (toDate N .a)",
            "duration N",
            "bytes N",
            "max N N",
            "min N N",
            "slice .a N N",
            "index .a N",
            "count N .a",
            "printf \"%*d\" N 1",
            "unixToTime N",
            "divf 1 N",
            "modf 1 N",
        ] {
            queries.push(template(&format!("{{{{{}}}}}", call.replace('N', number))));
        }
    }
    queries
}

fn template(text: &str) -> String {
    format!("{{job=\"numbers\"}} | logfmt | line_format `{text}`")
}
