//! Goal: a process that is suspended at the worst moment loses nothing and misleads no other process.
//! Method: each moment is arranged by hand: the process is disconnected from a store without other
//! faults, or the objects are put into the state in which a half-finished garbage collection leaves them.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use std::sync::Arc;
use std::time::Duration;

use sandur_base::Id;
use sandur_catalog::{Catalog, CatalogOptions};
use sandur_format::catalog_entry::{Edit, Entry, Precondition};
use sandur_runtime::Env;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Intent, Store};

use crate::world::{START_NS, add, block, options, register};

struct Scene {
    env: Env,
    fault: FaultStore,
    writer: Id,
}

fn few() -> CatalogOptions {
    CatalogOptions { checkpoint_entries: 4, ..options() }
}

fn path(number: u64) -> String {
    format!("catalog/{number:020}")
}

impl Scene {
    /// An empty store and the writer of all blocks, registered by entry 1.
    async fn new(seed: u64) -> Self {
        let env = Env::simulated(seed, START_NS);
        let fault = FaultStore::new(env.clone(), seed, FaultPlan::none());
        let scene = Self { writer: env.new_id(), env, fault };
        register(&scene.open("first").await.1, scene.writer).await.unwrap();
        scene
    }

    async fn open(&self, name: &str) -> (FaultStore, Catalog) {
        let client = self.fault.client(name);
        let store = Store::from_object_store(Arc::new(client.clone()), self.env.clone(), Default::default());
        (client, Catalog::open(store, self.env.clone(), few()).await.unwrap())
    }

    async fn add_blocks(&self, catalog: &Catalog, count: i64) {
        for hour in 0..count {
            catalog
                .commit(self.writer, vec![add(&block(&self.env, self.writer, hour))], vec![])
                .await
                .unwrap();
        }
    }

    /// Commits enough entries and checkpoints to move the boundary beyond all earlier ones.
    async fn bury(&self, catalog: &Catalog) {
        for hour in 0..14 {
            catalog
                .commit(self.writer, vec![add(&block(&self.env, self.writer, hour))], vec![])
                .await
                .unwrap();
            catalog.keep_house().await.unwrap();
        }
    }

    fn flush(&self) -> (Vec<Edit>, Vec<Precondition>) {
        let incarnation = self.writer;
        let edits =
            vec![add(&block(&self.env, incarnation, 77)), Edit::Floor { incarnation, from: 0, to: 1 }];
        (edits, vec![Precondition::FloorIs { incarnation, at: 0 }])
    }
}

/// Other processes applied the entry and truncated it before its author read the boundary: a deleted
/// number must not be taken for a commit that did not happen.
#[tokio::test(start_paused = true)]
async fn a_commit_that_was_truncated_before_its_author_read_it_did_happen() {
    let scene = Scene::new(1).await;
    let (client, sleeper) = scene.open("sleeper").await;
    let (_, other) = scene.open("other").await;
    // The acknowledgement of the create is slow, and the connection is cut in the meantime.
    scene.fault.fail_next(Op::Create, &path(2), Fault::Slow(Duration::from_secs(4)));
    let (edits, guard) = scene.flush();
    let (env, writer) = (scene.env.clone(), scene.writer);
    let commit = scene.env.spawn("commit", async move {
        let result = sleeper.commit(writer, edits, guard).await;
        (result.map(|s| s.number()), env.monotonic(), sleeper)
    });
    scene.env.sleep(Duration::from_secs(3)).await;
    client.cut(true);
    assert!(other.entry(2).await.unwrap().is_some());
    scene.bury(&other).await;
    assert!(other.entry(2).await.unwrap().is_none(), "truncated");
    let entries = other.snapshot().number();
    scene.env.sleep(Duration::from_secs(20)).await;
    client.cut(false);
    let (result, _, sleeper) = commit.join().await.unwrap();
    assert_eq!(result.unwrap(), entries, "nothing was written again");
    assert_eq!(sleeper.metrics().reloads.get(), 1);
    let end = other.refresh().await.unwrap();
    assert_eq!((end.writer(scene.writer).unwrap().floor, end.block_count()), (1, 15));
    assert_eq!(sleeper.refresh().await.unwrap(), end);
}

/// The store applies the entry minutes later, when its number is long deleted.
#[tokio::test(start_paused = true)]
async fn a_late_write_at_a_deleted_number_has_no_effect() {
    let scene = Scene::new(2).await;
    let (_, slow) = scene.open("slow").await;
    let (_, reader) = scene.open("reader").await;
    let (_, other) = scene.open("other").await;
    scene.fault.fail_next(Op::Create, &path(2), Fault::LateApply(Duration::from_secs(200)));
    // `slow` reads back, finds nothing, writes again and succeeds; the late copy is still in flight.
    let (edits, guard) = scene.flush();
    slow.commit(scene.writer, edits, guard).await.unwrap();
    scene.bury(&other).await;
    assert!(other.entry(2).await.unwrap().is_none());
    scene.env.sleep(Duration::from_secs(300)).await;
    scene.fault.settle().await;
    assert!(other.entry(2).await.unwrap().is_some(), "the copy has landed");
    // Neither a process that is just before that number nor one that opens now is misled.
    assert_eq!(reader.snapshot().number(), 1);
    assert_eq!(reader.refresh().await.unwrap(), other.refresh().await.unwrap());
    assert_eq!(scene.open("fresh").await.1.snapshot(), other.snapshot());
    other.truncate(false).await.unwrap();
    assert!(other.entry(2).await.unwrap().is_none(), "collected as garbage");
}

