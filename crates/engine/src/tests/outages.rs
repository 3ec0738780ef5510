//! A store that is unreachable, silent or slow, or that refuses only writes or only reads, in paused
//! time: what the engine detects and when, and what happens to pushes in flight.

use sandur_base::ErrorKind;
use sandur_runtime::Task;

use super::*;

const SEED: u64 = 11;
/// Within this many seconds the engine detects that nothing can be acknowledged.
const KNOWN_S: f64 = 15.0;

fn near() -> FaultPlan {
    FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() }
}

/// Plans in which no request reaches the store, no request is answered, or none is answered in time.
fn outages() -> [(&'static str, FaultPlan); 3] {
    [
        ("away", FaultPlan { refused: 1.0, ..near() }),
        ("silent", FaultPlan { hang: 1.0, ..near() }),
        ("slow", FaultPlan { extra: Duration::from_secs(10), ..near() }),
    ]
}

async fn world() -> (Env, FaultStore, Arc<Engine>) {
    let env = Env::simulated(SEED, START_NS);
    let bucket = near_bucket(&env, SEED);
    let engine = open_on(&bucket, &env, "one", small_options()).await;
    (env, bucket, engine)
}

async fn sleep(env: &Env, seconds: u64) {
    env.sleep(Duration::from_secs(seconds)).await;
}

/// Seconds until a condition holds, which is checked four times per second.
async fn until(env: &Env, holds: impl Fn() -> bool) -> f64 {
    let began = env.monotonic();
    while !holds() {
        assert!(env.monotonic() - began < Duration::from_secs(600), "seed {SEED}: it never holds");
        env.sleep(Duration::from_millis(250)).await;
    }
    (env.monotonic() - began).as_secs_f64()
}

fn push_later(engine: &Arc<Engine>, number: i64) -> Task<Result<Row, Error>> {
    let pushing = Arc::clone(engine);
    engine.env().spawn("push", async move { push_row(&pushing, "a", number, "x").await })
}

/// Neither waiting clients nor later ones are blocked, and rows in flight are stored once.
#[tokio::test(start_paused = true)]
async fn an_unreachable_store_refuses_pushes_at_once_and_accepts_them_again_later() {
    for (name, plan) in outages() {
        let (env, bucket, engine) = world().await;
        let mut all = push_rows(&engine, "a", 0..3).await;
        bucket.set_plan(plan);
        let began = env.monotonic();
        let waiting: Vec<_> = (10..13).map(|number| push_later(&engine, number)).collect();
        for push in waiting {
            let error = push.join().await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Stalled { is_under_way: true, .. }), "{name}: {error}");
            assert!(error.kind() == ErrorKind::Unavailable && error.may_be_stored(), "{name}");
        }
        assert!(env.monotonic() - began < Duration::from_secs(10), "{name}");
        let refused_at = env.monotonic();
        let error = push_row(&engine, "a", 20, "x").await.unwrap_err();
        assert!(matches!(error, Error::Stalled { is_under_way: false, .. }), "{name}: {error}");
        assert!(!error.may_be_stored() && env.monotonic() == refused_at, "{name}: at once");
        assert!(engine.writable().is_err() && engine.metrics().writable.get() == 0, "{name}");
        for _ in 0..120 {
            sleep(&env, 1).await;
            assert!(engine.writable().is_err(), "{name}: seed {SEED}");
        }
        bucket.set_plan(near());
        let took = until(&env, || engine.writable().is_ok()).await;
        assert!(took <= 20.0, "{name}: {took} s, seed {SEED}");
        for number in 10..13 {
            all.push(push_row(&engine, "a", number, "x").await.unwrap());
        }
        assert_eq!(read_all(&engine).await, all, "{name}: no row twice, and no refused row");
        engine.shutdown().await.unwrap();
        let next = open_on(&bucket, &env, "two", small_options()).await;
        assert_eq!(read_all(&next).await, all, "{name}");
    }
}

