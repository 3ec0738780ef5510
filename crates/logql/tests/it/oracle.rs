//! Random rows and random simple queries: the answer must be that of a naive implementation of the
//! definitions, however the rows are split into pages, shuffled, repeated, or replaced by counts.
//!
//! The oracle shares no code with the crate: it scans all rows for every step.

#![allow(clippy::unwrap_used)] // tests may panic

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sandur_logql::{Kind, Request};
use sandur_memory::MemoryBudget;
use sandur_model::{Labels, Level, Limits, TenantId};
use sandur_query::{Direction, MemoryRow, MemorySource, QueryContext, QueryResult};
use sandur_runtime::Env;

const S: i64 = 1_000_000_000;

type Map = BTreeMap<String, String>;

#[derive(Clone, Debug)]
struct Row {
    app: &'static str,
    timestamp: i64,
    /// The keys and values in the line.
    pairs: Vec<(&'static str, String)>,
    team: Option<&'static str>,
    level: Level,
}

impl Row {
    fn line(&self) -> String {
        self.pairs.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    }

    fn labels(&self, parses: bool) -> Map {
        let mut labels = Map::from([("app".to_owned(), self.app.to_owned())]);
        if let Some(team) = self.team {
            labels.insert("team".to_owned(), team.to_owned());
        }
        if self.level != Level::None {
            labels.insert("detected_level".to_owned(), self.level.as_str().to_owned());
        }
        let base = labels.clone();
        for (key, value) in self.pairs.iter().filter(|_| parses) {
            let taken = base.contains_key(*key);
            let name = if taken { format!("{key}_extracted") } else { (*key).to_owned() };
            labels.entry(name).or_insert_with(|| value.clone());
        }
        labels
    }

