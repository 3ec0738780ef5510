//! Delete requests with short queries that become large when compiled, and queries that apply them.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "delete-filters", about: "delete requests that are large when they are compiled", run };

/// Returns filters from small to far too large.
fn filters() -> Vec<String> {
    let of = |most: usize| {
        [
            format!("{{job=\"deleted\"}} |~ `(?i)[\\pL\\pN]{{1,{most}}}`"),
            format!("{{job=~`(?i)[\\pL\\pN]{{1,{most}}}`}}"),
            format!("{{job=\"deleted\"}} | regexp `(?P<a>(?i)\\pL{{1,{most}}})` | a=\"x\""),
        ]
    };
    let mut all: Vec<String> = [1, 3, 10, 40].into_iter().flat_map(of).collect();
    all.push(format!("{{job=\"deleted\"}}{}", " |~ `(?i)\\pL{1,9}`".repeat(500)));
    all
}

fn run(ground: &Ground<'_>) -> Result<()> {
    let lines: Vec<String> = (0..100).map(|n| format!("line {n} of what is deleted")).collect();
    ground.store_lines("deleted", &lines);
    let now = ground.env.now_ns() / 1_000_000_000;
    let filters = filters();
    for n in 0..ground.pick(2 * filters.len(), 400) {
        let filter = sandur_bench::http::escaped(&filters[n % filters.len()]);
        let path = format!("/loki/api/v1/delete?query={filter}&start={}&end={}", now - 3_600, now - 1);
        ground.ask("POST", &path, &[], b"");
    }
    let selector = sandur_bench::http::escaped("{__name__=~\"(?i)[\\\\pL\\\\pN]{1,40}\"}");
    ground.ask("POST", &format!("/api/v1/admin/tsdb/delete_series?match[]={selector}"), &[], b"");
    for _ in 0..ground.pick(1, 4) {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| ground.form("/loki/api/v1/query_range", &[("query", "{job=\"deleted\"}")]));
            }
        });
    }
    Ok(())
}