/// No push is in flight that would detect it.
#[tokio::test(start_paused = true)]
async fn an_idle_process_detects_the_begin_and_end_of_an_outage() {
    let denies_writes = ("denies writes", FaultPlan { denies_writes: true, ..near() });
    for (name, plan) in outages().into_iter().chain([denies_writes]) {
        for second in 0..10 {
            let (env, bucket, engine) = world().await;
            sleep(&env, 60 + second).await;
            assert!(engine.writable().is_ok(), "{name}");
            bucket.set_plan(plan.clone());
            let took = until(&env, || engine.writable().is_err()).await;
            assert!(took <= KNOWN_S, "{name}: {took} s, {second} s later, seed {SEED}");
            assert_eq!(engine.metrics().writable.get(), 0);
            sleep(&env, 60).await;
            bucket.set_plan(near());
            let took = until(&env, || engine.writable().is_ok()).await;
            assert!(took <= 20.0, "{name}: {took} s, {second} s later, seed {SEED}");
        }
    }
}

/// Only the heartbeat is refused: the WAL can be written, and one push shows it.
#[tokio::test(start_paused = true)]
async fn failed_heartbeats_do_not_block_a_working_wal() {
    let (env, bucket, engine) = world().await;
    for _ in 0..1_000 {
        bucket.fail_next(Op::Put, "members/", Fault::Denied);
    }
    until(&env, || engine.writable().is_err()).await;
    for number in 0..20 {
        push_row(&engine, "a", number, "x").await.unwrap();
        assert!(engine.writable().is_ok(), "after push {number}");
    }
}

/// The store returns a reason, and the refused push's error contains it.
#[tokio::test(start_paused = true)]
async fn a_refused_push_contains_the_error_of_the_store() {
    let plans = [
        (FaultPlan { denies_writes: true, ..near() }, "403 Forbidden, AccessDenied"),
        (FaultPlan { refused: 1.0, ..near() }, "connection refused"),
        (FaultPlan { hang: 1.0, ..near() }, "no answer within"),
    ];
    for (plan, reason) in plans {
        let (env, bucket, engine) = world().await;
        bucket.set_plan(plan);
        let error = push_row(&engine, "a", 0, "x").await.unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("sending it again is safe"), "{error}");
        let error = engine.writable().unwrap_err().to_string();
        assert!(error.contains("nothing was acknowledged for 9s") && error.contains(reason), "{error}");
        let _ = env;
    }
}

/// A push that is in no frame when the WAL stalls is refused instead of kept: its client sends it again,
/// and its memory is free for pushes that will be stored.
#[tokio::test(start_paused = true)]
async fn a_stall_refuses_pushes_in_no_frame_and_releases_their_memory() {
    let (env, bucket, engine) = world().await;
    let budget = engine.writer().options.write_budget.clone();
    let before = budget.used();
    bucket.set_plan(FaultPlan { hang: 1.0, ..near() });
    let mut pushes = Vec::new();
    for number in 0..40 {
        pushes.push(push_later(&engine, number));
        env.sleep(Duration::from_millis(200)).await;
    }
    let full = budget.used();
    let (mut given_up, mut unknown) = (0, 0);
    for push in pushes {
        match push.join().await.unwrap().unwrap_err() {
            Error::Stalled { is_under_way: false, .. } => given_up += 1,
            Error::Stalled { is_under_way: true, .. } => unknown += 1,
            other => panic!("{other}"),
        }
    }
    sleep(&env, 1).await;
    assert!(given_up > 0 && budget.used() < full, "{given_up} of 40 were refused, seed {SEED}");
    bucket.set_plan(near());
    until(&env, || engine.writable().is_ok()).await;
    sleep(&env, 10).await;
    let rows = read_all(&engine).await;
    assert!(rows.len() <= unknown, "{} rows of {unknown} pushes with an unknown outcome", rows.len());
    engine.flush().await.unwrap();
    assert_eq!(budget.used(), before, "refused pushes hold no memory");
}

