//! Many concurrent queries over more series than fit into memory, a kind of load that has killed store
//! gateways of other systems. They select everything by several matchers, request labels of all series,
//! and group by a label that is unique for each series.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "many-series", about: "many expensive PromQL queries and label calls at once", run };

/// Number of concurrent clients, in the short form and in the full one.
const TOGETHER: (usize, usize) = (4, 32);
/// The queries of the clients.
const QUERIES: &[&str] = &[
    "sum by (id) (churn)",
    "count_values(\"v\", churn)",
    "sort(churn)",
    "topk(1000000, churn)",
    "churn and on (id) churn",
    "churn * on (id) group_left churn",
    "max_over_time(churn[1h:1s])",
    "sum(rate({__name__=~\".+\",id=~\".+\",id!=\"x\",id!~\"y.*\",a=\"\",b=\"\",c!=\"1\",d!~\"2|3\"}[5m]))",
    "label_join(churn, \"j\", \"-\", \"id\", \"id\", \"id\", \"id\")",
    "quantile(0.5, churn) or stddev(churn) or churn",
];

fn run(ground: &Ground<'_>) -> Result<()> {
    let now = ground.env.now_ns() / 1_000_000_000;
    let (start, end) = ((now - 3_600).to_string(), now.to_string());
    std::thread::scope(|scope| {
        for client in 0..ground.pick(TOGETHER.0, TOGETHER.1) {
            let (start, end) = (&start, &end);
            scope.spawn(move || {
                for n in 0..ground.pick(2, QUERIES.len()) {
                    let text = QUERIES[(client + n) % QUERIES.len()];
                    let range = [
                        ("query", text),
                        ("start", start.as_str()),
                        ("end", end),
                        ("step", ground.pick("60", "1")),
                    ];
                    match client % 4 {
                        0 => ground.form("/api/v1/series", &[("match[]", "{__name__=~\".+\"}")]),
                        1 => ground.ask("GET", "/api/v1/label/id/values", &[], b""),
                        2 => ground.form("/api/v1/query", &[("query", text)]),
                        _ => ground.form("/api/v1/query_range", &range),
                    };
                }
            });
        }
    });
    Ok(())
}
