//! Goal: a query uses no more memory than it reserves, ends when it is cancelled, requests from storage
//! only what it reads, and answers at an instant what it answers at that step of a range.
//!
//! Method: an in-memory source that records selections, small budgets, a cancelled context.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandur_base::{BoxFuture, ErrorKind};
use sandur_memory::MemoryBudget;
use sandur_model::{FloatHistogram, Labels, TenantId};
use sandur_promql::{Answer, Options, Point, Request, Times, Value, query};
use sandur_query::{
    Error, Exemplars, Indexed, MemorySeries, Metadata, MetadataSelection, QueryContext, SampleScan,
    SampleSelection, SampleSource, SeriesRequest, Versions,
};
use sandur_runtime::Env;

pub const MINUTE: i64 = 60_000;

fn labels_of(series: usize) -> impl Iterator<Item = Labels> {
    (0..series).map(|n| {
        let (job, instance) = (format!("job{}", n % 7), format!("instance{n}"));
        Labels::from_pairs([("__name__", "requests_total"), ("job", &job), ("instance", &instance)])
    })
}

/// Series `requests_total{job, instance}` with a sample each 15 s for half an hour.
pub fn store(series: usize) -> MemorySeries {
    let mut store = MemorySeries::default();
    for (n, labels) in labels_of(series).enumerate() {
        store.edit(&labels, |samples| {
            for step in 0..120 {
                samples.times.push(step * 15_000);
                // Values fall back to zero from time to time, as after a reset.
                samples.values.push(((step as usize * (n % 5 + 1)) % 97) as f64);
            }
        });
    }
    store
}

/// Records selections. Selections of presence alone get series whose values are all zero.
struct Watched {
    store: MemorySeries,
    zeros: MemorySeries,
    asked: Mutex<Vec<SampleSelection>>,
}

impl Watched {
    fn new(series: usize) -> Self {
        let (store, mut zeros) = (store(series), store(series));
        for labels in labels_of(series) {
            zeros.edit(&labels, |samples| samples.values.fill(0.0));
        }
        Self { store, zeros, asked: Mutex::default() }
    }
}

impl Indexed for Watched {
    type Index = MemorySeries;

    fn index(&self) -> &MemorySeries {
        &self.store
    }
}

impl Versions for Watched {}

impl SampleSource for Watched {
    fn select<'a>(
        &'a self,
        context: &'a QueryContext,
        query: SampleSelection,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        self.asked.lock().unwrap().push(query.clone());
        if query.presence_only {
            self.zeros.select(context, query)
        } else {
            self.store.select(context, query)
        }
    }

    fn exemplars<'a>(
        &'a self,
        context: &'a QueryContext,
        request: SeriesRequest,
    ) -> BoxFuture<'a, Result<Exemplars, Error>> {
        self.store.exemplars(context, request)
    }

    fn metadata<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: MetadataSelection,
    ) -> BoxFuture<'a, Result<Metadata, Error>> {
        self.store.metadata(context, selection)
    }
}

pub fn context(bytes: u64) -> QueryContext {
    let (env, budget) = (Env::simulated(1, 0), MemoryBudget::root("query", bytes));
    QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(600))
}

