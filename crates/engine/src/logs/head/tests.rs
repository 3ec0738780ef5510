//! Compares the head with explicit expectations, and with a naive sort over random rows.

use std::collections::BTreeSet;

use sandur_base::Id;
use sandur_model::{LogBatch, TenantId, TimeRange};
use sandur_query::{Columns, Order, PageTask};

use super::{LogHead, PAGE_BYTES, WantedStreams};
use crate::fixtures::{BatchBuilder, app_is, decode, decode_all, reserved};

const ALL_COLUMNS: Columns = Columns { lines: true, metadata: true };

fn head_of(batches: impl IntoIterator<Item = LogBatch>) -> LogHead {
    let head = LogHead::new(Id(1), 0);
    for (sequence, batch) in batches.into_iter().enumerate() {
        let memory = reserved(&batch);
        head.insert(sequence as u64, batch, memory);
    }
    head
}

fn pages(head: &LogHead, range: TimeRange, order: Order) -> Vec<Box<dyn PageTask>> {
    head.page_tasks(WantedStreams::all(&TenantId::default_tenant()), range, order, ALL_COLUMNS)
}

fn row(app: &str, timestamp: i64, line: &str) -> (String, i64, String) {
    (app.to_owned(), timestamp, line.to_owned())
}

#[test]
fn rows_are_sorted_by_stream_and_time_without_duplicates() {
    let head = head_of([
        BatchBuilder::new().stream("a").row(5, "five").row(3, "three").stream("b").row(4, "four").build(),
        BatchBuilder::new()
            .stream("a")
            .row(4, "four")
            .row(5, "five")
            .row_with(5, "five", &[("k", "v")])
            .build(),
    ]);
    let rows = decode_all(pages(&head, TimeRange::ALL, Order::OldestFirst));
    let expected = [row("a", 3, "three"), row("a", 4, "four"), row("a", 5, "five"), row("a", 5, "five")];
    assert_eq!(rows[..4], expected);
    assert_eq!(rows[4..], [row("b", 4, "four")]);
    assert_eq!(head.totals().rows, 6);
}

#[test]
fn rows_are_selected_by_tenant_matcher_and_time() {
    let other = TenantId::new("other").unwrap();
    let head = head_of([
        BatchBuilder::new().stream("a").row(1, "x").row(2, "y").row(3, "z").stream("b").row(2, "b").build(),
        BatchBuilder::of(other.clone()).stream("a").row(2, "foreign").build(),
    ]);
    let tenant = TenantId::default_tenant();
    let app = app_is("a");
    let of_a = WantedStreams { matchers: &app, ..WantedStreams::all(&tenant) };
    let tasks = head.page_tasks(of_a, TimeRange::new(2, 3), Order::NewestFirst, ALL_COLUMNS);
    assert_eq!(tasks[0].bounds(), (2, 2));
    assert_eq!(decode_all(tasks), [row("a", 2, "y")]);
    assert_eq!(head.streams(WantedStreams::all(&tenant), TimeRange::new(3, 9)).len(), 1);
    assert_eq!(head.streams(WantedStreams::all(&other), TimeRange::new(3, 9)).len(), 0);
    let bounds = head.stream_bounds(of_a, TimeRange::new(0, 2));
    assert_eq!((bounds.len(), bounds[0].first, bounds[0].last), (1, 1, 3));
    let volumes = head.volumes(of_a, TimeRange::new(2, 9));
    assert_eq!((volumes[0].lines, volumes[0].bytes, volumes[0].pages), (2, 2, 1));
    assert_eq!(head.tenants(), [tenant, other]);
}

#[test]
fn metadata_and_levels_are_columns() {
    let head = head_of([BatchBuilder::new()
        .stream("a")
        .row_with(1, "x", &[("pod", "p1"), ("trace", "t1")])
        .row_with(2, "y", &[("trace", "t2"), ("pod", "p1")])
        .row_with(3, "z", &[("pod", "p1")])
        .build()]);
    let page = decode(pages(&head, TimeRange::ALL, Order::Any).remove(0));
    let pairs = |row| page.metadata_of(row).map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(" ");
    assert_eq!(pairs(1), "pod=p1 trace=t2 detected_level=info");
    assert_eq!(pairs(2), "pod=p1 detected_level=info");
}

#[test]
fn many_distinct_values_of_a_key_are_stored_plain() {
    let ids: Vec<String> = (0..3000).map(|n| format!("trace-{n}")).collect();
    let mut batch = BatchBuilder::new().stream("a");
    for (n, id) in ids.iter().enumerate() {
        let metadata = [("id", id.as_str())];
        batch = batch.row_with(n as i64, "x", if n % 3 == 0 { &[] } else { &metadata });
    }
    let head = head_of([batch.build()]);
    let page = decode(pages(&head, TimeRange::ALL, Order::Any).remove(0));
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(page.metadata[0].get(n), (n % 3 != 0).then_some(id.as_str()), "row {n}");
    }
}

