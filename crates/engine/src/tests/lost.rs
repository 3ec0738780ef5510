//! A catalog that was emptied, shortened or restored from an old copy, and a WAL with a gap: no
//! undamaged acknowledged row is lost, and no push is acknowledged that would be lost.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use sandur_catalog::{Repair, check};
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Intent, Store, StoreOptions};
use tempfile::TempDir;

use super::*;
use crate::MaintenanceOptions;

/// Makes flushes and merges frequent.
fn busy_options() -> EngineOptions {
    let mut maintenance = MaintenanceOptions {
        interval: Duration::from_secs(5),
        gc_interval: Duration::from_secs(30),
        orphan_interval: Duration::from_secs(300),
        ..MaintenanceOptions::default()
    };
    maintenance.compaction.hour_blocks_max = 3;
    maintenance.compaction.quiet = Duration::from_secs(10);
    maintenance.compaction.window_grace = Duration::from_secs(60);
    maintenance.gc.grace = Duration::from_secs(600);
    EngineOptions { maintenance, ..small_options() }
}

/// Does the same with little other periodic work, for hours of paused time.
fn patient_options() -> EngineOptions {
    EngineOptions { maintenance: busy_options().maintenance, ..unhurried_options() }
}

struct Bucket {
    env: Env,
    fault: FaultStore,
}

impl Bucket {
    fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
        let fault = FaultStore::new(env.clone(), seed, plan);
        Self { env, fault }
    }

    fn store(&self, name: &str) -> Store {
        let client = Arc::new(self.fault.client(name));
        Store::from_object_store(client, self.env.clone(), StoreOptions::default())
    }

    async fn open(&self, name: &str) -> Result<Arc<Engine>, Error> {
        Engine::open(self.store(name), self.env.clone(), busy_options()).await
    }

    async fn sleep(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    async fn copy(&self, below: &str) -> Vec<(String, Bytes)> {
        let store = self.store("copy");
        let mut copies = Vec::new();
        for object in store.list(below, Intent::gc()).await.unwrap() {
            let bytes = store.get(&object.path, Intent::gc()).await.unwrap();
            copies.push((object.path, bytes));
        }
        copies
    }

    async fn delete(&self, below: &str) {
        let store = self.store("delete");
        for object in store.list(below, Intent::gc()).await.unwrap() {
            store.delete(&object.path, Intent::gc()).await.unwrap();
        }
    }

    async fn put_all(&self, copies: &[(String, Bytes)]) {
        let store = self.store("put");
        for (path, bytes) in copies {
            store.put(path, bytes.clone(), Intent::gc()).await.unwrap();
        }
    }

    /// Expects that a start is refused, then repairs the catalog.
    async fn repair(&self) -> Repair {
        let refusal = self.open("refused").await.err().unwrap().to_string();
        assert!(refusal.contains("sandur repair"), "{refusal}");
        let store = self.store("repair");
        let repair = Repair::plan(&store, &self.env).await.unwrap();
        repair.execute(&store, &self.env).await.unwrap();
        let report = check(&store, &self.env).await.unwrap();
        assert!(!report.catalog_is_damaged, "{report:?}");
        repair
    }

    /// Starts an engine, lets garbage collection run for hours, and expects exactly these rows before
    /// and after.
    async fn finds(&self, rows: &[Row]) {
        let engine = Engine::open(self.store("after"), self.env.clone(), patient_options()).await.unwrap();
        self.sleep(60).await;
        assert_eq!(read_all(&engine).await, rows, "after the start");
        self.sleep(2 * 3_600).await;
        assert_eq!(read_all(&engine).await, rows, "after garbage collection");
        engine.flush().await.unwrap();
        engine.shutdown().await.unwrap();
    }
}

/// A store with blocks of flushes and of a merge, rows in the WAL, and an older copy of the catalog.
async fn a_busy_store(seed: u64) -> (Bucket, Vec<Row>, Vec<(String, Bytes)>) {
    let bucket = Bucket::new(seed);
    let engine = bucket.open("first").await.unwrap();
    let (mut rows, mut yesterday) = (Vec::new(), Vec::new());
    for round in 0..9 {
        rows.push(push_rows(&engine, "a", round * 10..round * 10 + 10).await);
        rows.push(push_rows(&engine, "b", round * 10..round * 10 + 5).await);
        engine.flush().await.unwrap();
        bucket.sleep(20).await;
        if round == 4 {
            yesterday = bucket.copy("catalog").await;
        }
    }
    assert!(engine.view().snapshot.all_blocks().any(|block| block.level > 0), "no merge ran");
    rows.push(push_rows(&engine, "a", 500..520).await);
    bucket.sleep(12).await;
    drop(engine);
    (bucket, sorted(rows), yesterday)
}

#[tokio::test(start_paused = true)]
async fn an_emptied_catalog_is_rebuilt_from_blocks_and_wal() {
    let (bucket, rows, _) = a_busy_store(1).await;
    bucket.delete("catalog").await;
    let repair = bucket.repair().await;
    assert!(
        !repair.added.is_empty() && !repair.superseded.is_empty() && repair.writers.len() == 1,
        "{repair:?}"
    );
    bucket.finds(&rows).await;
}