pub fn ask(
    source: &dyn SampleSource,
    context: &QueryContext,
    text: &str,
    times: Times,
) -> Result<Answer, Error> {
    let request = Request { query: text.to_owned(), times, options: Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(query(source, context, &request))
}

pub fn range() -> Times {
    Times { start: 5 * MINUTE, end: 25 * MINUTE, step: MINUTE }
}

#[test]
fn an_aggregation_keeps_groups_only() {
    let store = store(3000);
    // All rates together would take 3000 x 21 x 8 bytes; a batch of columns takes half of that.
    let context = context(400 << 10);
    let answer = ask(&store, &context, "sum by (job) (rate(requests_total[5m]))", range()).unwrap();
    let Value::Matrix(series) = &answer.value else { panic!("{:?}", answer.value) };
    assert_eq!((series.len(), series[0].floats.len()), (7, 21));
    drop(answer);
    assert_eq!(context.budget().used(), 0, "memory is released");
    let error = ask(&store, &context, "sort(rate(requests_total[5m]))", range()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    assert!(error.to_string().contains("'query'"), "the error names the budget: {error}");
    assert_eq!(context.budget().used(), 0, "memory is released");
}

#[test]
fn a_cancelled_query_ends() {
    let context = context(64 << 20);
    context.cancel();
    let error = ask(&store(10), &context, "sum(requests_total)", range()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_query_may_not_load_more_samples_than_its_limit() {
    let options = Options { samples_max: 100, ..Options::default() };
    let request = Request { query: "requests_total".to_owned(), times: range(), options };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(query(&store(10), &context(64 << 20), &request)).unwrap_err();
    assert!(error.to_string().contains("more than 100"), "{error}");
}

#[test]
fn queries_at_extreme_times_end_and_release_memory() {
    let (store, context) = (store(2), context(64 << 20));
    let far = [i64::MIN, -(1 << 60), 0, 1 << 60, i64::MAX];
    for text in [
        "requests_total @ -9e15 offset 290y",
        "rate(requests_total[290y] @ 9e15 offset -290y)",
        "rate(requests_total[290y:1y] @ -9e15 offset 290y)",
        "predict_linear(requests_total[5m] @ 600, 1)",
        "requests_total smoothed",
        "timestamp(requests_total offset -290y)",
        "info(requests_total @ -9e15)",
        "year(vector(1e300)) + minute()",
    ] {
        for (start, end) in far.iter().flat_map(|start| far.map(|end| (*start, end))) {
            for step in [0, 1, MINUTE, i64::MAX] {
                // Success or failure, the query must return.
                let _ = ask(&store, &context, text, Times { start, end, step });
                assert_eq!(context.budget().used(), 0, "{text}");
            }
        }
    }
}

#[test]
fn selections_request_only_what_is_read() {
    let watched = Watched::new(3);
    let context = context(64 << 20);
    let text = "sum by (job) (abs(rate(requests_total[5m] offset 1m)))";
    ask(&watched, &context, text, range()).unwrap();
    let asked = watched.asked.lock().unwrap().pop().unwrap();
    let labels = asked.labels.unwrap();
    assert!(labels.iter().any(|label| label == "job") && !labels.iter().any(|label| label == "instance"));
    assert_eq!((asked.first_ms, asked.last_ms), (-MINUTE + 1, 24 * MINUTE));
    assert_eq!((asked.range_ms, asked.step_ms, asked.function), (5 * MINUTE, MINUTE, "rate"));
    ask(&watched, &context, "histogram_count(x)", range()).unwrap();
    assert!(watched.asked.lock().unwrap().pop().unwrap().statistics_only);
}

#[test]
fn values_are_requested_only_if_they_are_read() {
    let (watched, context) = (Watched::new(9), context(64 << 20));
    for (text, expected) in [
        ("count by (job) (requests_total)", &[true][..]),
        ("group((requests_total offset 1m))", &[true]),
        ("count(requests_total @ 600)", &[true]),
        ("absent(requests_total{job=\"none\"}) or count_over_time(requests_total[3m])", &[true, true]),
        ("present_over_time(requests_total[3m]) + on () group_left () count(requests_total)", &[true, true]),
        ("requests_total and requests_total offset 2m unless (requests_total)", &[false, true, true]),
        ("count(requests_total > 50)", &[false]),
        ("count(requests_total smoothed)", &[false]),
        ("count(sum by (job) (requests_total)) + count(requests_total == 0)", &[false, false]),
        ("sum(count_over_time(requests_total[2m:1m]))", &[false]),
        ("requests_total and requests_total > 50", &[false, false]),
        ("count_values(\"v\", requests_total)", &[false]),
        ("quantile(0.5, requests_total) or avg_over_time(requests_total[3m])", &[false, false]),
    ] {
        watched.asked.lock().unwrap().clear();
        let answer = ask(&watched, &context, text, range()).unwrap();
        assert_eq!(answer.value, ask(&watched.store, &context, text, range()).unwrap().value, "{text}");
        let mut asked = std::mem::take(&mut *watched.asked.lock().unwrap());
        asked.sort_by_key(|query| query.presence_only);
        let found: Vec<bool> = asked.iter().map(|query| query.presence_only).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn a_step_of_a_range_equals_the_instant_query() {
    let (store, context) = (store(9), context(64 << 20));
    for text in [
        "requests_total",
        "rate(requests_total[5m])",
        "sum by (job) (requests_total) / on (job) group_right () requests_total",
        "max_over_time(rate(requests_total[2m])[10m:90s])",
        "quantile(0.7, requests_total) or topk(2, requests_total)",
        "count_values(\"v\", requests_total % 3)",
        "label_replace(requests_total, \"x\", \"$1\", \"job\", \"job(.)\") and on (x) requests_total > 10",
        "stddev_over_time(requests_total[7m] offset 2m)",
        "predict_linear(requests_total[5m], 60)",
        "requests_total @ 600 - requests_total",
    ] {
        let Value::Matrix(matrix) = ask(&store, &context, text, range()).unwrap().value else {
            panic!("{text}")
        };
        for step in [0, 7, 20] {
            let at = (5 + step) * MINUTE;
            let times = Times { start: at, end: at, step: 0 };
            let Value::Vector(mut vector) = ask(&store, &context, text, times).unwrap().value else {
                panic!("{text}")
            };
            vector.sort_by(|a, b| a.0.cmp(&b.0));
            let at_step = |series: &sandur_promql::Series| {
                let found = series.floats.iter().find(|(time, _)| *time == at);
                found.map(|(_, value)| (series.labels.clone(), Point::Float(*value)))
            };
            let mut expected: Vec<_> = matrix.iter().filter_map(at_step).collect();
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(vector, expected, "{text} at {at}");
        }
    }
}

/// Series that differ only in a dropped name are joined. The query fails if two of them have a sample at
/// the same step, of any kind.
#[test]
fn joining_a_float_and_a_histogram_at_one_step_fails() {
    let histogram = |count: f64| FloatHistogram { count, ..FloatHistogram::default() };
    let mut store = MemorySeries::default();
    let labels = |name: &str| Labels::from_pairs([("__name__", name), ("a", "b")]);
    store.edit(&labels("floats"), |samples| {
        samples.times.extend([0, MINUTE, 2 * MINUTE]);
        samples.values.extend([1.0, 3.0, 6.0]);
    });
    store.edit(&labels("native"), |samples| {
        samples.histogram_times.extend([MINUTE, 2 * MINUTE]);
        samples.histograms.extend([1.0, 2.0].map(|count| Arc::new(histogram(count))));
    });
    store.edit(&labels("before"), |samples| {
        samples.times.push(0);
        samples.values.push(9.0);
    });
    let context = context(1 << 20);
    let range = Times { start: 0, end: 2 * MINUTE, step: MINUTE };
    let instant = Times { start: MINUTE, end: MINUTE, step: 0 };
    for names in ["floats|native", "native|floats"] {
        let text = format!("sum_over_time({{__name__=~\"{names}\"}}[30s])");
        for times in [range, instant] {
            let error = ask(&store, &context, &text, times).unwrap_err();
            assert_eq!(error.to_string(), "vector cannot contain metrics with the same labelset", "{text}");
        }
    }
    // They are joined if they never have samples at the same step.
    let one = "sum_over_time({__name__=~\"native|before\"}[30s])";
    let answer = ask(&store, &context, one, range).unwrap();
    let Value::Matrix(series) = &answer.value else { panic!("{:?}", answer.value) };
    assert_eq!(series.len(), 1);
    assert_eq!((&series[0].floats[..], series[0].histograms.len()), (&[(0, 9.0)][..], 2));
}

/// A series from both sides of `or` keeps or drops its name as its first sample does.
#[test]
fn the_first_sample_of_a_union_decides_whether_the_name_is_dropped() {
    let mut store = MemorySeries::default();
    for (name, times) in [("late", vec![2 * MINUTE]), ("early", vec![0])] {
        store.edit(&Labels::from_pairs([("__name__", "m"), ("at", name)]), |samples| {
            samples.values.extend(times.iter().map(|_| 1.0));
            samples.times.extend(times);
        });
    }
    let context = context(1 << 20);
    let times = Times { start: 0, end: 2 * MINUTE, step: MINUTE };
    for (text, named) in [
        ("last_over_time(m{at=\"late\"}[30s]) or -last_over_time(m{at=\"late\"}[30s] @ end())", false),
        ("last_over_time(m{at=\"early\"}[30s]) or -last_over_time(m{at=\"early\"}[30s] @ start())", true),
    ] {
        let answer = ask(&store, &context, text, times).unwrap();
        let Value::Matrix(series) = &answer.value else { panic!("{:?}", answer.value) };
        assert_eq!((series.len(), series[0].floats.len()), (1, 3), "{text}");
        assert_eq!(series[0].labels.get("__name__").is_some(), named, "{text}");
    }
}