/// Answers contain the age of the view in every process that cannot read other processes' rows.
#[tokio::test(start_paused = true)]
async fn an_old_view_adds_a_warning_until_it_is_read_again() {
    let denies_reads = ("denies reads", FaultPlan { denies_reads: true, ..near() });
    for (name, plan) in outages().into_iter().chain([denies_reads]) {
        let (env, bucket, engine) = world().await;
        let rows = push_rows(&engine, "a", 0..3).await;
        let warnings = async || {
            let context = context(&env);
            assert_eq!(read_all_with(&engine, &context).await, rows, "{name}");
            context.warnings()
        };
        sleep(&env, 30).await;
        assert_eq!(warnings().await, Vec::<String>::new());
        assert!(engine.metrics().view_age_seconds.get() < 2.0);
        bucket.set_plan(plan.clone());
        let took = until(&env, || engine.has_fresh_view().is_err()).await;
        assert!((3.5..=5.5).contains(&took), "{name}: {took} s, seed {SEED}");
        sleep(&env, 55).await;
        let warned = warnings().await;
        assert!(warned.len() == 1 && warned[0].contains("in the last 1m"), "{name}: {warned:?}");
        assert!(engine.metrics().view_age_seconds.get() > 59.0, "{name}");
        let is_away = engine.writable().is_err();
        assert_eq!(is_away, name != "denies reads", "{name}: the WAL is written without a read");
        bucket.set_plan(near());
        let took = until(&env, || engine.has_fresh_view().is_ok()).await;
        assert!(took <= 15.0, "{name}: {took} s, seed {SEED}");
        assert_eq!(warnings().await, Vec::<String>::new(), "{name}");
    }
}

/// A process whose poll interval exceeds the bound is not always stale.
#[tokio::test(start_paused = true)]
async fn the_bound_of_a_views_age_is_at_least_two_polls() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = near_bucket(&env, SEED);
    for (view_age_max, bound_s) in [(5, 60.0..=62.0), (90, 88.0..=91.0)] {
        let options = EngineOptions {
            poll_interval: Duration::from_secs(30),
            view_age_max: Duration::from_secs(view_age_max),
            ..small_options()
        };
        bucket.set_plan(near());
        let engine = open_on(&bucket, &env, "one", options).await;
        for _ in 0..200 {
            sleep(&env, 1).await;
            assert!(engine.has_fresh_view().is_ok());
        }
        // Just after a poll.
        until(&env, || engine.metrics().view_age_seconds.get() < 1.0).await;
        bucket.set_plan(FaultPlan { refused: 1.0, ..near() });
        let took = until(&env, || engine.has_fresh_view().is_err()).await;
        assert!(bound_s.contains(&took), "{took} s");
    }
    let options = EngineOptions { view_age_max: Duration::ZERO, ..small_options() };
    bucket.set_plan(near());
    let engine = open_on(&bucket, &env, "one", options).await;
    bucket.set_plan(FaultPlan { refused: 1.0, ..near() });
    sleep(&env, 1_000).await;
    assert!(engine.has_fresh_view().is_ok(), "0: no bound");
}

/// Memory is short because nothing is acknowledged, so a higher limit would not help.
#[tokio::test(start_paused = true)]
async fn pushes_that_wait_for_memory_fail_when_nothing_is_acknowledged() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = near_bucket(&env, SEED);
    let options = EngineOptions { write_budget: MemoryBudget::root("write", 1 << 20), ..small_options() };
    let engine = open_on(&bucket, &env, "one", options).await;
    bucket.set_plan(FaultPlan { hang: 1.0, ..near() });
    let push = |number: i64| {
        let pushing = Arc::clone(&engine);
        let line = "x".repeat(200_000);
        env.spawn("push", async move { push_row(&pushing, "a", number, &line).await })
    };
    let pushes: Vec<_> = (0..8).map(push).collect();
    for push in pushes {
        let error = push.join().await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Stalled { .. }), "{error}");
    }
}
