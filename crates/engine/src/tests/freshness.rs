//! What a process knows of the rows of other processes, when, and what it says about the rest: slow, hanging
//! and dead writers, a store that is away, a process that was stopped, little memory, and many processes.

use std::sync::atomic::{AtomicBool, Ordering};

use sandur_base::ErrorKind;
use sandur_model::{Labels, SampleBatch};
use sandur_runtime::Task;
use sandur_store::{Class, Operation};

use super::*;

const SEED: u64 = 17;
const WARNING: &str = "may be missing";

fn bucket_with(env: &Env, latency_ms: u64) -> FaultStore {
    let plan = FaultPlan { latency_median: Duration::from_millis(latency_ms), ..FaultPlan::none() };
    FaultStore::new(env.clone(), SEED, plan)
}

async fn sleep(env: &Env, seconds: u64) {
    env.sleep(Duration::from_secs(seconds)).await;
}

/// GETs that an engine has sent, of a class or of all.
fn gets(engine: &Engine, class: Option<Class>) -> u64 {
    let is_one = |class_of: Class| class.is_none_or(|class| class == class_of);
    let usage = engine.store().meter().snapshot();
    usage
        .iter()
        .filter(|one| one.operation == Operation::Get && is_one(one.class))
        .map(|one| one.requests)
        .sum()
}

/// Whether an engine has this row.
async fn has(engine: &Arc<Engine>, row: &Row) -> bool {
    read_all(engine).await.contains(row)
}

/// Finding 1 of the trial: slow reads of one writer's WAL made rows of another writer 44 s stale, without a
/// warning.
#[tokio::test(start_paused = true)]
async fn a_wal_that_is_read_slowly_delays_no_other_writer_and_answers_say_so() {
    for fault in [Fault::Slow(Duration::from_secs(9)), Fault::Hang, Fault::Failed] {
        let env = Env::simulated(SEED, START_NS);
        let bucket = bucket_with(&env, 20);
        let open = async |name| open_on(&bucket, &env, name, small_options()).await;
        let (slow, well, reader) = (open("slow").await, open("well").await, open("reader").await);
        sleep(&env, 5).await;
        let wal = format!("wal/{}", slow.incarnation());
        (0..2_000).for_each(|_| bucket.fail_next(Op::Get, &wal, fault));
        let (mut oldest, mut answers, mut warned) = (Duration::ZERO, 0, 0);
        for second in 0..60 {
            push_row(&slow, "slow", second, "x").await.unwrap();
            let row = push_row(&well, "well", second, "x").await.unwrap();
            let acknowledged = env.monotonic();
            while !has(&reader, &row).await {
                env.sleep(Duration::from_millis(50)).await;
            }
            oldest = oldest.max(env.monotonic() - acknowledged);
            env.sleep(Duration::from_millis(250)).await;
            answers += 1;
            let warnings = warnings_of(&reader).await;
            let is_named = |text: &String| text.contains(&slow.incarnation().to_string());
            assert!(warnings.iter().all(is_named), "{fault:?}: {warnings:?}");
            warned += usize::from(!warnings.is_empty());
        }
        println!(
            "{fault:?}: rows of a healthy writer at most {oldest:?} old, {warned} of {answers} answers warn"
        );
        assert!(oldest <= Duration::from_millis(1_800), "{fault:?}: {oldest:?}");
        assert!(warned + 10 >= answers, "{fault:?}: {warned} of {answers}");
        assert!(reader.has_fresh_view().is_ok(), "one writer does not decide readiness");
        bucket.clear_scripts();
        sleep(&env, 40).await;
        assert_eq!(warnings_of(&reader).await, Vec::<String>::new(), "{fault:?}");
        assert_eq!(read_all(&reader).await.len(), 120, "{fault:?}");
    }
}

/// A process that was stopped has an old view before any of its tasks has run.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_is_complete_or_says_how_old_it_is() {
    for is_cut in [true, false] {
        let env = Env::simulated(SEED, START_NS);
        let bucket = bucket_with(&env, 20);
        let client = bucket.client("stopped");
        let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
        let stopped = Engine::open(store, env.clone(), small_options()).await.unwrap();
        let other = open_on(&bucket, &env, "other", small_options()).await;
        sleep(&env, 10).await;
        assert_eq!(warnings_of(&stopped).await, Vec::<String>::new());
        let row = push_row(&other, "a", 1, "x").await.unwrap();
        client.cut(is_cut);
        tokio::time::advance(Duration::from_secs(60)).await;
        let (context, began) = (context(&env), env.monotonic());
        let rows = read_all_with(&stopped, &context).await;
        let warnings = context.warnings();
        assert!(env.monotonic() - began <= Duration::from_secs(1), "it waits for a short time only");
        match is_cut {
            true => assert!(warnings[0].contains("in the last 1m"), "{warnings:?}"),
            false => assert!(rows == [row] && warnings.is_empty(), "{rows:?} {warnings:?}"),
        }
    }
}

