//! PromQL: chains and nestings of every form of its tables, numbers at the limits of their types, and
//! steps and windows with more points than memory can hold.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "promql-chains", about: "PromQL whose cost grows with its length, steps or numbers", run };

/// The largest query in bytes that the API accepts.
const QUERY_MAX: usize = 128 << 10;
/// The short attack uses every n-th form and number; the tests of the language cover all.
const SHORT_STEP: usize = 101;

const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1e308",
    "-1e308",
    "NaN",
    "Inf",
    "-Inf",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "0x7fffffffffffffff",
    "1e-308",
    "99999999999999999999999999999999",
];
const DURATIONS: &[&str] =
    &["0s", "1ms", "292y", "9223372036854775807ms", "106751d", "9999999999999h", "1y1y", "-5m"];
const PATHS: &[&str] = &["query", "format_query", "parse_query"];

fn run(ground: &Ground<'_>) -> Result<()> {
    for form in sandur_promql::forms().iter().step_by(ground.pick(SHORT_STEP, 1)) {
        let once = form.query(1).len();
        let piece = form.query(2).len().saturating_sub(once).max(1);
        let most = QUERY_MAX / piece;
        for count in ground.pick(vec![most], vec![10, 100, 1_000, 3_000, most / 2, most]) {
            let text = form.query(count.min(most));
            for path in PATHS {
                ground.form(&format!("/api/v1/{path}"), &[("query", &text)]);
            }
            ground.form("/api/v1/series", &[("match[]", &text)]);
            ground.form(
                "/api/v1/query_range",
                &[("query", &text), ("start", "1"), ("end", "9"), ("step", "1")],
            );
        }
    }
    edge_numbers(ground);
    Ok(())
}

fn edge_numbers(ground: &Ground<'_>) {
    let numbers = NUMBERS.iter().chain(DURATIONS);
    for (n, number) in numbers.enumerate().filter(|(n, _)| n % ground.pick(3, 1) == 0) {
        for parameter in ["time", "start", "end", "step", "timeout", "limit", "lookback_delta"] {
            let mut range = vec![("query", "up"), ("start", "0"), ("end", "100"), ("step", "1")];
            range.retain(|(name, _)| *name != parameter);
            range.push((parameter, number));
            ground.form("/api/v1/query_range", &range);
            ground.form("/api/v1/query", &[("query", "up"), (parameter, number)]);
        }
        let instant = [
            format!("topk({number}, up)"),
            format!("quantile({number}, up)"),
            format!("limit_ratio({number}, up)"),
            format!("histogram_quantile({number}, up)"),
            format!("predict_linear(up[5m], {number})"),
            format!("up[{number}]"),
            format!("up offset {number}"),
            format!("up @ {number}"),
            format!("max_over_time(up[{number}:{number}])"),
            format!("clamp(up, {number}, -({number}))"),
            format!("round(up, {number})"),
            format!("vector({number}) ^ {number} % {number} / {number}"),
            format!("label_replace(up, \"a\", \"$1\", \"b\", \"(.{{{n}00}}){{{n}00}}\")"),
        ];
        for text in &instant {
            ground.form("/api/v1/query", &[("query", text)]);
        }
    }
    for text in ["max_over_time(up[100y:1ms])", "max_over_time(max_over_time(up[1y:1s])[1y:1s])", "up[100y]"]
    {
        ground.form("/api/v1/query", &[("query", text)]);
        ground
            .form("/api/v1/query_range", &[("query", text), ("start", "0"), ("end", "10999"), ("step", "1")]);
    }
}
