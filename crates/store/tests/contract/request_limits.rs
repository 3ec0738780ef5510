//! The limits of the client towards a store with problems, from seeds and in simulated time: how many
//! requests it sends, which of them wait, and which do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sandur_runtime::{Env, Task};
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Class, Error, Intent, Operation, RequestLimits, Store, StoreOptions, TenantRates, Usage};

use crate::faults::{World, simulate};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn options(request_limits: RequestLimits) -> StoreOptions {
    StoreOptions { request_limits, ..StoreOptions::default() }
}

fn used(store: &Store, class: Class, operation: Operation) -> Usage {
    let all = store.meter().snapshot();
    let found = all.into_iter().find(|u| u.class == class && u.operation == operation);
    found.unwrap_or(Usage::none(class, operation))
}

fn retries_percent(store: &Store) -> f64 {
    let all = store.meter().snapshot();
    let (requests, retries) = all.iter().fold((0, 0), |(r, t), u| (r + u.requests, t + u.retries));
    100.0 * retries as f64 / requests as f64
}

/// The results of some readers.
#[derive(Default)]
struct Tally {
    done: AtomicU64,
    failed: AtomicU64,
}

/// `count` readers of blocks, each of which reads one range after the other until `until`.
fn readers(
    env: &Env,
    store: &Store,
    tenant: &str,
    count: u32,
    until: Duration,
) -> (Arc<Tally>, Vec<Task<()>>) {
    let tally = Arc::new(Tally::default());
    let tasks = (0..count).map(|n| {
        let (env, store, tally, tenant) = (env.clone(), store.clone(), Arc::clone(&tally), tenant.to_owned());
        env.clone().spawn("reader", async move {
            // Each reader has its own range, because equal reads would share a request.
            let range = u64::from(n)..u64::from(n) + 50 + tenant.len() as u64;
            while env.monotonic() < until {
                let intent = Intent::block().for_tenant(&tenant);
                let read = store.get_range("blocks/b", range.clone(), intent).await;
                let counter = if read.is_ok() { &tally.done } else { &tally.failed };
                counter.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    (Arc::clone(&tally), tasks.collect())
}

async fn all(tasks: Vec<Task<()>>) {
    for task in tasks {
        task.join().await.unwrap();
    }
}

/// Creates a WAL object and a catalog entry twice a second until `until`; returns the longest time of a
/// pair, or the first error.
fn ingest(env: &Env, store: &Store, until: Duration) -> Task<Result<Duration, Error>> {
    let (env, store) = (env.clone(), store.clone());
    env.clone().spawn("ingest", async move {
        let (mut longest, mut number) = (Duration::ZERO, 0);
        while env.monotonic() < until {
            let began = env.monotonic();
            number += 1;
            let bytes = Bytes::from(format!("{number}"));
            store.create(&format!("wal/a/{number}"), bytes.clone(), Intent::wal()).await?;
            store.create(&format!("catalog/{number}"), bytes, Intent::catalog()).await?;
            longest = longest.max(env.monotonic() - began);
            env.sleep(Duration::from_millis(500)).await;
        }
        Ok(longest)
    })
}

async fn filled(world: &World, request_limits: RequestLimits) -> Store {
    world.faults.quiet(true);
    let store = Store::from_fault_store(world.faults.clone(), world.env.clone(), options(request_limits));
    store.put("blocks/b", Bytes::from(vec![7; 4_200]), Intent::block()).await.unwrap();
    world.faults.quiet(false);
    store
}

/// Goal: 200 readers need far more than a store provides that accepts 100 requests per second and
/// refuses the rest. No read fails, the limit of the store is nearly used, few requests are retries, and
/// writes are acknowledged.
#[test]
fn queries_slow_down_and_ingest_continues_when_the_store_throttles() {
    for seed in 0..3 {
        simulate(seed, FaultPlan::limited(100.0), |world| async move {
            let store = filled(&world, RequestLimits::default()).await;
            let end = world.env.monotonic() + seconds(60);
            let (tally, tasks) = readers(&world.env, &store, "a", 200, end);
            let ingest = ingest(&world.env, &store, end);
            let longest = ingest.join().await.unwrap().unwrap();
            all(tasks).await;
            let done = tally.done.load(Ordering::Relaxed);
            assert_eq!(tally.failed.load(Ordering::Relaxed), 0, "seed {seed}");
            assert!((3_500..=6_200).contains(&done), "seed {seed}: {done} reads in 60 s");
            let percent = retries_percent(&store);
            assert!(percent > 0.5 && percent <= 10.0, "seed {seed}: {percent} % retries");
            assert!(longest < seconds(6), "seed {seed}: an acknowledgement took {longest:?}");
        });
    }
}

/// A store with a high latency, so that a simulated minute does not need too many requests.
fn leisurely() -> FaultPlan {
    FaultPlan { latency_median: Duration::from_millis(80), ..FaultPlan::latency_only() }
}

/// Goal: for twenty seconds the store refuses nine of ten requests. Reads wait for the end of this time
/// instead of failing, few requests are spent on testing the store, and ingest continues meanwhile.
#[test]
fn reads_wait_until_the_store_stops_throttling() {
    for seed in 0..3 {
        simulate(seed, leisurely(), |world| async move {
            let store = filled(&world, RequestLimits::default()).await;
            let (env, start) = (&world.env, world.env.monotonic());
            let (tally, tasks) = readers(env, &store, "a", 40, start + seconds(60));
            env.sleep(seconds(15)).await;
            let before = used(&store, Class::Block, Operation::Get).requests;
            world.faults.set_plan(FaultPlan { throttled: 0.9, ..leisurely() });
            let acknowledged = ingest(env, &store, start + seconds(35));
            env.sleep(seconds(20)).await;
            let within = used(&store, Class::Block, Operation::Get).requests - before;
            world.faults.set_plan(leisurely());
            acknowledged.join().await.unwrap().unwrap();
            all(tasks).await;
            let done = tally.done.load(Ordering::Relaxed);
            assert_eq!(tally.failed.load(Ordering::Relaxed), 0, "seed {seed}");
            assert!(within < before / 20, "seed {seed}: {before} requests before, {within} within");
            assert!(done > before * 7 / 5, "seed {seed}: {done} in total, {before} before");
            let percent = retries_percent(&store);
            assert!(percent <= 10.0, "seed {seed}: {percent} % retries");
        });
    }
}

/// Goal: the window adapts to the capacity of the store, from above and from below.
#[test]
fn windows_adapt_to_the_capacity_of_the_store() {
    let window_after = |seed, plan: FaultPlan| {
        simulate(seed, plan, |world| async move {
            let store = filled(&world, RequestLimits::default()).await;
            let (_, tasks) = readers(&world.env, &store, "a", 140, world.env.monotonic() + seconds(25));
            all(tasks).await;
            let mut registry = prometheus_client::registry::Registry::default();
            store.meter().register(&mut registry);
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            let line = text.lines().find_map(|l| l.strip_prefix("sandur_store_lane_window{lane=\"read\"} "));
            line.unwrap().parse::<u32>().unwrap()
        })
    };
    for seed in 0..1 {
        assert_eq!(window_after(seed, leisurely()), 128, "seed {seed}: the store has no limit");
        // 20 ms each (with a long tail): 1,000 per second are 20 to 30 concurrent requests.
        let window = window_after(seed, FaultPlan::limited(1_000.0));
        assert!((12..=60).contains(&window), "seed {seed}: {window}");
        assert_eq!(window_after(seed, FaultPlan::limited(50.0)), 4, "seed {seed}: the floor");
    }
}

/// Goal: two of a hundred reads reach a slow machine. Second requests reduce the 99th percentile to
/// about twice the usual time, and are at most one in twenty.
#[test]
fn second_requests_reduce_the_tail_latency_within_their_budget() {
    let slowest_percent = |seed, hedge_percent| {
        let plan = FaultPlan { spike: 0.02, spike_max: seconds(4), ..FaultPlan::latency_only() };
        simulate(seed, plan, |world| async move {
            let store = filled(&world, RequestLimits { hedge_percent, ..RequestLimits::default() }).await;
            let mut times = Vec::new();
            for n in 0..4_000u64 {
                let began = world.env.monotonic();
                store.get_range("blocks/b", n..n + 100, Intent::block()).await.unwrap();
                times.push(world.env.monotonic() - began);
            }
            times.sort_unstable();
            let (won, not_won) = store.meter().hedges();
            let sent = used(&store, Class::Block, Operation::Get);
            assert_eq!(sent.requests, 4_000 + won + not_won, "seed {seed}");
            assert_eq!(sent.cancelled, not_won, "seed {seed}: second requests that lose are dropped");
            (times[times.len() * 99 / 100], won, won + not_won)
        })
    };
    for seed in 0..2 {
        let (without, _, none) = slowest_percent(seed, 0);
        let (with, won, made) = slowest_percent(seed, 5);
        assert!(none == 0 && without > seconds(1), "seed {seed}: {without:?} without");
        assert!(with < Duration::from_millis(300), "seed {seed}: {with:?} with, {without:?} without");
        assert!(won >= 50 && made <= 4_000 / 20 + 16, "seed {seed}: {won} of {made} won");
    }
}

/// Goal: when every read suddenly becomes slow, second requests stay within their budget; when the store
/// throttles, there are none.
#[test]
fn second_requests_do_not_overload_a_slow_store() {
    for seed in 0..5 {
        simulate(seed, FaultPlan::latency_only(), |world| async move {
            let store = filled(&world, RequestLimits::default()).await;
            let (_, tasks) = readers(&world.env, &store, "a", 8, world.env.monotonic() + seconds(10));
            all(tasks).await;
            let made = |store: &Store| store.meter().hedges().0 + store.meter().hedges().1;
            let (reads, hedges) = (used(&store, Class::Block, Operation::Get).requests, made(&store));
            world.faults.set_plan(FaultPlan {
                spike: 1.0,
                spike_max: seconds(8),
                ..FaultPlan::latency_only()
            });
            let (_, tasks) = readers(&world.env, &store, "a", 32, world.env.monotonic() + seconds(60));
            all(tasks).await;
            let reads = used(&store, Class::Block, Operation::Get).requests - reads;
            let extra = made(&store) - hedges;
            assert!(extra > 10 && extra <= reads / 20 + 16, "seed {seed}: {extra} for {reads} reads");
            world.faults.fail_next(Op::Get, "blocks/", Fault::Throttled);
            store.get("blocks/b", Intent::block()).await.unwrap();
            let before = made(&store);
            let (_, tasks) = readers(&world.env, &store, "a", 32, world.env.monotonic() + seconds(8));
            all(tasks).await;
            assert_eq!(made(&store), before, "seed {seed}: the store had throttled");
        });
    }
}

/// Goal: a tenant that requests a hundred times as much gets its rate and no more, and does not affect
/// another tenant.
#[test]
fn a_greedy_tenant_does_not_slow_another() {
    let rates =
        TenantRates { requests_per_second: 50, requests_burst: 100, bytes_per_second: 0, bytes_burst: 0 };
    let request_limits = RequestLimits { rates_of: Arc::new(move |_| rates), ..RequestLimits::default() };
    for seed in 0..3 {
        let request_limits = request_limits.clone();
        simulate(seed, FaultPlan::latency_only(), |world| async move {
            let store = filled(&world, request_limits).await;
            let end = world.env.monotonic() + seconds(60);
            let (greedy, some) = readers(&world.env, &store, "greedy", 100, end);
            let (modest, others) = readers(&world.env, &store, "small", 1, end);
            all(some).await;
            all(others).await;
            let (greedy, modest) = (greedy.done.load(Ordering::Relaxed), modest.done.load(Ordering::Relaxed));
            // 100 at once, 50 per second, and one of each reader after the end.
            assert!((3_000..=3_300).contains(&greedy), "seed {seed}: {greedy}");
            // One reader at a time: ~23 ms each, ~40 per second, within its rate.
            assert!((1_800..=3_000).contains(&modest), "seed {seed}: {modest}");
        });
    }
}

/// Goal: with few slots, tenants are served round-robin: a single read of one tenant does not wait for
/// the thousand of another.
#[test]
fn tenants_are_served_round_robin_when_slots_are_scarce() {
    simulate(9, FaultPlan { latency_sigma: 0.0, ..FaultPlan::latency_only() }, |world| async move {
        let request_limits =
            RequestLimits { concurrent_reads_max: 2, hedge_percent: 0, ..RequestLimits::default() };
        let store = filled(&world, request_limits).await;
        let began = world.env.monotonic();
        let crowd: Vec<_> = (0..1_000u64)
            .map(|n| {
                let store = store.clone();
                let intent = Intent::block().for_tenant("crowd");
                world.env.spawn("crowd", async move {
                    store.get_range("blocks/b", n..n + 3, intent).await.unwrap();
                })
            })
            .collect();
        world.env.sleep(Duration::from_millis(1)).await;
        store.get_range("blocks/b", 0..9, Intent::block().for_tenant("single")).await.unwrap();
        let single = world.env.monotonic() - began;
        all(crowd).await;
        let crowd = world.env.monotonic() - began;
        assert!(single < seconds(2) && crowd > seconds(9), "{single:?} and {crowd:?}");
    });
}

/// Goal: after `Retry-After`, the client waits at least as long before the next request.
#[test]
fn retry_after_is_respected() {
    simulate(2, FaultPlan::none(), |world| async move {
        let store = filled(&world, RequestLimits::default()).await;
        world.faults.fail_next(Op::Get, "blocks/", Fault::RetryAfter(seconds(9)));
        world.faults.fail_next(Op::Create, "wal/", Fault::RetryAfter(seconds(4)));
        let began = world.env.monotonic();
        let took = |from| world.env.monotonic() - from;
        store.create("wal/a/0", Bytes::from("x"), Intent::wal()).await.unwrap();
        assert!(took(began) > seconds(4) && took(began) < seconds(5), "{:?}", took(began));
        let began = world.env.monotonic();
        store.get("blocks/b", Intent::block()).await.unwrap();
        assert!(took(began) > seconds(9) && took(began) < seconds(10), "{:?}", took(began));
    });
}

/// Goal: throttling and all limits of the client together are the same for the same seed.
#[test]
fn one_seed_gives_one_trace_with_all_limits() {
    let trace = |seed| {
        simulate(seed, FaultPlan { spike: 0.05, ..FaultPlan::limited(200.0) }, |world| async move {
            let store = filled(&world, RequestLimits::default()).await;
            let (_, tasks) = readers(&world.env, &store, "a", 50, world.env.monotonic() + seconds(10));
            all(tasks).await;
            world.faults.trace()
        })
    };
    let first = trace(3);
    assert!(first.len() > 1_000, "{}", first.len());
    assert!(first == trace(3), "one seed");
    assert!(first != trace(4), "two seeds");
}

#[test]
fn a_distant_store_has_latency_only_for_reads() {
    simulate(1, FaultPlan::distant(), |world| async move {
        let store = Store::from_fault_store(
            FaultStore::new(world.env.clone(), 1, FaultPlan::distant()),
            world.env.clone(),
            StoreOptions::default(),
        );
        let began = world.env.monotonic();
        store.put("blocks/b", Bytes::from("xyz"), Intent::block()).await.unwrap();
        assert_eq!(world.env.monotonic(), began);
        store.get("blocks/b", Intent::block()).await.unwrap();
        let took = world.env.monotonic() - began;
        assert!(took >= Duration::from_millis(30) && took < Duration::from_millis(33), "{took:?}");
    });
}

/// Goal: the figures for operators are consistent.
#[test]
fn the_report_and_the_metrics_show_requests_and_costs() {
    simulate(1, FaultPlan::distant(), |world| async move {
        let store = Store::from_fault_store(world.faults.clone(), world.env.clone(), StoreOptions::default());
        store.put("blocks/b", Bytes::from(vec![1; 5_000_000]), Intent::block()).await.unwrap();
        let ranges = [0..10, 20..30, 4_000_000..4_000_010];
        for _ in 0..100 {
            store.get_ranges("blocks/b", &ranges, Intent::block()).await.unwrap();
        }
        world.env.sleep(seconds(600) - world.env.monotonic()).await;
        let report = store.cost_report();
        // 1 put for 5 $ and 200 gets for 0.4 $ per million, 4,320 times ten minutes in a month.
        for said in [
            "In 10m memory:// got 201 requests",
            "300 requested ranges took 200 reads, with 1000B",
            "cost $0.0001; ",
            "a month costs about $0.37,",
        ] {
            assert!(report.contains(said), "{said} is not in\n{report}");
        }
        let mut registry = prometheus_client::registry::Registry::default();
        store.meter().register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "sandur_store_ranges_wanted_total 300",
            "sandur_store_ranges_read_total 200",
            "sandur_store_ranges_extra_bytes_total 1000",
            "sandur_store_lane_window{lane=\"wal\"} 16",
            "sandur_store_cost_dollars_per_month 0.367",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let page = include_str!("../../../../docs/operations.md");
        for metric in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
            let name = metric.split(' ').next().unwrap();
            assert!(page.contains(name), "{name} is not explained in docs/operations.md");
        }
    });
}
