//! Goal: whatever was flushed, merged, or is still in a head, a query sees each row exactly once.
//!
//! Method: random pushes (late rows, equal instants, the same batch twice) go to an engine over a store
//! in memory, with flushes and enough simulated time for merges between them. After every step scans,
//! counts and label calls are compared with a plain list of distinct rows.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use sandur_base::units::MIB;
use sandur_engine::{Engine, EngineOptions, MaintenanceOptions};
use sandur_memory::MemoryBudget;
use sandur_model::{
    AutomatonParts, Labels, LineAutomaton, LogBatchBuilder, MINUTE_NS, MatchOp, Matcher, TenantId, TimeRange,
};
use sandur_query::{
    Columns, Needle, Needles, Order, QueryContext, ScanItem, Selection, SeriesRequest, StreamsRequest,
    all_series, all_texts,
};
use sandur_runtime::Env;
use sandur_store::{Store, StoreOptions};

/// 2026-11-20 10:00 UTC; rows lie in the hours before.
const START_NS: i64 = 1_795_168_800_000_000_000;
const HOUR_NS: i64 = 60 * MINUTE_NS;

type Row = (String, i64, String);

struct Fixture {
    env: Env,
    engine: Arc<Engine>,
    rows: BTreeSet<Row>,
    number: u64,
}