/// A tail is not a query: while only tails ran, writers without new rows were read once a minute.
#[tokio::test(start_paused = true)]
async fn a_follower_receives_rows_of_others_soon_and_is_told_when_they_may_be_late() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let open = async |name| open_on(&bucket, &env, name, small_options()).await;
    let (writer, reader) = (open("writer").await, open("reader").await);
    sleep(&env, 5).await;
    let mut follow = reader.sources().logs.follow(&context(&env), crate::fixtures::app_is("a")).unwrap();
    for _ in 0..300 {
        sleep(&env, 1).await;
        assert_eq!(follow.keep_up(), Vec::<String>::new());
    }
    let row = push_row(&writer, "a", 1, "x").await.unwrap();
    let acknowledged = env.monotonic();
    let Some(sandur_query::Followed::Page(page)) = follow.next().await else { panic!("a page") };
    assert_eq!(crate::fixtures::rows_of(&page), [row]);
    let took = env.monotonic() - acknowledged;
    assert!(took <= Duration::from_millis(3_200), "{took:?}");
    let wal = format!("wal/{}", writer.incarnation());
    (0..2_000).for_each(|_| bucket.fail_next(Op::Get, &wal, Fault::Hang));
    let mut warned = 0;
    for _ in 0..30 {
        sleep(&env, 1).await;
        let warnings = follow.keep_up();
        warned += usize::from(warnings.iter().any(|text| text.contains(WARNING)));
    }
    assert!(warned >= 20, "{warned} of 30 seconds");
    bucket.clear_scripts();
    sleep(&env, 40).await;
    assert_eq!(follow.keep_up(), Vec::<String>::new());
}

/// While the store is away, every answer says so, with the age, and only the first ones wait.
#[tokio::test(start_paused = true)]
async fn a_process_without_its_store_never_answers_old_without_a_word() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let client = bucket.client("cut");
    let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
    let cut = Engine::open(store, env.clone(), small_options()).await.unwrap();
    let other = open_on(&bucket, &env, "other", small_options()).await;
    sleep(&env, 5).await;
    client.cut(true);
    let mut waited = 0;
    for second in 0..40 {
        push_row(&other, "a", second, "x").await.unwrap();
        sleep(&env, 1).await;
        let began = env.monotonic();
        let warnings = warnings_of(&cut).await;
        waited += usize::from(env.monotonic() > began);
        // The rows of an idle writer were last read up to three seconds before.
        assert!(warnings.is_empty() || second >= 1, "second {second}: {warnings:?}");
        assert!(!warnings.is_empty() || second < 5, "second {second}");
        let is_ready = cut.has_fresh_view().is_ok();
        assert!(is_ready || second >= 3, "second {second}");
        assert!(!is_ready || second < 5, "second {second}");
    }
    assert!(waited <= 2, "{waited} answers waited");
    client.cut(false);
    sleep(&env, 10).await;
    assert_eq!(warnings_of(&cut).await, Vec::<String>::new());
    assert_eq!(read_all(&cut).await.len(), 40);
}

async fn demand(engine: &Arc<Engine>, age_max: Duration) -> Result<usize, sandur_query::Error> {
    let context = context(engine.env());
    context.require_view(age_max);
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::ALL,
        order: Order::OldestFirst,
        needles: Needles::default(),
        columns: Columns { lines: false, metadata: false },
        counts: false,
        counts_by: Vec::new(),
    };
    let mut scan = engine.sources().logs.scan(&context, selection).await?;
    let mut rows = 0;
    while let Some(item) = scan.next().await? {
        let ScanItem::Page(mut task) = item else { panic!("no counts were requested") };
        rows += task.narrow()?.runs.iter().map(|run| (run.end - run.start) as usize).sum::<usize>();
    }
    Ok(rows)
}

