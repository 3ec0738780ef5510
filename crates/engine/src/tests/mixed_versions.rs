//! Processes of different versions of the program over one store: blocks are written in a version that every
//! registered writer reads, and a process does not start where it cannot read the blocks.

use sandur_catalog::{BlockForms, NEWEST_FORMS};
use sandur_format::block::BlockIndex;
use sandur_format::log_block::{Footer, VERSION, VERSION_MIN};
use sandur_query::QueryStats;
use tempfile::TempDir;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// The options of a program from before versions were stated.
fn before() -> EngineOptions {
    let mut options = unhurried_options();
    options.catalog.reads = None;
    options
}

/// The versions of the blocks of the store.
async fn versions(engine: &Engine) -> BTreeSet<u16> {
    let mut versions = BTreeSet::new();
    let snapshot = engine.catalog().refresh().await.unwrap();
    for meta in snapshot.all_blocks() {
        let block = engine.queries().reader.open::<Footer>(meta, &QueryStats::default()).await.unwrap();
        versions.insert(block.footer.info().version);
    }
    versions
}

/// Writes rows of an hour that is over.
async fn write(engine: &Engine, app: &str, hour: i64) -> Vec<Row> {
    let row =
        |n: i64| (app.to_owned(), START_NS - (80 - hour) * 3_600_000_000_000 + n, format!("line {n} of it"));
    let rows: Vec<Row> = (0..20).map(row).collect();
    let mut batch = BatchBuilder::new().stream(app);
    for (_, timestamp, line) in &rows {
        batch = batch.row(*timestamp, line);
    }
    engine.push(batch.build()).await.unwrap();
    engine.flush().await.unwrap();
    rows
}

#[tokio::test(start_paused = true)]
async fn newer_blocks_are_written_once_the_last_older_writer_is_adopted() {
    let env = Env::simulated(81, START_NS);
    let bucket = near_bucket(&env, 81);
    let mut options = before();
    options.maintenance.compaction.thin_bytes = 0;
    let old = open_on(&bucket, &env, "old", options.clone()).await;
    options.catalog.reads = Some(NEWEST_FORMS);
    let new = open_on(&bucket, &env, "new", options.clone()).await;
    let mut rows = vec![write(&old, "a", 0).await, write(&new, "b", 0).await, write(&new, "c", 1).await];
    assert_eq!(versions(&new).await, [VERSION_MIN].into(), "flushed while the older writer is registered");
    let oldest = new.view().snapshot.all_blocks().map(|block| block.id).max().unwrap();
    env.sleep(HOUR).await;
    let merged = new.view().snapshot.all_blocks().filter(|block| block.id > oldest).count();
    assert_eq!((merged, versions(&new).await), (1, [VERSION_MIN].into()), "merged meanwhile");
    for engine in [&old, &new] {
        assert_eq!(read_all(engine).await, sorted(rows.iter().cloned()));
    }
    // The older process dies with rows in its WAL.
    let tail = push_rows(&old, "d", 0..10).await;
    rows.push(tail);
    drop(old);
    assert_eq!(new.catalog().snapshot().forms(), BlockForms::UNSTATED);
    env.sleep(HOUR).await;
    assert_eq!(new.metrics().adoptions.get(), 1);
    assert_eq!(new.catalog().snapshot().forms(), NEWEST_FORMS);
    rows.push(write(&new, "e", 30).await);
    assert!(versions(&new).await.contains(&VERSION));
    assert_eq!(read_all(&new).await, sorted(rows.iter().cloned()));
    // An older process does not start any more.
    options.catalog.reads = None;
    let store =
        Store::from_object_store(Arc::new(bucket.client("late")), env.clone(), StoreOptions::default());
    let refused = Engine::open(store, env.clone(), options).await.err().unwrap().to_string();
    for part in ["log blocks 6", "log blocks 5", "start a newer version"] {
        assert!(refused.contains(part), "{refused}");
    }
}

/// A store of one process, which is replaced by its next version and then by the earlier one again.
#[tokio::test]
async fn a_directory_is_upgraded_with_the_next_start_and_not_downgraded() {
    let directory = TempDir::new().unwrap();
    let env = Env::system(2);
    let open = async |options: EngineOptions| {
        let path = directory.path().to_str().unwrap();
        let store = Store::open(path, env.clone(), StoreOptions::default()).await.unwrap();
        Engine::open(store, env.clone(), options).await
    };
    let old = open(before()).await.unwrap();
    let rows = push_rows(&old, "a", 0..10).await;
    old.shutdown().await.unwrap();
    assert_eq!(old.catalog().snapshot().forms(), BlockForms::UNSTATED);
    drop(old);
    let new = open(unhurried_options()).await.unwrap();
    assert_eq!(new.catalog().snapshot().forms(), NEWEST_FORMS, "active with the registration");
    let rows = sorted([rows, push_rows(&new, "b", 0..10).await]);
    new.flush().await.unwrap();
    assert_eq!(versions(&new).await, [VERSION_MIN, VERSION].into());
    assert_eq!(read_all(&new).await, rows);
    new.shutdown().await.unwrap();
    drop(new);
    let refused = open(before()).await.err().unwrap().to_string();
    assert!(refused.contains("start a newer version of the program"), "{refused}");
    let again = open(unhurried_options()).await.unwrap();
    assert_eq!(read_all(&again).await, rows, "the refused start has changed nothing");
    again.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_new_store_has_the_newest_blocks_without_a_further_entry() {
    let env = Env::simulated(82, START_NS);
    let bucket = near_bucket(&env, 82);
    let engine = open_on(&bucket, &env, "one", unhurried_options()).await;
    assert_eq!(engine.catalog().snapshot().number(), 1);
    push_rows(&engine, "a", 0..10).await;
    engine.flush().await.unwrap();
    assert_eq!(versions(&engine).await, [VERSION].into());
}
