//! Several engines over one simulated bucket, in paused time.

use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Store, StoreOptions};

use super::*;

/// A bucket without faults, and a simulated environment.
fn world(seed: u64) -> (Env, FaultStore) {
    let env = Env::simulated(seed, START_NS);
    let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    let bucket = FaultStore::new(env.clone(), seed, plan);
    (env, bucket)
}

async fn open(env: &Env, client: &FaultStore) -> Arc<Engine> {
    open_with(env, client, small_options()).await
}

async fn open_with(env: &Env, client: &FaultStore, options: EngineOptions) -> Arc<Engine> {
    let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
    Engine::open(store, env.clone(), options).await.unwrap()
}

async fn sleep(env: &Env, seconds: u64) {
    env.sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn two_engines_answer_for_each_other() {
    let (env, bucket) = world(1);
    let (one, two) = (open(&env, &bucket.client("one")).await, open(&env, &bucket.client("two")).await);
    let first = push_rows(&one, "a", 0..10).await;
    let second = push_rows(&two, "b", 0..10).await;
    sleep(&env, 3).await;
    let all = sorted([first, second]);
    assert_eq!(read_all(&one).await, all);
    assert_eq!(read_all(&two).await, all);
    one.flush().await.unwrap();
    assert_eq!(read_all(&one).await, all);
    assert_eq!(read_all(&two).await, all, "before it reads the flush");
    sleep(&env, 3).await;
    assert_eq!(read_all(&two).await, all, "after it has read the flush");
    assert_eq!(two.view().head_totals().rows, 10, "flushed rows of the other left the head");
    let three = open(&env, &bucket.client("three")).await;
    assert_eq!(read_all(&three).await, all, "at once when it opens");
    one.shutdown().await.unwrap();
    two.shutdown().await.unwrap();
    three.shutdown().await.unwrap();
    let four = open(&env, &bucket.client("four")).await;
    assert_eq!(four.view().heads.len(), 0);
    assert_eq!(read_all(&four).await, all);
}

/// A caller may give up a shutdown in between; the next shutdown completes it.
#[tokio::test(start_paused = true)]
async fn an_interrupted_shutdown_is_completed_by_the_next() {
    let mut given_up = 0;
    for patience in (1..150).step_by(12) {
        let (env, bucket) = world(1);
        let engine = open(&env, &bucket.client("one")).await;
        let rows = push_rows(&engine, "a", 0..10).await;
        let first = env.timeout(Duration::from_millis(patience), engine.shutdown()).await;
        given_up += usize::from(first.is_none());
        engine.shutdown().await.unwrap();
        engine.shutdown().await.unwrap();
        let next = open(&env, &bucket.client("two")).await;
        assert_eq!(next.view().heads.len(), 0, "everything is in blocks, given up after {patience} ms");
        assert_eq!(read_all(&next).await, rows);
    }
    assert!(given_up > 2, "{given_up}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_writer_is_read_and_adopted() {
    let (env, bucket) = world(2);
    let (one, two) = (open(&env, &bucket.client("one")).await, open(&env, &bucket.client("two")).await);
    let three = open(&env, &bucket.client("three")).await;
    let dead = one.incarnation();
    let rows = push_rows(&one, "a", 0..10).await;
    one.flush().await.unwrap();
    let all = sorted([rows, push_rows(&one, "a", 10..20).await]);
    drop(one);
    for second in 0..90 {
        sleep(&env, 1).await;
        if second > 2 {
            assert_eq!(read_all(&two).await, all, "after {second} s");
            assert_eq!(read_all(&three).await, all, "after {second} s");
        }
    }
    let snapshot = two.catalog().refresh().await.unwrap();
    assert!(snapshot.writer(dead).is_none_or(|writer| writer.is_sealed()), "the dead writer is sealed");
    assert_eq!(two.view().head_totals().rows, 0);
    assert_eq!(two.metrics().adoptions.get() + three.metrics().adoptions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_zombie_is_fenced_and_continues_as_a_new_incarnation() {
    let (env, bucket) = world(3);
    let client = bucket.client("zombie");
    let (zombie, other) = (open(&env, &client).await, open(&env, &bucket.client("other")).await);
    let before = zombie.incarnation();
    let mut all = push_rows(&zombie, "a", 0..10).await;
    client.cut(true);
    let pushed = env.spawn("push", {
        let zombie = Arc::clone(&zombie);
        async move { push_row(&zombie, "a", 99, "in vain").await }
    });
    sleep(&env, 120).await;
    assert_eq!(other.metrics().adoptions.get(), 1);
    client.cut(false);
    let outcome = pushed.join().await.unwrap();
    assert!(outcome.is_err(), "the push was not acknowledged: {outcome:?}");
    sleep(&env, 30).await;
    assert_ne!(zombie.incarnation(), before);
    all.extend(push_rows(&zombie, "b", 0..5).await);
    sleep(&env, 5).await;
    let unacknowledged =
        |rows: Vec<Row>| rows.into_iter().filter(|row| row.2 != "in vain").collect::<Vec<_>>();
    assert_eq!(unacknowledged(read_all(&zombie).await), all);
    assert_eq!(unacknowledged(read_all(&other).await), all);
    zombie.shutdown().await.unwrap();
    other.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn acknowledgements_are_in_order_whatever_the_store_finishes_first() {
    let (env, bucket) = world(4);
    let engine = open(&env, &bucket.client("one")).await;
    let prefix = format!("wal/{}", engine.incarnation());
    bucket.fail_next(Op::Create, &format!("{prefix}/{:020}", 1), Fault::Slow(Duration::from_secs(4)));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut pushes = Vec::new();
    for n in 0..4 {
        let (engine, order) = (Arc::clone(&engine), Arc::clone(&order));
        pushes.push(env.spawn("push", async move {
            push_row(&engine, "a", n, "x").await.unwrap();
            order.lock().unwrap().push(n);
        }));
        env.sleep(Duration::from_millis(600)).await;
    }
    for push in pushes {
        push.join().await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    assert_eq!(engine.metrics().wal_frames.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn an_idle_server_acknowledges_after_one_request() {
    let (env, bucket) = world(5);
    let engine = open(&env, &bucket.client("one")).await;
    for n in 0..100 {
        let start = env.monotonic();
        push_row(&engine, "a", n, "x").await.unwrap();
        let waited = env.monotonic() - start;
        // The request takes 10 ms; timers of the simulation round up.
        assert!(waited <= Duration::from_millis(12), "push {n} waited {waited:?}");
    }
    assert_eq!(engine.metrics().wal_frames.get(), 100);
}

#[tokio::test(start_paused = true)]
async fn pushes_gather_while_a_request_is_in_flight() {
    let (env, bucket) = world(5);
    let engine = open(&env, &bucket.client("one")).await;
    let mut pushes = Vec::new();
    for n in 0..9 {
        let engine = Arc::clone(&engine);
        pushes.push(env.spawn("push", async move { push_row(&engine, "a", n, "x").await.unwrap() }));
        env.sleep(Duration::from_millis(1)).await;
    }
    for push in pushes {
        push.join().await.unwrap();
    }
    assert_eq!(engine.metrics().wal_frames.get(), 2);
}

/// Beyond the budget a client waits, but never longer than the linger.
#[tokio::test(start_paused = true)]
async fn a_spent_budget_makes_pushes_wait_but_not_longer_than_the_linger() {
    let (env, bucket) = world(5);
    let options = EngineOptions { wal_requests_burst: 10.0, ..small_options() };
    let engine = open_with(&env, &bucket.client("one"), options).await;
    let start = env.monotonic();
    for n in 0..50 {
        let pushed = env.monotonic();
        push_row(&engine, "a", n, "x").await.unwrap();
        let waited = env.monotonic() - pushed;
        assert!(waited <= Duration::from_millis(511), "{waited:?}");
    }
    let took = env.monotonic() - start;
    assert!(took > Duration::from_secs(19), "10 at once and 2 a second: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_store_refuses_pushes_in_time_and_accepts_them_later() {
    let (env, bucket) = world(6);
    let client = bucket.client("one");
    let engine = open(&env, &client).await;
    let mut all = push_rows(&engine, "a", 0..3).await;
    client.cut(true);
    let start = env.monotonic();
    let error = push_row(&engine, "a", 10, "maybe").await.unwrap_err();
    assert!(matches!(error, Error::Stalled { is_under_way: true, .. }), "{error}");
    assert!(env.monotonic() - start < Duration::from_secs(10));
    client.cut(false);
    // The segment is written later. The push was not acknowledged, and sending it again stores it once.
    while engine.writable().is_err() {
        sleep(&env, 1).await;
        assert!(env.monotonic() - start < Duration::from_secs(20));
    }
    all.push(push_row(&engine, "a", 10, "maybe").await.unwrap());
    assert_eq!(read_all(&engine).await, all);
    engine.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn lost_answers_and_errors_lose_and_duplicate_no_row() {
    let (env, bucket) = world(7);
    let engine = open(&env, &bucket.client("one")).await;
    let mut all = Vec::new();
    for n in 0..30 {
        for (at, fault) in [(3, Fault::LostAck), (5, Fault::Failed), (7, Fault::AppliedTwice)] {
            if n % 8 == at {
                for (op, prefix) in [(Op::Create, "wal/"), (Op::Create, "catalog/"), (Op::Put, "blocks/")] {
                    bucket.fail_next(op, prefix, fault);
                }
            }
        }
        all.push(push_row(&engine, "a", n, &format!("line {n}")).await.unwrap());
        if n % 10 == 9 {
            engine.flush().await.unwrap();
        }
        assert_eq!(read_all(&engine).await, all);
    }
    engine.shutdown().await.unwrap();
    let engine = open(&env, &bucket.client("two")).await;
    assert_eq!(read_all(&engine).await, all);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_exceeds_memory_adds_a_warning_and_is_adopted_in_parts() {
    let (env, bucket) = world(8);
    let one = open(&env, &bucket.client("one")).await;
    let options = EngineOptions { write_budget: MemoryBudget::root("write", 1 << 20), ..small_options() };
    let two = open_with(&env, &bucket.client("two"), options).await;
    let mut all = Vec::new();
    for n in 0..40 {
        let line = format!("{n} {}", "x".repeat(50_000));
        all.push(push_row(&one, "a", n, &line).await.unwrap());
    }
    sleep(&env, 3).await;
    let missing = warnings_of(&two).await;
    assert!(missing.len() == 1 && missing[0].contains("followed writers"), "{missing:?}");
    assert!(read_all(&two).await.len() < all.len());
    one.flush().await.unwrap();
    sleep(&env, 3).await;
    assert_eq!(warnings_of(&two).await, Vec::<String>::new());
    assert_eq!(read_all(&two).await, sorted([all.clone()]));
    for n in 40..80 {
        let line = format!("{n} {}", "x".repeat(50_000));
        all.push(push_row(&one, "a", n, &line).await.unwrap());
    }
    drop(one);
    sleep(&env, 60).await;
    assert_eq!(two.metrics().adoptions.get(), 1);
    assert_eq!(warnings_of(&two).await, Vec::<String>::new());
    assert_eq!(read_all(&two).await, sorted([all]));
}

#[tokio::test(start_paused = true)]
async fn pushes_into_heads_that_cannot_be_flushed_fail_with_the_cause_and_may_be_repeated() {
    let (env, bucket) = world(9);
    let options = EngineOptions { write_budget: MemoryBudget::root("write", 1 << 20), ..small_options() };
    let engine = open_with(&env, &bucket.client("one"), options).await;
    for _ in 0..60 {
        bucket.fail_next(Op::Put, "blocks/", Fault::Failed);
        bucket.fail_next(Op::Create, "blocks/", Fault::Failed);
    }
    let mut all = Vec::new();
    let refused = async {
        for n in 0.. {
            match push_row(&engine, "a", n, &format!("{n} {}", "x".repeat(100_000))).await {
                Ok(row) => all.push(row),
                // The first flush has not given up yet.
                Err(Error::HeadsFull(_)) => {}
                Err(error) => return error,
            }
        }
        unreachable!("memory is full before the numbers end");
    };
    let error = env.timeout(Duration::from_secs(3_600), refused).await.expect("the flush gives up");
    assert!(matches!(error, Error::FlushesFail(_)), "{error}");
    // Names of blocks contain names of tenants.
    let text = error.to_string();
    assert!(text.contains("the server's log says why") && !text.contains("blocks/"), "{text}");
    assert!(error.kind() == sandur_base::ErrorKind::Unavailable && !error.may_be_stored(), "{error:?}");
    let failing = engine.flushes_fail_for().expect("the last flush failed");
    assert!(engine.writable().is_ok(), "a store that refuses blocks still accepts the WAL");
    let metrics = engine.metrics();
    assert_eq!(metrics.flush_failing_seconds.get(), failing.as_secs() as i64);
    assert!(metrics.unflushed_seconds.get() >= metrics.flush_failing_seconds.get());
    assert_eq!(read_all(&engine).await, sorted([all.clone()]));
    let again = async {
        loop {
            if let Ok(row) = push_row(&engine, "a", 50, &"x".repeat(100_000)).await {
                return row;
            }
        }
    };
    all.push(env.timeout(Duration::from_secs(36_000), again).await.expect("the store accepts blocks again"));
    assert_eq!(read_all(&engine).await, sorted([all]));
    engine.flush().await.unwrap();
    assert_eq!(engine.flushes_fail_for(), None);
    assert_eq!(
        (engine.metrics().flush_failing_seconds.get(), engine.metrics().unflushed_seconds.get()),
        (0, 0)
    );
    engine.shutdown().await.unwrap();
}

/// After a writer is sealed and before the blocks with its rows are committed, its own flush is refused,
/// and the catalog has no newer state.
#[tokio::test(start_paused = true)]
async fn a_fenced_writer_waits_before_it_flushes_again() {
    let (env, bucket) = world(10);
    let engine = open(&env, &bucket.client("one")).await;
    let rows = push_rows(&engine, "a", 0..10).await;
    let sealed = engine.catalog().seal(env.new_id(), engine.incarnation(), 1_000, Vec::new()).await;
    sealed.unwrap();
    let flushed = env.timeout(Duration::from_secs(5), engine.flush()).await;
    let error = flushed.expect("the flush returns without retrying at once").unwrap_err();
    assert!(matches!(error, Error::Overtaken { .. }), "{error}");
    let before = bucket.trace().len();
    sleep(&env, 60).await;
    let asked = bucket.trace().len() - before;
    assert!(asked < 1_000, "{asked} requests in a minute");
    assert_eq!(read_all(&engine).await, rows);
}