#[tokio::test(start_paused = true)]
async fn a_query_that_requires_a_fresh_view_sees_what_others_acknowledged_before() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let (writer, reader) = (
        open_on(&bucket, &env, "writer", small_options()).await,
        open_on(&bucket, &env, "reader", small_options()).await,
    );
    let mut slowest = Duration::ZERO;
    for number in 0..200 {
        push_row(&writer, "a", number, "x").await.unwrap();
        if number % 17 == 0 {
            writer.flush().await.unwrap();
        }
        env.sleep(Duration::from_millis(env.random_below(700))).await;
        push_row(&writer, "b", number, "x").await.unwrap();
        let began = env.monotonic();
        assert_eq!(demand(&reader, Duration::ZERO).await.unwrap(), 2 * (number as usize + 1));
        slowest = slowest.max(env.monotonic() - began);
    }
    println!("a query that requires everything waits at most {slowest:?}");
    assert!(slowest <= Duration::from_millis(600), "{slowest:?}");
    let before = gets(&reader, None);
    let demands: Vec<Task<_>> = (0..100)
        .map(|_| {
            let reader = Arc::clone(&reader);
            env.spawn("demand", async move { demand(&reader, Duration::ZERO).await })
        })
        .collect();
    for demand in demands {
        demand.join().await.unwrap().unwrap();
    }
    let sent = gets(&reader, None) - before;
    assert!(sent <= 20, "{sent} GETs for a hundred queries at once");
}

#[tokio::test(start_paused = true)]
async fn a_query_that_requires_more_than_there_is_fails_with_what_is_missing() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let client = bucket.client("reader");
    let writer = open_on(&bucket, &env, "writer", small_options()).await;
    let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
    let reader = Engine::open(store, env.clone(), small_options()).await.unwrap();
    let name = writer.incarnation().to_string();
    (0..1_000).for_each(|_| bucket.fail_next(Op::Get, &format!("wal/{name}"), Fault::Hang));
    sleep(&env, 10).await;
    let began = env.monotonic();
    let error = demand(&reader, Duration::from_secs(1)).await.unwrap_err();
    assert!(env.monotonic() - began <= Duration::from_secs(11));
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let text = error.to_string();
    assert!(text.contains("X-Sandur-Min-Freshness") && text.contains(&name), "{text}");
    assert!(!text.contains("the catalog was last read"), "{text}");
    assert!(demand(&reader, Duration::from_secs(120)).await.is_ok(), "it accepts an older view");
    bucket.clear_scripts();
    sleep(&env, 40).await;
    client.cut(true);
    sleep(&env, 10).await;
    let text = demand(&reader, Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(text.contains("the catalog was last read"), "{text}");
    client.cut(false);
    assert!(demand(&reader, Duration::from_secs(1)).await.is_ok(), "as soon as the store is back");
}

/// Pushes lines and samples once per second until it is told to stop. Returns the lines that were pushed.
fn feed(env: &Env, engine: &Arc<Engine>, bytes: usize, series: usize, ends: &Arc<AtomicBool>) -> Task<usize> {
    let (env, engine, ends) = (env.clone(), Arc::clone(engine), Arc::clone(ends));
    let own = engine.incarnation().to_string();
    env.clone().spawn("feed", async move {
        let labels: Vec<Arc<Labels>> = (0..series)
            .map(|n| {
                Arc::new(Labels::from_pairs([("__name__", "m"), ("writer", &own), ("n", &n.to_string())]))
            })
            .collect();
        let mut lines = 0;
        while !ends.load(Ordering::Acquire) {
            let (mut batch, now) = (BatchBuilder::new().stream(&own), env.now_ns());
            for n in 0..(bytes / 200).max(1) {
                let line = format!("{lines} {}", "0123456789abcdef".repeat(12));
                batch = batch.row(now + n as i64, &line);
                lines += 1;
            }
            engine.push(batch.build()).await.unwrap();
            let mut samples = SampleBatch::new(TenantId::default_tenant());
            for (n, labels) in labels.iter().enumerate() {
                samples.push(Arc::clone(labels), [(now / 1_000_000, (n + lines) as f64)]);
            }
            engine.push(samples).await.unwrap();
            env.sleep(Duration::from_secs(1)).await;
        }
        lines
    })
}

/// The number of the first segment of a writer that an engine has not read.
fn seen_of(reader: &Engine, writer: &Engine) -> u64 {
    reader.writer().node.views.next_of(writer.incarnation())
}

