//! Rows in memory that share a pool with queries and caches.

use sandur_memory::MemoryPool;

use super::*;

const MIB: u64 = 1 << 20;

/// Goal: while queries hold all that is lent, pushes go on with what rows are guaranteed; afterwards rows
/// borrow, and heads become larger.
#[tokio::test(start_paused = true)]
async fn pushes_go_on_while_queries_hold_all_lent_memory() {
    let env = Env::simulated(44, START_NS);
    let bucket = near_bucket(&env, 44);
    let pool = MemoryPool::new("process", 8 * MIB);
    let (write_budget, queries) =
        (pool.share("write", 2 * MIB, 6 * MIB), pool.share("queries", MIB, 6 * MIB));
    let held = queries.reserve(queries.available()).unwrap();
    let options = EngineOptions {
        write_budget: write_budget.clone(),
        pool: Some(pool.clone()),
        flush_bytes: u64::MAX,
        ..small_options()
    };
    let engine = open_on(&bucket, &env, "node", options).await;
    let line = "x".repeat(100_000);
    let mut rows = Vec::new();
    for n in 0..60 {
        rows.push(push_row(&engine, "a", n, &format!("{n} {line}")).await.unwrap());
        assert!(write_budget.used() <= 2 * MIB);
    }
    drop(held);
    for n in 60..120 {
        rows.push(push_row(&engine, "a", n, &format!("{n} {line}")).await.unwrap());
    }
    assert!(write_budget.peak() > 2 * MIB, "{}", write_budget.peak());
    let all = queries.reserve(MIB).unwrap();
    assert_eq!(read_all(&engine).await, sorted([rows]));
    drop(all);
}
