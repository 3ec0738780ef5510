//! The contract under faults drawn from seeds: creates and updates are linearizable, no acknowledged
//! write is lost, and one seed gives one trace.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStore;
use sandur_runtime::Env;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Created, Error, Intent, Store, StoreOptions, Updated};

use crate::suite;

/// Runs `scenario` in its own world with simulated time.
pub fn simulate<F: Future>(seed: u64, plan: FaultPlan, scenario: impl FnOnce(World) -> F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(seed, 1_790_000_000_000_000_000);
        let faults = FaultStore::new(env.clone(), seed, plan);
        scenario(World { env, faults }).await
    })
}

#[derive(Clone)]
pub struct World {
    pub env: Env,
    pub faults: FaultStore,
}

impl World {
    /// A store as a separate process would open it.
    fn store(&self, name: &str) -> Store {
        Store::from_fault_store(self.faults.client(name), self.env.clone(), StoreOptions::default())
    }

    /// A store over the actual objects, after all delayed writes and deletes.
    async fn truth(&self) -> Store {
        self.faults.quiet(true);
        self.faults.settle().await;
        self.store("truth")
    }
}

#[test]
fn the_contract_holds_without_faults() {
    simulate(1, FaultPlan::none(), |world| async move { suite::run(&world.store("")).await });
}

/// The result of one creator.
struct Attempt {
    bytes: Bytes,
    outcome: Result<Created, Error>,
}

async fn race(world: &World, path: &'static str, creators: usize) -> Vec<Attempt> {
    let tasks = (0..creators).map(|n| {
        let (store, env) = (world.store(&format!("c{n}")), world.env.clone());
        world.env.clone().spawn("creator", async move {
            let bytes = Bytes::from(format!("creator {n}"));
            env.sleep(Duration::from_millis(env.random_below(200))).await;
            let outcome = store.create(path, bytes.clone(), Intent::catalog()).await;
            Attempt { bytes, outcome }
        })
    });
    let mut attempts = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        attempts.push(task.join().await.unwrap());
    }
    attempts
}

/// Goal: create is linearizable. Of N concurrent creators of one name exactly one gets `New`, and all
/// others get its bytes, whatever the store does; a creator that gets an error knows nothing about the
/// outcome.
#[test]
fn exactly_one_creator_wins_under_any_faults() {
    let (mut failed, mut all) = (0, 0);
    for seed in 0..200 {
        simulate(seed, FaultPlan::many_faults(), |world| async move {
            let attempts = race(&world, "catalog/00000000000000000001", 8).await;
            let truth = world.truth().await;
            let real = truth.get("catalog/00000000000000000001", Intent::catalog()).await.ok();
            let mut errors = 0;
            for attempt in &attempts {
                match &attempt.outcome {
                    Ok(Created::New) => assert_eq!(Some(&attempt.bytes), real.as_ref(), "seed {seed}"),
                    Ok(Created::Exists(seen)) => {
                        assert_eq!(Some(seen), real.as_ref(), "seed {seed}");
                        assert_ne!(*seen, attempt.bytes, "seed {seed}: equal bytes must be New");
                    }
                    Err(error) => {
                        assert!(error.kind().is_retryable(), "seed {seed}: {error}");
                        errors += 1;
                    }
                }
            }
            let winners = attempts.iter().filter(|a| matches!(a.outcome, Ok(Created::New))).count();
            assert!(winners <= 1 && (winners == 1 || errors > 0), "seed {seed}: {winners} winners");
            (errors, attempts.len())
        })
        .into_sum(&mut failed, &mut all);
    }
    assert!(failed * 100 <= all, "{failed} of {all} creates failed in spite of retries");
}

trait IntoSum {
    fn into_sum(self, first: &mut usize, second: &mut usize);
}

impl IntoSum for (usize, usize) {
    fn into_sum(self, first: &mut usize, second: &mut usize) {
        *first += self.0;
        *second += self.1;
    }
}

