//! Chains and nestings of every operator, stage and construct, on every endpoint that parses a query.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "chains", about: "queries whose tree is as deep as they are long", run };

/// The largest query in bytes that the API accepts.
const QUERY_MAX: usize = 128 << 10;
/// The short attack uses every n-th form; the tests of the language cover all.
const SHORT_STEP: usize = 101;

fn run(ground: &Ground<'_>) -> Result<()> {
    for (n, form) in sandur_logql::forms().into_iter().enumerate().step_by(ground.pick(SHORT_STEP, 1)) {
        let most = form.fitting(QUERY_MAX);
        for count in ground.pick(vec![most], vec![10, 100, 1_000, 3_000, most / 2, most]) {
            let text = form.query(count.min(most));
            ground.form("/loki/api/v1/query", &[("query", &text)]);
            ground.form("/loki/api/v1/format_query", &[("query", &text)]);
            ground.form("/loki/api/v1/series", &[("match[]", &text)]);
            if count == most && n % ground.pick(12 * SHORT_STEP, 1) == 0 {
                everywhere(ground, &text);
            }
        }
    }
    Ok(())
}

fn everywhere(ground: &Ground<'_>, text: &str) {
    ground.form("/loki/api/v1/query_range", &[("query", text), ("step", "60")]);
    // As much of the query as fits into the head of a request.
    let end = (0..=20_000.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let escaped = sandur_bench::http::escaped(&text[..end]);
    let tail = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];
    let tail = [&tail[..], &[("Sec-WebSocket-Key", "c2FuZHVyLWF0dGFjayAxMg==")]].concat();
    for (path, headers) in [
        ("index/stats", &[][..]),
        ("index/volume", &[]),
        ("index/volume_range", &[]),
        ("patterns", &[]),
        ("detected_fields", &[]),
        ("detected_labels", &[]),
        ("labels", &[]),
        ("tail", &tail),
    ] {
        ground.ask("GET", &format!("/loki/api/v1/{path}?query={escaped}"), headers, b"");
    }
    ground.ask("POST", &format!("/loki/api/v1/delete?query={escaped}&start=1&end=2"), &[], b"");
}
