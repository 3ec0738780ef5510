//! Goal: rows of one stream that clients send to several processes in turn cost queries little. Blocks whose
//! rows differ are counted from their footers, although their times overlap, and each row that a client
//! repeated at another process counts once.
//!
//! Method: processes over one simulated bucket, and comparison with the rows that were pushed.

use std::collections::BTreeMap;

use sandur_model::{MINUTE_NS, Matcher};

use super::*;
use crate::MaintenanceOptions;
use crate::fixtures::app_is;

const PROCESSES: usize = 3;

/// Stream, timestamp, line and the value of a metadata key.
type Whole = (&'static str, i64, String, &'static str);

const STREAMS: [&str; 3] = ["a", "b", "c"];
const VALUES: [&str; 2] = ["x", "y"];

/// Engines that flush only when a test does, and never merge.
fn options() -> EngineOptions {
    let mut maintenance = MaintenanceOptions::default();
    maintenance.compaction.block_raw_bytes_max = 0;
    EngineOptions { maintenance, ..small_options() }
}

async fn start(bucket: &FaultStore, env: &Env) -> Vec<Arc<Engine>> {
    let mut engines = Vec::new();
    for n in 0..PROCESSES {
        engines.push(open_on(bucket, env, &format!("p{n}"), options()).await);
    }
    engines
}

async fn push(engine: &Engine, rows: &[Whole]) {
    let mut batch = BatchBuilder::new();
    for (stream, timestamp, line, value) in rows {
        batch = batch.stream(stream).row_with(*timestamp, line, &[("k", *value)]);
    }
    engine.push(batch.build()).await.unwrap();
}

/// What a query found.
#[derive(Debug, Default)]
struct Answer {
    /// Number of rows that were counted from footers.
    counted: u64,
    /// Number of rows that were read, without repetitions of suspect ones.
    read: u64,
    /// Number of rows that were compared.
    suspect: u64,
}

impl Answer {
    fn rows(&self) -> u64 {
        self.counted + self.read
    }
}

/// Counts the rows of the hour around the start, with counts of footers if they are allowed.
async fn count(engine: &Arc<Engine>, budget: u64, counts: bool) -> Result<Answer, sandur_query::Error> {
    count_of(engine, Vec::new(), budget, counts).await
}

/// Does the same for streams that match.
async fn count_of(
    engine: &Arc<Engine>,
    matchers: Vec<Matcher>,
    budget: u64,
    counts: bool,
) -> Result<Answer, sandur_query::Error> {
    let env = engine.env().clone();
    let budget = MemoryBudget::root("query", budget);
    let context = QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(3_600));
    context.require_view(Duration::ZERO);
    let selection = Selection {
        matchers,
        range: TimeRange::new(START_NS + 1 - 60 * MINUTE_NS, START_NS + 1 + 60 * MINUTE_NS),
        order: Order::Any,
        needles: Needles::default(),
        columns: Columns { lines: false, metadata: false },
        counts,
        counts_by: Vec::new(),
    };
    let mut scan = engine.sources().logs.scan(&context, selection).await?;
    let (mut answer, mut seen) = (Answer::default(), BTreeSet::new());
    while let Some(item) = scan.next().await? {
        match item {
            ScanItem::Counts(task) => {
                let counts = task.decode().unwrap();
                let minutes = counts.iter().flat_map(|stream| stream.minutes());
                answer.counted += minutes.map(|minute| u64::from(minute.lines)).sum::<u64>();
            }
            ScanItem::Page(mut task) => {
                let page = task.narrow().unwrap();
                let is_any_suspect = page.runs.iter().any(|run| run.suspect.is_some());
                let lines = if is_any_suspect { Some(task.lines().unwrap()) } else { None };
                for run in &page.runs {
                    for row in run.start as usize..run.end as usize {
                        let at = page.timestamps[row];
                        let is_suspect = run.suspect.is_some_and(|s| s.first <= at && at <= s.last);
                        answer.suspect += u64::from(is_suspect);
                        let whole = || {
                            let line = lines.as_ref().unwrap().line(row).to_vec();
                            let metadata: Vec<_> = page.metadata_of(row).map(|(_, v)| v.to_owned()).collect();
                            (run.labels.stream_id(), at, line, metadata)
                        };
                        answer.read += u64::from(!is_suspect || seen.insert(whole()));
                    }
                }
            }
        }
    }
    assert_eq!(context.warnings(), Vec::<String>::new());
    Ok(answer)
}

const ENOUGH: u64 = 64 << 20;