#[test]
fn one_seed_gives_one_trace() {
    let trace = |seed| {
        simulate(seed, FaultPlan::many_faults(), |world| async move {
            race(&world, "catalog/1", 6).await;
            let store = world.store("x");
            let mut upload = store.upload("blocks/b", Intent::block()).await.unwrap();
            let _ = upload.write(suite::pattern(20 << 20)).await;
            let _ = upload.finish().await;
            let _ = store.list("", Intent::gc()).await;
            world.truth().await;
            world.faults.trace()
        })
    };
    for seed in 0..20 {
        let first = trace(seed);
        assert!(first.len() > 15, "{first:?}");
        assert_eq!(first, trace(seed), "seed {seed}");
    }
    assert_ne!(trace(1), trace(2));
}

/// Goal: updates are linearizable. No two updates that returned `Done` replaced the same state, and none
/// is undone by a delayed or repeated one.
#[test]
fn updates_are_linearizable_under_any_faults() {
    for seed in 0..100 {
        simulate(seed, FaultPlan::many_faults(), |world| async move {
            let path = "catalog/boundary";
            let start = world.faults.objects();
            start.put_opts(&path.into(), "0".into(), Default::default()).await.unwrap();
            let writers = (0..4).map(|n| world.env.spawn("writer", count(world.store("w"), n)));
            let mut done = Vec::new();
            for writer in writers.collect::<Vec<_>>() {
                done.extend(writer.join().await.unwrap());
            }
            let truth = world.truth().await;
            let last = read_count(&truth.get(path, Intent::catalog()).await.unwrap());
            let number = done.len();
            done.sort_unstable();
            done.dedup();
            assert_eq!(done.len(), number, "seed {seed}: two updates of one state");
            assert!(done.iter().all(|n| *n <= last), "seed {seed}: {done:?} undone by {last}");
            assert!(number >= 4, "seed {seed}: hardly any progress");
        });
    }
}