/// The truncation is half finished: one number is deleted and taken by a ghost, the entries after it
/// still exist. A commit that follows the log through the ghost would end at a valid number with a wrong
/// state.
#[tokio::test(start_paused = true)]
async fn a_ghost_among_valid_entries_does_not_mislead_a_commit() {
    let scene = Scene::new(3).await;
    let (_, sleeper) = scene.open("sleeper").await;
    let (_, other) = scene.open("other").await;
    let store = other.store().clone();
    let mut entries = Vec::new();
    scene.add_blocks(&other, 6).await;
    for number in 2..=7 {
        entries.push(store.get(&path(number), Intent::catalog()).await.unwrap());
    }
    scene.bury(&other).await;
    // Back to the state in which the collector had deleted only number 2.
    for (bytes, number) in entries.into_iter().zip(2..).skip(1) {
        store.put(&path(number), bytes, Intent::catalog()).await.unwrap();
    }
    for number in 8.. {
        match other.entry(number).await.unwrap() {
            None => store.put(&path(number), ghost(number, scene.writer), Intent::catalog()).await.unwrap(),
            Some(_) => break,
        }
    }
    // The ghost seals the writer: a process that applied it would refuse every flush.
    store.put(&path(2), ghost(2, scene.writer), Intent::catalog()).await.unwrap();
    let live = Precondition::Live { incarnation: scene.writer };
    let (edits, mut guard) = scene.flush();
    guard.push(live);
    let snapshot = sleeper.commit(scene.writer, edits, guard).await.unwrap();
    assert_eq!(snapshot, other.refresh().await.unwrap());
    assert!(!snapshot.writer(scene.writer).unwrap().is_sealed());
    assert_eq!(snapshot.block_count(), 6 + 14 + 1);
}

/// An entry outside of the log that seals the writer.
fn ghost(number: u64, writer: Id) -> bytes::Bytes {
    let edits = vec![Edit::Seal { incarnation: writer, fence: 0 }];
    let (sequence, author, preconditions) = (1, Id(1), vec![]);
    let transaction = sandur_format::catalog_entry::Transaction { sequence, author, preconditions, edits };
    let entry =
        Entry { number, session: Id(1), base: number - 1, before: Some(0), transactions: vec![transaction] };
    entry.encode().unwrap().into()
}

/// A collector that was suspended advances the boundary to a value that was right long ago.
#[tokio::test(start_paused = true)]
async fn the_boundary_never_decreases() {
    let scene = Scene::new(4).await;
    let (_, other) = scene.open("other").await;
    scene.bury(&other).await;
    let boundary = other.describe().boundary;
    assert!(boundary > 0);
    scene.add_blocks(&other, 5).await;
    other.checkpoint().await.unwrap();
    let (_, sleeper) = scene.open("sleeper").await;
    // The update is applied a minute after it was sent, and its sender is disconnected until then.
    scene.fault.fail_next(Op::Update, "catalog/boundary", Fault::LateApply(Duration::from_secs(60)));
    let stuck = scene.env.spawn("truncate", async move { sleeper.truncate(false).await });
    scene.env.sleep(Duration::from_millis(1)).await;
    drop(stuck);
    assert_eq!(scene.fault.injected(), [("late_apply", 1)]);
    scene.bury(&other).await;
    let advanced = other.describe().boundary;
    assert!(advanced > boundary + 5, "{boundary} {advanced}");
    scene.env.sleep(Duration::from_secs(120)).await;
    scene.fault.settle().await;
    let (_, fresh) = scene.open("fresh").await;
    assert!(fresh.describe().boundary >= advanced, "{} {advanced}", fresh.describe().boundary);
}

/// A commit that timed out reports an unknown outcome; the next commit of the same process determines
/// that outcome and continues after it.
#[tokio::test(start_paused = true)]
async fn the_next_commit_succeeds_after_an_uncertain_one() {
    let scene = Scene::new(5).await;
    let (client, catalog) = scene.open("cut").await;
    for is_applied in [true, false] {
        // The write arrives after 2 s and is answered after 4 s, if the process is connected.
        let number = catalog.snapshot().number() + 1;
        match is_applied {
            true => scene.fault.fail_next(Op::Create, &path(number), Fault::Slow(Duration::from_secs(4))),
            false => client.cut(true),
        }
        let meta = block(&scene.env, scene.writer, 5);
        let (env, second) = (scene.env.clone(), catalog.clone());
        let (writer, edits) = (scene.writer, vec![add(&meta)]);
        let commit = env.spawn("commit", async move { second.commit(writer, edits, vec![]).await });
        scene.env.sleep(Duration::from_secs(3)).await;
        client.cut(true);
        let error = commit.join().await.unwrap().unwrap_err();
        // Without a connection nothing was sent: the end of the log is read first.
        assert_eq!(error.outcome_unknown(), is_applied, "{error}");
        client.cut(false);
        let next = block(&scene.env, scene.writer, 6);
        let snapshot = catalog.commit(scene.writer, vec![add(&next)], vec![]).await.unwrap();
        assert!(snapshot.block(next.id).is_some());
        assert_eq!(snapshot.block(meta.id).is_some(), is_applied);
        assert_eq!(snapshot, scene.open("fresh").await.1.snapshot());
    }
}