#[tokio::test(start_paused = true)]
async fn blocks_of_several_processes_are_counted_from_their_footers() {
    let env = Env::simulated(1, START_NS);
    let bucket = near_bucket(&env, 1);
    let engines = start(&bucket, &env).await;
    for n in 0..300i64 {
        // Three rows of each stream have one timestamp, each at another process.
        let at = START_NS + n / 3 * 1_000_000;
        let rows = STREAMS.map(|stream| (stream, at, format!("line {n}"), "x"));
        push(&engines[n as usize % PROCESSES], &rows).await;
    }
    let in_heads = count(&engines[0], ENOUGH, true).await.unwrap();
    assert_eq!((in_heads.counted, in_heads.read), (0, 900), "rows in memory have no counts");
    for engine in &engines {
        engine.flush().await.unwrap();
    }
    let first = count(&engines[0], ENOUGH, true).await.unwrap();
    assert_eq!((first.counted, first.read), (900, 0));
    // Rows in memory that meet the last second of the blocks.
    let late = START_NS + 99 * 1_000_000;
    push(&engines[1], &[("a", late, "late".to_owned(), "x"), ("a", late + 1, "later".to_owned(), "x")]).await;
    let second = count(&engines[0], ENOUGH, true).await.unwrap();
    assert_eq!((second.counted, second.read), (600, 302), "only the stream in memory is compared");
}

#[tokio::test(start_paused = true)]
async fn only_the_time_of_a_repeated_row_is_compared() {
    let env = Env::simulated(2, START_NS);
    let bucket = near_bucket(&env, 2);
    let engines = start(&bucket, &env).await;
    for n in 0..300i64 {
        let rows = ["a", "b"].map(|stream| (stream, START_NS + n * 1_000_000, format!("line {n}"), "x"));
        push(&engines[n as usize % PROCESSES], &rows).await;
        if n == 150 {
            push(&engines[(n as usize + 1) % PROCESSES], &rows[..1]).await;
        }
    }
    for engine in &engines {
        engine.flush().await.unwrap();
    }
    for counts in [true, false] {
        let answer = count(&engines[2], ENOUGH, counts).await.unwrap();
        assert_eq!((answer.rows(), answer.suspect), (600, 2), "with counts: {counts}");
    }
    let answer = count(&engines[2], ENOUGH, true).await.unwrap();
    assert_eq!((answer.counted, answer.read), (300, 300));
}

/// A comparison reads all streams of two blocks, so a query for few rows does without.
#[tokio::test(start_paused = true)]
async fn a_query_for_a_small_stream_does_not_compare_blocks() {
    let env = Env::simulated(3, START_NS);
    let bucket = near_bucket(&env, 3);
    let engines = start(&bucket, &env).await;
    for n in 0..60i64 {
        let row = |stream, k: i64| (stream, START_NS + (n * 10 + k) * 1_000_000, format!("line {n}"), "x");
        let rows: Vec<Whole> = (0..9).map(|k| row("a", k)).chain([row("b", 9)]).collect();
        push(&engines[n as usize % PROCESSES], &rows).await;
    }
    for engine in &engines {
        engine.flush().await.unwrap();
    }
    let small = || app_is("b");
    for (matchers, expected) in [(small(), (0, 60)), (Vec::new(), (600, 0)), (small(), (60, 0))] {
        let answer = count_of(&engines[0], matchers, ENOUGH, true).await.unwrap();
        assert_eq!((answer.counted, answer.read), expected);
    }
}

/// Random pushes, repeated ones among them, and rows that differ only in one part.
#[tokio::test(start_paused = true)]
async fn every_row_counts_once_whatever_is_repeated() {
    for seed in 1..=6u64 {
        let env = Env::simulated(seed, START_NS);
        let bucket = near_bucket(&env, seed);
        let engines = start(&bucket, &env).await;
        let below = |bound: u64| env.random_below(bound) as usize;
        let mut all: BTreeMap<Whole, ()> = BTreeMap::new();
        let mut pushed: Vec<Vec<Whole>> = Vec::new();
        for _ in 0..6 {
            for _ in 0..20 {
                let row = || {
                    let at = START_NS + below(200) as i64 * 1_000_000;
                    (STREAMS[below(3)], at, format!("line {}", below(4)), VALUES[below(2)])
                };
                let rows: Vec<Whole> = match below(6) {
                    0 if !pushed.is_empty() => pushed[below(pushed.len() as u64)].clone(),
                    _ => (0..=below(8)).map(|_| row()).collect(),
                };
                push(&engines[below(PROCESSES as u64)], &rows).await;
                all.extend(rows.iter().cloned().map(|row| (row, ())));
                pushed.push(rows);
            }
            engines[below(PROCESSES as u64)].flush().await.unwrap();
            let asked = &engines[below(PROCESSES as u64)];
            for (budget, counts) in [(ENOUGH, true), (ENOUGH, false), (400 << 10, true), (ENOUGH, true)] {
                match count(asked, budget, counts).await {
                    Ok(answer) => assert_eq!(answer.rows(), all.len() as u64, "seed {seed}: {answer:?}"),
                    Err(error) => assert!(budget < ENOUGH, "seed {seed}: {error}"),
                }
            }
        }
    }
}
