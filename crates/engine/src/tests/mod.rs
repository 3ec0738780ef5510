//! Complete engines over a directory and over a simulated bucket: acknowledged rows are found exactly
//! once, whatever happens to the process.

mod annotations;
mod bucket;
mod cached;
mod conflicts;
mod corrections;
mod damage;
mod delete_filters;
mod deletes;
mod disks;
mod flushes;
mod freshness;
mod hints;
mod lent_memory;
mod local;
mod long_blocks;
mod lost;
mod merges_in_little_memory;
mod merges_of_filters;
mod mixed_versions;
mod needles_in_little_memory;
mod order;
mod outages;
mod parts;
mod parts_of_queries;
mod peers;
mod placement;
mod refused;
mod retention;
mod retention_seeds;
mod rollups;
mod rollups_of_large_days;
mod rollups_with_tags;
mod round_robin;
mod rule_terms;
mod samples;
mod trips;
mod warm;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::{TenantId, TimeRange};
use sandur_query::{Columns, Needles, Order, QueryContext, ScanItem, Selection};
use sandur_runtime::Env;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Store, StoreOptions};

use crate::fixtures::BatchBuilder;
use crate::{Engine, EngineOptions, Error};

/// A Saturday in November 2026, at a full hour.
const START_NS: i64 = 1_795_226_400 * 1_000_000_000;

type Row = (String, i64, String);

fn small_options() -> EngineOptions {
    EngineOptions { write_budget: MemoryBudget::root("write", 32 << 20), ..EngineOptions::default() }
}

/// For days of paused time: periodic work runs once a minute.
fn unhurried_options() -> EngineOptions {
    let minute = Duration::from_secs(60);
    EngineOptions {
        look_interval: minute,
        poll_interval: minute,
        poll_idle_interval: minute,
        poll_unread_interval: minute,
        heartbeat_interval: minute,
        dead_after: 3 * minute,
        ..small_options()
    }
}

/// A bucket that answers within some milliseconds and never fails.
fn near_bucket(env: &Env, seed: u64) -> FaultStore {
    let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    FaultStore::new(env.clone(), seed, plan)
}

/// Opens an engine over a bucket, with a client of this name.
async fn open_on(bucket: &FaultStore, env: &Env, name: &str, options: EngineOptions) -> Arc<Engine> {
    let client = Arc::new(bucket.client(name));
    let store = Store::from_object_store(client, env.clone(), StoreOptions::default());
    Engine::open(store, env.clone(), options).await.unwrap()
}

fn context(env: &Env) -> QueryContext {
    let budget = MemoryBudget::root("query", 256 << 20);
    QueryContext::new(env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(3_600))
}

/// Every row that a query finds, sorted. A row that is found twice without a suspect mark is returned twice.
async fn read_all(engine: &Arc<Engine>) -> Vec<Row> {
    read_all_with(engine, &context(engine.env())).await
}

/// Every row that any process acknowledged before the call.
async fn read_newest(engine: &Arc<Engine>) -> Vec<Row> {
    let context = context(engine.env());
    context.require_view(Duration::ZERO);
    read_all_with(engine, &context).await
}

/// The warnings of a query over all rows.
async fn warnings_of(engine: &Arc<Engine>) -> Vec<String> {
    let context = context(engine.env());
    read_all_with(engine, &context).await;
    context.warnings()
}

/// Does the same as [`read_all`], and counts in the statistics of `context`.
async fn read_all_with(engine: &Arc<Engine>, context: &QueryContext) -> Vec<Row> {
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::ALL,
        order: Order::OldestFirst,
        needles: Needles::default(),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    };
    let mut scan = engine.sources().logs.scan(context, selection).await.unwrap();
    let (mut rows, mut suspects) = (Vec::new(), BTreeSet::new());
    while let Some(item) = scan.next().await.unwrap() {
        let ScanItem::Page(mut task) = item else { panic!("no counts were requested") };
        let mut page = task.narrow().unwrap();
        if page.runs.is_empty() {
            continue;
        }
        page.lines = Some(task.lines().unwrap());
        for run in &page.runs {
            let app = run.labels.get("app").unwrap();
            for row in run.start as usize..run.end as usize {
                let line = page.lines.as_ref().unwrap().line(row);
                let found = (app.to_owned(), page.timestamps[row], String::from_utf8(line.to_vec()).unwrap());
                let suspect = run.suspect.is_some_and(|s| s.first <= found.1 && found.1 <= s.last);
                if !suspect || suspects.insert(found.clone()) {
                    rows.push(found);
                }
            }
        }
    }
    rows.sort();
    rows
}

/// Pushes one row and returns it once it is acknowledged.
async fn push_row(engine: &Engine, app: &str, number: i64, line: &str) -> Result<Row, Error> {
    let timestamp = START_NS + number * 1_000_000;
    engine.push(BatchBuilder::new().stream(app).row(timestamp, line).build()).await?;
    Ok((app.to_owned(), timestamp, line.to_owned()))
}

async fn push_rows(engine: &Engine, app: &str, numbers: std::ops::Range<i64>) -> Vec<Row> {
    let mut rows = Vec::new();
    for number in numbers {
        rows.push(push_row(engine, app, number, &format!("line {number}")).await.unwrap());
    }
    rows
}

fn sorted(parts: impl IntoIterator<Item = Vec<Row>>) -> Vec<Row> {
    let mut rows: Vec<Row> = parts.into_iter().flatten().collect();
    rows.sort();
    rows
}