#[tokio::test(start_paused = true)]
async fn an_old_copy_of_the_catalog_is_repaired_from_newer_blocks() {
    let (bucket, rows, yesterday) = a_busy_store(2).await;
    bucket.delete("catalog").await;
    bucket.put_all(&yesterday).await;
    bucket.repair().await;
    bucket.finds(&rows).await;
}

#[tokio::test(start_paused = true)]
async fn each_lost_entry_is_detected_and_repaired() {
    for back in [0, 3] {
        let (bucket, rows, _) = a_busy_store(3).await;
        let entries = bucket.copy("catalog").await;
        let entries: Vec<&String> = entries.iter().map(|(path, _)| path).filter(|p| p.len() == 28).collect();
        bucket.store("x").delete(entries[entries.len() - 1 - back], Intent::gc()).await.unwrap();
        bucket.repair().await;
        bucket.finds(&rows).await;
    }
}

/// Half of a bucket is deleted while engines run. They stop, write nothing into the gap, and their
/// acknowledged rows are found after a repair.
#[tokio::test(start_paused = true)]
async fn engines_stop_when_their_catalog_is_emptied() {
    let bucket = Bucket::new(4);
    let (one, two) = (bucket.open("one").await.unwrap(), bucket.open("two").await.unwrap());
    let mut rows = vec![push_rows(&one, "a", 0..10).await];
    one.flush().await.unwrap();
    rows.push(push_rows(&two, "b", 0..10).await);
    bucket.sleep(15).await;
    assert!(one.writable().is_ok() && two.writable().is_ok());
    bucket.delete("catalog").await;
    bucket.sleep(15).await;
    for engine in [&one, &two] {
        let error = engine.writable().unwrap_err();
        assert!(matches!(error, Error::CatalogLost { .. }), "{error}");
        assert!(error.to_string().contains("sandur repair"), "{error}");
        assert!(matches!(push_row(engine, "a", 99, "x").await, Err(Error::CatalogLost { .. })));
        assert_eq!(read_all(engine).await, sorted(rows.clone()), "queries still work");
    }
    assert_eq!(bucket.copy("catalog").await, Vec::new(), "nothing is written into the gap");
    drop((one, two));
    bucket.repair().await;
    bucket.finds(&sorted(rows)).await;
}

/// A segment that was deleted from the middle loses its own rows and no others.
#[tokio::test(start_paused = true)]
async fn a_gap_in_the_wal_loses_only_its_own_rows() {
    let bucket = Bucket::new(5);
    let engine = bucket.open("first").await.unwrap();
    let mut rows = Vec::new();
    for number in 0..8 {
        rows.push(push_rows(&engine, "a", number..number + 1).await);
        bucket.sleep(1).await;
    }
    let dead = engine.incarnation();
    drop(engine);
    bucket.store("x").delete(&format!("wal/{dead}/{:020}", 3), Intent::gc()).await.unwrap();
    rows.remove(3);
    let report = check(&bucket.store("check"), &bucket.env).await.unwrap();
    assert!(!report.is_sound(), "{report:?}");
    let engine = bucket.open("second").await.unwrap();
    bucket.sleep(120).await;
    assert_eq!(read_all(&engine).await, sorted(rows.clone()));
    engine.shutdown().await.unwrap();
    bucket.finds(&sorted(rows)).await;
}

fn files(directory: &Path, below: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut stack = vec![directory.join(below)];
    while let Some(next) = stack.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { stack.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_without_its_catalog_is_not_opened_and_is_repaired() {
    let directory = TempDir::new().unwrap();
    let env = Env::system(2);
    let open_store = || Store::open(directory.path().to_str().unwrap(), env.clone(), StoreOptions::default());
    let engine = Engine::open(open_store().await.unwrap(), env.clone(), small_options()).await.unwrap();
    let mut rows = vec![push_rows(&engine, "a", 0..20).await];
    engine.flush().await.unwrap();
    rows.push(push_rows(&engine, "a", 30..40).await);
    engine.flush().await.unwrap();
    // The newest entry is removed while the process runs; the next commit detects it.
    let newest = files(directory.path(), "catalog").pop().unwrap();
    std::fs::remove_file(&newest).unwrap();
    rows.push(push_rows(&engine, "a", 50..60).await);
    let before = files(directory.path(), "catalog");
    assert!(engine.node().catalog.commit(engine.incarnation(), vec![], vec![]).await.is_err());
    assert_eq!(files(directory.path(), "catalog"), before, "nothing is written into the gap");
    engine.node().shutdown.trigger();
    let shut = env.timeout(Duration::from_millis(1), engine.shutdown()).await;
    assert!(!matches!(shut, Some(Ok(()))), "what could not be flushed stays in the WAL");
    drop(engine);
    let store = loop {
        // Aborted tasks release the lock when they have ended.
        match open_store().await {
            Ok(store) => break store,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let refusal = Engine::open(store.clone(), env.clone(), small_options()).await.err().unwrap();
    assert!(refusal.to_string().contains("'witness'"), "{refusal}");
    let repair = Repair::plan(&store, &env).await.unwrap();
    repair.execute(&store, &env).await.unwrap();
    let engine = Engine::open(store, env.clone(), small_options()).await.unwrap();
    assert_eq!(read_all(&engine).await, sorted(rows));
    engine.shutdown().await.unwrap();
}