    fn stored(&self) -> MemoryRow {
        MemoryRow {
            labels: Arc::new(Labels::from_pairs([("app", self.app)])),
            timestamp: self.timestamp,
            line: self.line().into(),
            metadata: self.team.map(|t| ("team".into(), t.into())).into_iter().collect(),
            level: self.level,
        }
    }
}

#[derive(Clone, Debug)]
struct Pipeline {
    apps: &'static str,
    lines: Vec<(bool, &'static str)>,
    parses: bool,
    number: Option<i64>,
    team: Option<(bool, &'static str)>,
}

impl Pipeline {
    fn text(&self) -> String {
        let mut text = format!("{{app=~\"{}\"}}", self.apps);
        for (keep, part) in &self.lines {
            text.push_str(&format!(" {} \"{part}\"", if *keep { "|=" } else { "!=" }));
        }
        if self.parses {
            text.push_str(" | logfmt");
        }
        if let Some((equal, team)) = self.team {
            text.push_str(&format!(" | team{}\"{team}\"", if equal { "=" } else { "!=" }));
        }
        if let (true, Some(number)) = (self.parses, self.number) {
            text.push_str(&format!(" | v >= {number}"));
        }
        text
    }

    /// The labels of a row that passes; `None` if it is dropped.
    fn apply(&self, row: &Row) -> Option<Map> {
        if !self.apps.split('|').any(|app| app == row.app) {
            return None;
        }
        let line = row.line();
        if self.lines.iter().any(|(keep, part)| line.contains(part) != *keep) {
            return None;
        }
        let labels = row.labels(self.parses);
        if let Some((equal, team)) = self.team
            && (labels.get("team").map_or("", |t| t) == team) != equal
        {
            return None;
        }
        if let (true, Some(number)) = (self.parses, self.number) {
            let value: i64 = labels.get("v")?.parse().unwrap();
            if value < number {
                return None;
            }
        }
        Some(labels)
    }
}

#[derive(Clone, Debug)]
struct Metric {
    pipeline: Pipeline,
    function: &'static str,
    outer: Option<(&'static str, Option<&'static [&'static str]>)>,
    start: i64,
    steps: i64,
    step: i64,
    range: i64,
    offset: i64,
}

impl Metric {
    fn unwraps(&self) -> bool {
        self.function.ends_with("_over_time")
            && !matches!(self.function, "count_over_time" | "bytes_over_time")
    }

    fn text(&self) -> String {
        let unwrap = if self.unwraps() { " | unwrap v" } else { "" };
        let offset = if self.offset == 0 { String::new() } else { format!(" offset {}s", self.offset) };
        let inner = format!("{}({}{unwrap} [{}s]{offset})", self.function, self.pipeline.text(), self.range);
        match self.outer {
            None => inner,
            Some((name, None)) => format!("{name}({inner})"),
            Some((name, Some(by))) => format!("{name} by ({}) ({inner})", by.join(",")),
        }
    }

    /// The values by labels and step, in seconds.
    fn answer(&self, rows: &[Row]) -> BTreeMap<Map, BTreeMap<i64, f64>> {
        let mut answer: BTreeMap<Map, BTreeMap<i64, f64>> = BTreeMap::new();
        for n in 0..=self.steps {
            let at = self.start + n * self.step;
            let end = (at - self.offset) * S;
            let mut groups: BTreeMap<Map, Vec<(i64, f64)>> = BTreeMap::new();
            for row in rows.iter().filter(|r| end - self.range * S < r.timestamp && r.timestamp <= end) {
                let Some(mut labels) = self.pipeline.apply(row) else { continue };
                let value = if self.unwraps() {
                    let Some(value) = labels.remove("v") else { continue };
                    value.parse().unwrap()
                } else if self.function.starts_with("bytes") {
                    row.line().len() as f64
                } else {
                    1.0
                };
                groups.entry(labels).or_default().push((row.timestamp, value));
            }
            let values = groups.into_iter().map(|(labels, rows)| (labels, self.value(rows)));
            for (labels, value) in self.aggregate(values.collect()) {
                answer.entry(labels).or_default().insert(at, value);
            }
        }
        answer
    }

    fn value(&self, mut rows: Vec<(i64, f64)>) -> f64 {
        rows.sort_by_key(|(t, _)| *t);
        let sum: f64 = rows.iter().map(|(_, v)| v).sum();
        match self.function {
            "count_over_time" | "bytes_over_time" | "sum_over_time" => sum,
            "rate" | "bytes_rate" => sum / self.range as f64,
            "avg_over_time" => sum / rows.len() as f64,
            "min_over_time" => rows.iter().map(|r| r.1).fold(f64::INFINITY, f64::min),
            "max_over_time" => rows.iter().map(|r| r.1).fold(f64::NEG_INFINITY, f64::max),
            other => panic!("{other}"),
        }
    }

    fn aggregate(&self, values: Vec<(Map, f64)>) -> Vec<(Map, f64)> {
        let Some((name, by)) = self.outer else { return values };
        let mut groups: BTreeMap<Map, Vec<f64>> = BTreeMap::new();
        for (labels, value) in values {
            let kept = |name: &String| by.is_some_and(|by| by.contains(&name.as_str()));
            let group = labels.into_iter().filter(|(n, _)| kept(n)).collect();
            groups.entry(group).or_default().push(value);
        }
        let fold = |values: Vec<f64>| match name {
            "sum" => values.iter().sum(),
            "max" => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
            "min" => values.into_iter().fold(f64::INFINITY, f64::min),
            "count" => values.len() as f64,
            "avg" => values.iter().sum::<f64>() / values.len() as f64,
            other => panic!("{other}"),
        };
        groups.into_iter().map(|(labels, values)| (labels, fold(values))).collect()
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let pair = prop_oneof![
        4 => (0..20i64).prop_map(|v| ("v", v.to_string())),
        2 => prop::sample::select(vec!["error", "info", "warn"]).prop_map(|v| ("level", v.to_owned())),
        1 => prop::sample::select(vec!["x", "y"]).prop_map(|v| ("app", v.to_owned())),
        1 => prop::sample::select(vec!["in", "out"]).prop_map(|v| ("team", v.to_owned())),
        1 => Just(("msg", "some-text".to_owned())),
    ];
    let row = (
        prop::sample::select(vec!["a", "b", "c"]),
        0..8i64,
        prop::collection::vec(pair, 0..4),
        prop::option::of(prop::sample::select(vec!["red", "blue"])),
        prop::sample::select(vec![Level::None, Level::Info, Level::Error]),
    );
    prop::collection::vec(row, 0..120).prop_map(|rows| {
        let mut at = 0;
        let row = |(app, gap, pairs, team, level)| {
            // No two rows have the same timestamp; many lie exactly on seconds and minutes.
            at += 1 + gap * S;
            let timestamp = if gap % 2 == 0 { at / S * S } else { at };
            Row { app, timestamp, pairs, team, level }
        };
        let mut rows: Vec<Row> = rows.into_iter().map(row).collect();
        let mut seen = BTreeSet::new();
        rows.retain(|r| seen.insert(r.timestamp));
        rows
    })
}

fn pipeline() -> impl Strategy<Value = Pipeline> {
    let part = prop::sample::select(vec!["error", "v=1", "some", "=", "nothing", ""]);
    (
        prop::sample::select(vec!["a", "a|b", "a|b|c", "z"]),
        prop::collection::vec((prop::bool::weighted(0.7), part), 0..3),
        any::<bool>(),
        prop::option::of(0..20i64),
        prop::option::of((any::<bool>(), prop::sample::select(vec!["red", ""]))),
    )
        .prop_map(|(apps, lines, parses, number, team)| Pipeline { apps, lines, parses, number, team })
}

fn metric() -> impl Strategy<Value = Metric> {
    let outer = prop::sample::select(vec![
        None,
        Some(("sum", None)),
        Some(("sum", Some(&["app"] as &[_]))),
        Some(("sum", Some(&["detected_level"] as &[_]))),
        Some(("sum", Some(&["app", "team"] as &[_]))),
        Some(("sum", Some(&["level", "app_extracted"] as &[_]))),
        Some(("max", Some(&["app"] as &[_]))),
        Some(("min", None)),
        Some(("count", Some(&["team"] as &[_]))),
        Some(("avg", Some(&["app"] as &[_]))),
    ]);
    let function = prop::sample::select(vec![
        "count_over_time",
        "rate",
        "bytes_over_time",
        "bytes_rate",
        "sum_over_time",
        "avg_over_time",
        "min_over_time",
        "max_over_time",
    ]);
    let times = prop_oneof![
        // Whole minutes, for which counts may replace rows.
        (0..5i64, 0..6i64, 1..3i64, 1..4i64, 0..2i64).prop_map(|(a, n, s, r, o)| (
            a * 60,
            n,
            s * 60,
            r * 60,
            o * 60
        )),
        (0..200i64, 0..8i64, 1..40i64, 1..90i64, 0..20i64),
    ];
    (pipeline(), function, outer, times).prop_map(
        |(mut pipeline, function, outer, (start, steps, step, range, offset))| {
            let mut metric =
                Metric { pipeline: pipeline.clone(), function, outer, start, steps, step, range, offset };
            if metric.unwraps() {
                pipeline.parses = true;
                metric.pipeline = pipeline;
            }
            metric
        },
    )
}

fn sources(rows: &[Row], seed: u64) -> Vec<(&'static str, MemorySource)> {
    let source = || MemorySource::new(rows.iter().map(Row::stored).collect());
    let size = (seed % 17 + 1) as usize;
    vec![
        ("one page", source()),
        ("shuffled", source().page_rows(size).shuffled(seed)),
        ("repeated", source().page_rows(size).duplicated(2).shuffled(seed)),
        ("counts", source().page_rows(size).with_counts()),
    ]
}

fn run(source: &MemorySource, request: &Request) -> QueryResult {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let budget = MemoryBudget::root("query", 64 << 20);
        let env = Env::simulated(1, 0);
        let context =
            QueryContext::new(env, TenantId::default_tenant(), budget.clone(), Duration::from_secs(600));
        let result =
            sandur_logql::query_unaligned(source, &context, &Limits::default(), request.clone()).await;
        assert_eq!(budget.used(), 0);
        result.unwrap_or_else(|e| panic!("{}: {e}", request.query))
    })
}

fn found_series(result: QueryResult) -> BTreeMap<Map, BTreeMap<i64, f64>> {
    let (QueryResult::Matrix(series) | QueryResult::Vector(series)) = result else { panic!("no series") };
    let one = |series: &sandur_query::Series| {
        let labels = series.labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        (labels, series.samples.iter().map(|s| (s.timestamp_ms / 1000, s.value)).collect())
    };
    series.iter().map(one).collect()
}

fn same(a: &BTreeMap<Map, BTreeMap<i64, f64>>, b: &BTreeMap<Map, BTreeMap<i64, f64>>) -> bool {
    let close = |a: &f64, b: &f64| (a - b).abs() <= 1e-9 * a.abs().max(1.0);
    a.len() == b.len()
        && a.iter().zip(b).all(|((la, va), (lb, vb))| {
            la == lb
                && va.len() == vb.len()
                && va.iter().zip(vb).all(|((ta, a), (tb, b))| ta == tb && close(a, b))
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn metric_queries_agree_with_their_definition(rows in rows(), metric in metric(), seed in any::<u64>()) {
        let last = metric.start + metric.steps * metric.step;
        let kind = if metric.steps == 0 {
            Kind::Instant { time_ns: metric.start * S }
        } else {
            Kind::Range { start_ns: metric.start * S, end_ns: last * S, step_ns: metric.step * S }
        };
        let query = metric.text();
        let request = Request { query, kind, limit: 100, direction: Direction::Backward, interval_ns: 0 };
        let expected = metric.answer(&rows);
        for (name, source) in sources(&rows, seed) {
            let found = found_series(run(&source, &request));
            let query = &request.query;
            prop_assert!(same(&found, &expected), "{name}: {query}\n{found:#?}\nnot {expected:#?}");
        }
    }

    #[test]
    fn log_queries_agree_with_their_definition(
        rows in rows(),
        pipeline in pipeline(),
        start in 0..100i64,
        length in 0..600i64,
        limit in 0..40u32,
        forward in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let kind = Kind::Range { start_ns: start * S, end_ns: (start + length) * S, step_ns: 0 };
        let direction = if forward { Direction::Forward } else { Direction::Backward };
        let request = Request { query: pipeline.text(), kind, limit, direction, interval_ns: 0 };
        let inside = |r: &&Row| start * S <= r.timestamp && r.timestamp < (start + length) * S;
        let mut expected: Vec<(i64, String, Map)> = rows
            .iter()
            .filter(inside)
            .filter_map(|r| Some((r.timestamp, r.line(), pipeline.apply(r)?)))
            .collect();
        expected.sort();
        if !forward {
            expected.reverse();
        }
        expected.truncate(limit as usize);
        for (name, source) in sources(&rows, seed) {
            let QueryResult::Streams(found) = run(&source, &request) else { panic!("no rows") };
            let found: Vec<(i64, String, Map)> = found
                .iter()
                .map(|row| {
                    let stream = row.stream.iter().chain(row.metadata.iter());
                    let parsed = row.parsed.iter().map(|(n, v)| (&**n, &**v));
                    let labels = stream.chain(parsed).map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
                    (row.timestamp, String::from_utf8_lossy(&row.line).into_owned(), labels)
                })
                .collect();
            prop_assert_eq!(&found, &expected, "{}: {}", name, request.query);
        }
    }
}