/// Many rows in one microsecond, a row a week earlier, and many rows in one nanosecond: pages keep about
/// their size, their bounds do not overlap, and no row is lost.
#[test]
fn pages_are_cut_by_bytes_and_lose_no_row() {
    let line = "x".repeat(1000);
    let week_ns = 7 * 86_400 * 1_000_000_000;
    let mut batches = vec![BatchBuilder::new().stream("a").row(-week_ns, "old").build()];
    for n in 0..60i64 {
        let mut batch = BatchBuilder::new();
        for app in ["a", "b"] {
            batch = batch.stream(app);
            for m in 0..100 {
                let timestamp = if n < 30 { n * 10 + m / 10 } else { 5_000 };
                batch = batch.row(timestamp, &format!("{n} {m} {line}"));
            }
        }
        batches.push(batch.build());
    }
    let head = head_of(batches);
    let tasks = pages(&head, TimeRange::ALL, Order::NewestFirst);
    assert!(tasks.len() >= 6, "{}", tasks.len());
    let bounds: Vec<(i64, i64)> = tasks.iter().map(|task| task.bounds()).collect();
    assert!(bounds.windows(2).all(|w| w[0].1 >= w[1].1), "newest first: {bounds:?}");
    let mut rows = BTreeSet::new();
    for task in tasks {
        let (bounds, memory) = (task.bounds(), task.memory_bytes());
        let page = decode(task);
        assert!(page.memory_bytes() <= memory, "{} <= {memory}", page.memory_bytes());
        let crowded = bounds.0 == 5_000;
        assert!(crowded || page.memory_bytes() <= PAGE_BYTES + PAGE_BYTES / 4);
        assert!(page.timestamps.iter().all(|t| bounds.0 <= *t && *t <= bounds.1));
        for row in crate::fixtures::rows_of(&page) {
            assert!(rows.insert(row), "a row came twice");
        }
    }
    assert_eq!(rows.len(), 12_001);
}

#[test]
fn a_head_cut_at_a_floor_keeps_the_later_frames_only() {
    let batch = |n: i64| BatchBuilder::new().stream("a").row(n, "x").build();
    let head = head_of((0..5).map(batch));
    let rest = head.since_floor(3);
    assert_eq!(rest.totals().rows, 2);
    let rows = decode_all(pages(&rest, TimeRange::ALL, Order::OldestFirst));
    assert_eq!(rows, [row("a", 3, "x"), row("a", 4, "x")]);
}

#[test]
fn an_insert_releases_memory_that_the_head_does_not_need() {
    let budget = sandur_memory::MemoryBudget::root("write", 1 << 20);
    let head = LogHead::new(Id(1), 0);
    let mut used = Vec::new();
    for n in 0..3 {
        let batch = BatchBuilder::new().stream("a").row(n, "hello").build();
        let memory = budget.reserve(super::push_bytes(&batch)).unwrap();
        head.insert(n as u64, batch, memory);
        used.push(budget.used());
    }
    assert_eq!(used[2] - used[1], used[1] - used[0]);
    assert!(used[0] > used[2] - used[1], "the first batch paid for the stream: {used:?}");
    assert_eq!(head.totals().memory_bytes, budget.used());
    drop(head);
    assert_eq!(budget.used(), 0);
}

/// Random rows of few streams, instants and lines, read while out of order: equal to sort and dedup.
#[test]
fn random_heads_equal_a_naive_sort() {
    let mut state = 7u64;
    let mut random = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for round in 0..30 {
        let head = LogHead::new(Id(1), 0);
        let mut expected = BTreeSet::new();
        let spread = 1 + random(200);
        for sequence in 0..40 {
            let mut batch = BatchBuilder::new();
            for _ in 0..1 + random(4) {
                let app = format!("app{}", random(3));
                batch = batch.stream(&app);
                for _ in 0..random(20) {
                    let timestamp = random(spread) as i64 + if round % 2 == 0 { sequence as i64 } else { 0 };
                    let line = format!("line {}", random(3));
                    batch = batch.row(timestamp, &line);
                    expected.insert((app.clone(), timestamp, line));
                }
            }
            let batch = batch.build();
            let memory = reserved(&batch);
            head.insert(sequence, batch, memory);
            let tasks = pages(&head, TimeRange::ALL, Order::Any);
            let mut rows = decode_all(tasks);
            let by_stream: Vec<_> = rows.iter().map(|(app, t, _)| (app.clone(), *t)).collect();
            for app in ["app0", "app1", "app2"] {
                let times: Vec<i64> = by_stream.iter().filter(|r| r.0 == app).map(|r| r.1).collect();
                assert!(times.is_sorted(), "round {round}: {times:?}");
            }
            rows.sort();
            assert!(rows.iter().eq(expected.iter()), "round {round}");
        }
    }
}