/// Finding 2 of the trial: rows of others had a quarter of the write budget, and most were missing.
async fn hold_each_others_rows(
    nodes: usize,
    seconds: u64,
    write_bytes: u64,
    (bytes, series): (usize, usize),
) {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let mut engines = Vec::new();
    for node in 0..nodes {
        let write_budget = MemoryBudget::root("write", write_bytes);
        let options = EngineOptions { write_budget, ..EngineOptions::default() };
        engines.push(open_on(&bucket, &env, &format!("{node}"), options).await);
    }
    let ends = Arc::new(AtomicBool::new(false));
    let feeds: Vec<Task<usize>> =
        engines.iter().map(|engine| feed(&env, engine, bytes, series, &ends)).collect();
    let (mut ages, mut claims, mut lacking) = (Vec::new(), Vec::new(), 0);
    sleep(&env, 3).await;
    for second in 0..seconds {
        let began = env.monotonic();
        let written: Vec<_> = engines.iter().map(|engine| seen_of(engine, engine)).collect();
        for engine in &engines {
            let shown = engine.followed_writers();
            assert_eq!(shown.len(), nodes - 1);
            lacking += shown.iter().filter(|one| one.reason.is_some()).count();
            claims.extend(shown.iter().map(|one| one.age.unwrap()));
        }
        let mut behind: Vec<_> =
            (0..nodes).flat_map(|reader| (0..nodes).map(move |writer| (reader, writer))).collect();
        while !behind.is_empty() {
            let before = behind.len();
            behind
                .retain(|(reader, writer)| seen_of(&engines[*reader], &engines[*writer]) < written[*writer]);
            ages.extend(std::iter::repeat_n(env.monotonic() - began, before - behind.len()));
            env.sleep(Duration::from_millis(20)).await;
            assert!(env.monotonic() - began < Duration::from_secs(30), "second {second}: {behind:?}");
        }
        env.sleep(Duration::from_millis(500)).await;
    }
    ends.store(true, Ordering::Release);
    let mut lines = 0;
    for feed in feeds {
        lines += feed.join().await.unwrap();
    }
    sleep(&env, 3).await;
    let p99_and_most = |mut all: Vec<Duration>| {
        all.sort_unstable();
        (all[all.len() * 99 / 100], all[all.len() - 1])
    };
    let ((age, age_most), (claim, claim_most)) = (p99_and_most(ages), p99_and_most(claims));
    println!(
        "{nodes} nodes: rows are {age:?} old (p99; {age_most:?} at most), known {claim:?} ago (p99; \
         {claim_most:?} at most), {lacking} times without memory"
    );
    assert_eq!(lacking, 0);
    assert!(age <= Duration::from_millis(1_500), "{age:?}");
    assert!(claim_most <= Duration::from_secs(5), "{claim_most:?}");
    for engine in engines.iter().take(3) {
        assert_eq!(warnings_of(engine).await, Vec::<String>::new());
        assert_eq!(read_all(engine).await.len(), lines);
    }
}

/// A quarter of the memory and the rates of three nodes of 256 MiB, which always have 56 MiB for writes.
#[tokio::test(start_paused = true)]
async fn three_nodes_of_little_memory_hold_each_others_rows() {
    hold_each_others_rows(3, 40, 14 << 20, (75_000, 750)).await;
}