impl Fixture {
    async fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let store = Store::from_object_store(Arc::new(InMemory::new()), env.clone(), StoreOptions::default());
        let mut maintenance = MaintenanceOptions { interval: Duration::from_secs(5), ..Default::default() };
        maintenance.compaction.quiet = Duration::from_secs(5);
        maintenance.compaction.hour_blocks_max = 3;
        let write_budget = MemoryBudget::root("write", 64 * MIB);
        // No other process writes to this bucket, and days of simulated time pass. Polls, heartbeats and
        // checks of the head's age once in some seconds would find nothing new and take most of the test's
        // time.
        let minute = Duration::from_secs(60);
        let options = EngineOptions {
            write_budget,
            maintenance,
            look_interval: minute,
            poll_interval: minute,
            poll_idle_interval: minute,
            heartbeat_interval: minute,
            dead_after: 3 * minute,
            ..EngineOptions::default()
        };
        let engine = Engine::open(store, env.clone(), options).await.unwrap();
        Self { env, engine, rows: BTreeSet::new(), number: 0 }
    }

    /// A few rows of a few streams, some of them late, some at one instant.
    async fn push(&mut self) {
        let mut batch = LogBatchBuilder::new(TenantId::default_tenant());
        for _ in 0..1 + self.env.random_below(3) {
            let app = format!("app-{}", self.env.random_below(3));
            let pod = format!("pod-{}", self.env.random_below(4));
            let labels = Arc::new(Labels::from_pairs([("app", app), ("pod", pod)]));
            let base = START_NS - self.env.random_below(30 * HOUR_NS as u64) as i64;
            for n in 0..self.env.random_below(30) as i64 {
                self.number += 1;
                let at = base + n / 3 * 7 * 1_000_000_000;
                let needle =
                    if self.env.random_below(40) == 0 { " 5f0c1d2e-7a8b-4c9d-8e0f-112233445566" } else { "" };
                let line = format!("line {} of the test{needle}", self.number);
                batch.row(&labels, at, &line);
                self.rows.insert((labels.to_string(), at, line));
            }
        }
        let batch = batch.build();
        self.engine.push(batch.clone()).await.unwrap();
        if self.env.random_below(3) == 0 {
            self.step().await;
            self.engine.push(batch).await.unwrap(); // as a client that missed the answer
        }
    }

    async fn step(&mut self) {
        match self.env.random_below(4) {
            0 => self.engine.flush().await.unwrap(),
            1 => self.env.sleep(Duration::from_secs(self.env.random_below(120))).await,
            _ => {}
        }
    }

    fn context(&self) -> QueryContext {
        let budget = MemoryBudget::root("query", 64 * MIB);
        QueryContext::new(self.env.clone(), TenantId::default_tenant(), budget, Duration::from_secs(600))
    }

    async fn scan(&self, selection: Selection) -> (Vec<Row>, BTreeMap<(String, i32), u64>) {
        let context = self.context();
        let (order, columns) = (selection.order, selection.columns);
        let mut scan = self.engine.sources().logs.scan(&context, selection).await.unwrap();
        let (mut rows, mut counts, mut seen) = (Vec::new(), BTreeMap::new(), HashSet::new());
        let mut bound = None;
        let seven = lines_with(b'7');
        while let Some(item) = scan.next().await.unwrap() {
            match item {
                ScanItem::Counts(task) => {
                    for stream in task.decode().unwrap() {
                        for minute in stream.minutes() {
                            *counts.entry((stream.labels.to_string(), minute.minute)).or_default() +=
                                u64::from(minute.lines);
                        }
                    }
                }
                ScanItem::Page(mut task) => {
                    let (first, last) = task.bounds();
                    match order {
                        Order::NewestFirst => {
                            assert!(bound.replace(last).is_none_or(|before| last <= before))
                        }
                        Order::OldestFirst => {
                            assert!(bound.replace(first).is_none_or(|before| first >= before))
                        }
                        Order::Any => {}
                    }
                    let page = task.narrow().unwrap();
                    let suspicious = page.runs.iter().any(|run| run.suspect.is_some());
                    let mut alive = vec![true; page.timestamps.len()];
                    let told = columns.lines
                        && order == Order::OldestFirst
                        && task.retain(&seven, false, &mut alive).unwrap();
                    let lines = (columns.lines || suspicious).then(|| match told {
                        true => task.lines_of(&vec![true; alive.len()]).unwrap(),
                        false => task.lines().unwrap(),
                    });
                    for run in &page.runs {
                        let of_run = run.start as usize..run.end as usize;
                        for (row, alive) in of_run.clone().zip(&alive[of_run]) {
                            let at = page.timestamps[row];
                            assert!(first <= at && at <= last, "a row lies outside of its page's bounds");
                            let line = lines.as_ref().map_or(&[] as &[u8], |lines| lines.line(row));
                            assert_eq!(*alive, !told || seven.passes(line));
                            let line = String::from_utf8(line.to_vec()).unwrap();
                            let found = (run.labels.to_string(), at, line);
                            let suspect = run.suspect.is_some_and(|s| s.first <= at && at <= s.last);
                            if !suspect || seen.insert(found.clone()) {
                                rows.push(found);
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(context.warnings(), Vec::<String>::new());
        (rows, counts)
    }

    fn expected(&self, matchers: &[Matcher], range: TimeRange) -> Vec<Row> {
        let matches = |labels: &str| {
            let labels = Labels::parse(labels).unwrap();
            sandur_model::matches_all(matchers, &labels)
        };
        self.rows.iter().filter(|(l, at, _)| range.contains(*at) && matches(l)).cloned().collect()
    }

    async fn check(&self) {
        let any = Vec::new();
        let one = vec![Matcher::new("app", MatchOp::Equal, "app-1").unwrap()];
        let most = vec![Matcher::new("pod", MatchOp::NotRegex, "pod-[12]").unwrap()];
        let half = TimeRange::new(START_NS - 12 * HOUR_NS, START_NS - 3 * HOUR_NS + 17);
        for (matchers, range) in [(&any, TimeRange::ALL), (&one, half), (&most, half)] {
            for order in [Order::NewestFirst, Order::OldestFirst] {
                let (mut found, _) = self.scan(selection(matchers, range, order)).await;
                found.sort();
                assert_eq!(found, self.expected(matchers, range));
            }
            self.check_counts(matchers).await;
            self.check_labels(matchers, range).await;
        }
        self.check_needle().await;
    }

    /// Counts and the pages returned with them add up to every row once.
    async fn check_counts(&self, matchers: &[Matcher]) {
        let minute = (START_NS - 9 * HOUR_NS).div_euclid(MINUTE_NS);
        let range = TimeRange::new(minute * MINUTE_NS + 1, (minute + 480) * MINUTE_NS + 1);
        // Lines are not requested, but duplicate rows cannot be recognized without them.
        let columns = Columns { lines: false, metadata: false };
        let selection = Selection { counts: true, columns, ..selection(matchers, range, Order::Any) };
        let (rows, mut counts) = self.scan(selection).await;
        for (labels, at, _) in rows {
            *counts.entry((labels, minute_of(at))).or_default() += 1;
        }
        let mut expected: BTreeMap<(String, i32), u64> = BTreeMap::new();
        for (labels, at, _) in self.expected(matchers, range) {
            *expected.entry((labels, minute_of(at))).or_default() += 1;
        }
        assert_eq!(counts, expected);
    }

    async fn check_labels(&self, matchers: &[Matcher], range: TimeRange) {
        let context = self.context();
        let source = self.engine.sources().logs;
        let expected: BTreeSet<String> =
            self.expected(matchers, range).into_iter().map(|(l, ..)| l).collect();
        let (streams, _) =
            all_series(&*source, &context, SeriesRequest::new(matchers.to_vec(), range)).await.unwrap();
        let found: BTreeSet<String> = streams.iter().map(|l| l.to_string()).collect();
        // Bounds of a stream are known per block, so a stream may be returned that has a gap there.
        assert!(found.is_superset(&expected), "{found:?} lacks some of {expected:?}");
        let (pods, _) =
            all_texts(&*source, &context, SeriesRequest::new(matchers.to_vec(), range).values("pod"))
                .await
                .unwrap();
        let of_streams: BTreeSet<String> = streams.iter().map(|l| l.get("pod").unwrap().to_owned()).collect();
        assert_eq!(pods, of_streams.into_iter().collect::<Vec<_>>());
        let everything = source
            .volumes(&context, StreamsRequest { matchers: Vec::new(), range: TimeRange::ALL })
            .await
            .unwrap();
        let lines: u64 = everything.iter().map(|v| v.lines).sum();
        assert!(lines >= self.rows.len() as u64, "volumes may count repeated rows, but lose none");
    }

    async fn check_needle(&self) {
        let literal = b"5f0c1d2e-7a8b-4c9d-8e0f-112233445566".to_vec();
        let needle = Needle { literal, ignore_ascii_case: false };
        let needles = Needles(vec![vec![needle]]);
        let selection = Selection { needles, ..selection(&[], TimeRange::ALL, Order::NewestFirst) };
        let (found, _) = self.scan(selection).await;
        let holds = |row: &Row| row.2.contains("5f0c1d2e");
        let mut found: Vec<Row> = found.into_iter().filter(holds).collect();
        found.sort();
        assert_eq!(found, self.rows.iter().filter(|row| holds(row)).cloned().collect::<Vec<_>>());
    }
}

fn minute_of(at: i64) -> i32 {
    (at + MINUTE_NS - 1).div_euclid(MINUTE_NS) as i32
}

fn selection(matchers: &[Matcher], range: TimeRange, order: Order) -> Selection {
    Selection {
        matchers: matchers.to_vec(),
        range,
        order,
        needles: Needles::default(),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    }
}

#[test]
fn every_row_is_seen_exactly_once() {
    for seed in 0..1 {
        println!("seed {seed}");
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut fixture = Fixture::new(seed).await;
            let mut merged = false;
            for _ in 0..20 {
                fixture.push().await;
                fixture.step().await;
                fixture.check().await;
                let snapshot = fixture.engine.view().snapshot.clone();
                merged |= snapshot.all_blocks().any(|block| block.level > 0);
            }
            assert!(merged, "seed {seed}: no merge ran");
            fixture.engine.flush().await.unwrap();
            fixture.env.sleep(Duration::from_secs(2 * 24 * 3_600)).await;
            fixture.check().await;
            let snapshot = fixture.engine.view().snapshot.clone();
            let levels: Vec<u8> = snapshot.all_blocks().map(|block| block.level).collect();
            assert!(levels.iter().all(|level| *level > 0) || levels.len() <= 3, "{levels:?}");
            fixture.engine.shutdown().await.unwrap();
        });
    }
}

/// Matches lines that contain a byte.
fn lines_with(byte: u8) -> LineAutomaton {
    let mut classes = [0; 256];
    classes[usize::from(byte)] = 1;
    let next = vec![Vec::new(), Vec::new(), vec![2, LineAutomaton::PASSES]];
    let parts = AutomatonParts { classes, next, passes_at_end: vec![false; 3], start: 2 };
    LineAutomaton::new(parts).unwrap()
}