fn read_count(bytes: &Bytes) -> u32 {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Counts up; returns the counts that were certainly written.
async fn count(store: Store, writer: u32) -> Vec<u32> {
    let mut done = Vec::new();
    for round in 0..6 {
        let Ok((bytes, version)) = store.get_versioned("catalog/boundary", Intent::catalog()).await else {
            continue;
        };
        let next = read_count(&bytes) + 1;
        let text = Bytes::from(format!("{next} by {writer} in {round}"));
        let updated = store.update("catalog/boundary", text, &version, Intent::catalog()).await;
        if matches!(updated, Ok(Updated::Done)) {
            done.push(next);
        }
    }
    done
}

/// Goal: truncated bodies are never returned, and large objects are complete in spite of many faults.
#[test]
fn acknowledged_objects_are_read_completely() {
    for seed in 0..25 {
        simulate(seed, FaultPlan::many_faults(), |world| async move {
            let store = world.store("s");
            let whole = suite::pattern(18 << 20);
            let mut upload = store.upload("blocks/big", Intent::block()).await.unwrap();
            let mut written = upload.write(whole.clone()).await.is_ok();
            written &= upload.finish().await.is_ok();
            let small = suite::pattern(1_000);
            let put = store.put("blocks/small", small.clone(), Intent::block()).await.is_ok();
            for round in 0..20u64 {
                let ranges = [round * 40..round * 41 + 1, 900..901];
                if let (true, Ok(bodies)) =
                    (put, store.get_ranges("blocks/small", &ranges, Intent::block()).await)
                {
                    assert_eq!(bodies[1], small.slice(900..901));
                    assert_eq!(bodies[0], small.slice(ranges[0].start as usize..ranges[0].end as usize));
                }
            }
            if let (true, Ok(bytes)) = (written, store.get("blocks/big", Intent::block()).await) {
                assert_eq!(bytes, whole, "seed {seed}");
            }
            let truth = world.truth().await;
            assert_eq!(truth.head("blocks/big", Intent::block()).await.unwrap().is_some(), written);
        });
    }
}

/// Goal: dropping a create has at most the effect of losing its response.
#[test]
fn dropped_creates_leave_their_own_bytes_or_nothing() {
    for seed in 0..100 {
        simulate(seed, FaultPlan::some_faults(), |world| async move {
            let (a, b) = (world.store("a"), world.store("b"));
            let patience = Duration::from_millis(world.env.random_below(60));
            let dropped =
                world.env.timeout(patience, a.create("catalog/1", Bytes::from("a"), Intent::catalog()));
            let first = dropped.await;
            let second = b.create("catalog/1", Bytes::from("b"), Intent::catalog()).await.unwrap();
            let again = a.create("catalog/1", Bytes::from("a"), Intent::catalog()).await.unwrap();
            match (first, second) {
                (Some(Ok(Created::New)), second) => assert_eq!(second, Created::Exists(Bytes::from("a"))),
                (_, Created::New) => assert_eq!(again, Created::Exists(Bytes::from("b"))),
                (_, second) => {
                    assert_eq!(second, Created::Exists(Bytes::from("a")));
                    assert_eq!(again, Created::New);
                }
            }
        });
    }
}

/// Method: each fault that a create can meet, separately.
#[test]
fn a_create_has_a_clear_outcome_after_any_single_fault() {
    let late = Fault::LateApply(Duration::from_secs(5));
    let faults = [
        Fault::Refused,
        Fault::Throttled,
        Fault::Failed,
        Fault::Hang,
        Fault::LostAck,
        late,
        Fault::AppliedTwice,
        Fault::FalseConflict,
        Fault::Slow(Duration::from_secs(30)),
    ];
    for (seed, fault) in faults.into_iter().enumerate() {
        simulate(seed as u64, FaultPlan::latency_only(), |world| async move {
            let store = world.store("s");
            world.faults.fail_next(Op::Create, "catalog/", fault);
            world.faults.fail_next(Op::Get, "catalog/", Fault::Truncated);
            let created = store.create("catalog/7", Bytes::from("ours"), Intent::catalog()).await.unwrap();
            assert_eq!(created, Created::New, "{fault:?}");
            world.faults.fail_next(Op::Create, "catalog/", fault);
            let other = store.create("catalog/7", Bytes::from("other"), Intent::catalog()).await.unwrap();
            assert_eq!(other, Created::Exists(Bytes::from("ours")), "{fault:?}");
            let truth = world.truth().await;
            assert_eq!(truth.get("catalog/7", Intent::catalog()).await.unwrap(), "ours");
        });
    }
}

#[test]
fn an_outage_is_bounded_in_time_and_requests() {
    simulate(3, FaultPlan::latency_only(), |world| async move {
        let client = world.faults.client("s");
        let store =
            Store::from_object_store(Arc::new(client.clone()), world.env.clone(), StoreOptions::default());
        client.cut(true);
        let reads = (0..200).map(|n| {
            let store = store.clone();
            world.env.spawn("reader", async move { store.get(&format!("blocks/{n}"), Intent::block()).await })
        });
        let wal = store.put("wal/a/0", Bytes::from("x"), Intent::wal());
        let reads: Vec<_> = reads.collect();
        let error = wal.await.unwrap_err();
        assert!(error.to_string().contains("check that the store is up"), "{error}");
        for read in reads {
            assert!(read.join().await.unwrap().unwrap_err().kind().is_retryable());
        }
        assert!(world.env.monotonic() < Duration::from_secs(200));
        let usage = store.meter().snapshot();
        let blocks = usage.iter().find(|u| u.class == sandur_store::Class::Block).unwrap();
        // 200 reads earn 20 retries, 32 were saved, and 1 per second (rounded up to 2) is added for 120
        // s.
        assert!(blocks.retries <= 20 + 32 + 2 * 130, "{blocks:?}");
        client.cut(false);
        store.put("wal/a/1", Bytes::from("x"), Intent::wal()).await.unwrap();
    });
}

/// Goal: block reads never take the slots of the WAL or the catalog.
#[test]
fn many_block_reads_do_not_delay_the_wal() {
    simulate(5, FaultPlan::latency_only(), |world| async move {
        let store = world.store("s");
        let mut storm = Vec::new();
        for n in 0..500 {
            world.faults.fail_next(Op::Get, "blocks/", Fault::Hang);
            let store = store.clone();
            let read = async move { store.get(&format!("blocks/{n}"), Intent::block()).await };
            storm.push(world.env.spawn("reader", read));
        }
        world.env.sleep(Duration::from_millis(100)).await;
        let began = world.env.monotonic();
        store.put("wal/a/0", Bytes::from("x"), Intent::wal()).await.unwrap();
        store.create("catalog/1", Bytes::from("x"), Intent::catalog()).await.unwrap();
        assert!(
            world.env.monotonic() - began < Duration::from_secs(3),
            "{:?}",
            world.env.monotonic() - began
        );
        assert!(storm.iter().all(|read| !read.is_finished()));
    });
}

/// Goal: one failed part, a failed completion or the loss of its response does not fail the upload.
#[test]
fn uploads_retry_failed_parts_and_completions() {
    // The start, three parts, and the completion.
    for number in 0..5 {
        for fault in [Fault::Failed, Fault::Throttled, Fault::LostAck, Fault::Hang] {
            simulate(6, FaultPlan::latency_only(), |world| async move {
                let store = world.store("s");
                let mut upload = store.upload("blocks/b", Intent::block()).await.unwrap();
                for _ in 0..number {
                    world.faults.fail_next(Op::Upload, "blocks/b", Fault::Slow(Duration::ZERO));
                }
                world.faults.fail_next(Op::Upload, "blocks/b", fault);
                upload.write(suite::pattern(20 << 20)).await.unwrap();
                assert_eq!(upload.finish().await.unwrap(), 20 << 20, "{fault:?} at {number}");
                let read = store.get("blocks/b", Intent::block()).await.unwrap();
                assert_eq!(read, suite::pattern(20 << 20));
                assert_eq!(world.faults.injected().iter().map(|i| i.1).sum::<u64>(), 1 + number);
            });
        }
    }
}

/// All calls can be made from tasks that move between threads.
#[test]
fn every_future_is_send() {
    fn send<T: Send>(_: T) {}
    #[allow(dead_code, reason = "compiling it is the test")]
    fn calls(store: &Store, version: &sandur_store::Version, upload: sandur_store::Upload) {
        let (intent, bytes) = (Intent::block(), Bytes::new());
        send(Store::open("", Env::system(1), StoreOptions::default()));
        let of = || intent.clone();
        send(store.get("", of()));
        send(store.get_range("", 0..1, of()));
        send(store.get_ranges("", &[], of()));
        send(store.get_ranges_sized("", 0, &[], of()));
        send(store.get_versioned("", of()));
        send(store.create("", bytes.clone(), of()));
        send(store.update("", bytes.clone(), version, of()));
        send(store.put("", bytes.clone(), of()));
        send(store.upload("", of()));
        send(store.list("", of()));
        send(store.list_prefixes("", of()));
        send(store.head("", of()));
        send(store.delete("", of()));
        send(store.append_file(""));
        send(upload.finish());
    }
}

#[test]
fn equal_block_reads_share_a_request_and_catalog_reads_do_not() {
    simulate(4, FaultPlan::latency_only(), |world| async move {
        let store = world.store("s");
        store.put("blocks/b", Bytes::from("x"), Intent::block()).await.unwrap();
        for (intent, requests) in [(Intent::block(), 1), (Intent::catalog(), 5)] {
            let reads = (0..5).map(|_| store.get("blocks/b", intent.clone()));
            let bodies = futures_util::future::join_all(reads).await;
            assert!(bodies.into_iter().all(|b| b.unwrap() == "x"));
            let usage = store.meter().snapshot();
            let got = usage.iter().find(|u| u.class == intent.class && u.operation.name() == "get");
            assert_eq!(got.unwrap().requests, requests, "{intent:?}");
        }
    });
}