/// A quarter of the memory of nodes of 128 MiB, which always have 28 MiB for writes.
#[tokio::test(start_paused = true)]
async fn ten_nodes_of_little_memory_hold_each_others_rows() {
    hold_each_others_rows(10, 12, 7 << 20, (2_000, 20)).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; `cargo xtask nightly` runs it"]
async fn twenty_nodes_of_little_memory_hold_each_others_rows() {
    hold_each_others_rows(20, 40, 7 << 20, (2_000, 20)).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_process_sends_few_requests() {
    costs_of_an_idle_process(3, 5_700).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; `cargo xtask nightly` runs it"]
async fn an_idle_process_beside_many_sends_few_requests() {
    for (others, most) in [(16, 8_700), (20, 9_700)] {
        costs_of_an_idle_process(others, most).await;
    }
}

/// An idle process among others: what it costs, and how soon it answers for new rows.
async fn costs_of_an_idle_process(others: usize, most: u64) {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let mut idle = Vec::new();
    for other in 0..others {
        idle.push(open_on(&bucket, &env, &format!("{other}"), small_options()).await);
    }
    let engine = open_on(&bucket, &env, "counted", small_options()).await;
    sleep(&env, 300).await;
    let of = |class| gets(&engine, Some(class));
    let (before, catalog, wal, member) =
        (gets(&engine, None), of(Class::Catalog), of(Class::Wal), of(Class::Member));
    sleep(&env, 360).await;
    let hourly = (gets(&engine, None) - before) * 10;
    println!(
        "beside {others} idle processes {hourly} GETs an hour: catalog {}, WAL {}, heartbeats {}",
        (of(Class::Catalog) - catalog) * 10,
        (of(Class::Wal) - wal) * 10,
        (of(Class::Member) - member) * 10
    );
    assert!(hourly <= most, "{hourly}");
    // Nobody has queried for minutes. The first query waits for the newest rows.
    let row = push_row(&idle[0], "a", 1, "x").await.unwrap();
    sleep(&env, 10).await;
    let began = env.monotonic();
    assert!(has(&engine, &row).await && warnings_of(&engine).await.is_empty());
    assert!(env.monotonic() - began <= Duration::from_millis(500));
    // Queries go on, and the interval is short again.
    let mut slowest = Duration::ZERO;
    for number in 2..12 {
        for _ in 0..7 {
            sleep(&env, 2).await;
            assert_eq!(warnings_of(&engine).await, Vec::<String>::new());
        }
        let row = push_row(&idle[1], "a", number, "x").await.unwrap();
        let acknowledged = env.monotonic();
        while !has(&engine, &row).await {
            env.sleep(Duration::from_millis(50)).await;
        }
        slowest = slowest.max(env.monotonic() - acknowledged);
    }
    println!("rows of an idle writer are seen after {slowest:?}");
    assert!(slowest <= Duration::from_millis(3_200), "{slowest:?}");
}

/// Finding 9 of the trial: a fresh process beside 19 dead ones was incomplete for 40 s.
#[tokio::test(start_paused = true)]
async fn a_fresh_process_beside_dead_writers_is_whole_when_it_is_ready() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let mut all = Vec::new();
    let options =
        || EngineOptions { write_budget: MemoryBudget::root("write", 28 << 20), ..EngineOptions::default() };
    let mut writers = Vec::new();
    for writer in 0..19 {
        writers.push(open_on(&bucket, &env, &format!("{writer}"), options()).await);
    }
    for number in 0..40 {
        let text = "x".repeat(1_000);
        let names: Vec<String> = (0..writers.len()).map(|at| at.to_string()).collect();
        let pushes = writers.iter().zip(&names).map(|(writer, name)| push_row(writer, name, number, &text));
        all.extend(futures_util::future::join_all(pushes).await.into_iter().map(Result::unwrap));
    }
    let dead: Vec<_> = writers.iter().map(|writer| writer.incarnation()).collect();
    drop(writers);
    let began = env.monotonic();
    let fresh = open_on(&bucket, &env, "fresh", options()).await;
    let took = env.monotonic() - began;
    println!("ready and whole beside 19 dead writers after {took:?}");
    assert!(took <= Duration::from_secs(10), "{took:?}");
    let all = sorted([all]);
    for _ in 0..10 {
        assert_eq!(read_all(&fresh).await, all);
        assert_eq!(warnings_of(&fresh).await, Vec::<String>::new());
        sleep(&env, 12).await;
    }
    sleep(&env, 900).await;
    assert_eq!(read_all(&fresh).await, all);
    let snapshot = fresh.catalog().refresh().await.unwrap();
    let is_sealed = |id| snapshot.writer(id).is_none_or(|writer| writer.is_sealed());
    assert!(dead.into_iter().all(is_sealed), "all are adopted");
}

/// A start waits for a WAL that cannot be read, but not without end, and answers say what is missing.
#[tokio::test(start_paused = true)]
async fn a_start_beside_an_unreadable_wal_is_bounded_and_says_what_is_missing() {
    let env = Env::simulated(SEED, START_NS);
    let bucket = bucket_with(&env, 20);
    let writer = open_on(&bucket, &env, "writer", small_options()).await;
    let row = push_row(&writer, "a", 1, "x").await.unwrap();
    let name = writer.incarnation().to_string();
    (0..1_000).for_each(|_| bucket.fail_next(Op::Get, &format!("wal/{name}"), Fault::Hang));
    let began = env.monotonic();
    let fresh = open_on(&bucket, &env, "fresh", small_options()).await;
    assert!(env.monotonic() - began <= Duration::from_secs(12));
    let warnings = warnings_of(&fresh).await;
    assert!(
        warnings.len() == 1 && warnings[0].contains(&name) && warnings[0].contains(WARNING),
        "{warnings:?}"
    );
    assert!(warnings[0].contains("was not read to the end yet"), "{warnings:?}");
    bucket.clear_scripts();
    sleep(&env, 35).await;
    assert!(has(&fresh, &row).await && warnings_of(&fresh).await.is_empty());
}
