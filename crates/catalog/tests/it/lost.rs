//! Goal: a start and a running process both notice a catalog that lost entries, was emptied, swapped or
//! restored from an old copy; nothing is written into the gap, nothing is deleted, and a repair restores
//! every block. Method: real blocks and entries in a memory store, damaged by hand.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use std::time::Duration;

use bytes::Bytes;
use sandur_base::Id;
use sandur_catalog::{
    Catalog, CatalogOptions, Collector, CommitError, Error, GcOptions, Members, MembersOptions, Registration,
    Repair, check,
};
use sandur_format::catalog_entry::{BlockMeta, EDITS_UNSTATED, Edit, Entry, Transaction, WalKind};
use sandur_runtime::Env;
use sandur_store::{Intent, Store};

use crate::world::{add, block, memory, object, options, register};

fn entry_path(number: u64) -> String {
    format!("catalog/{number:020}")
}

fn root_path(number: u64) -> String {
    format!("catalog/checkpoints/{number:020}.root")
}

struct Scene {
    env: Env,
    store: Store,
    writer: Id,
    blocks: Vec<BlockMeta>,
}

impl Scene {
    /// A store with a writer, `count` blocks, each in its own entry, and a heartbeat.
    async fn new(seed: u64, count: i64, options: CatalogOptions) -> (Self, Catalog) {
        let (env, store) = memory(seed);
        let catalog = Catalog::open(store.clone(), env.clone(), options).await.unwrap();
        let writer = env.new_id();
        register(&catalog, writer).await.unwrap();
        let mut scene = Self { env, store, writer, blocks: Vec::new() };
        for hour in 0..count {
            scene.add_block(&catalog, hour, vec![]).await;
            catalog.keep_house().await.unwrap();
        }
        catalog.write_witness().await;
        (scene, catalog)
    }

    async fn add_block(&mut self, catalog: &Catalog, hour: i64, more: Vec<Edit>) -> BlockMeta {
        let mut meta = block(&self.env, self.writer, hour);
        let bytes = object(&mut meta, catalog.snapshot().position());
        self.store.put(&meta.path(), bytes, Intent::block()).await.unwrap();
        let mut edits = vec![add(&meta)];
        edits.extend(more);
        catalog.commit(self.writer, edits, vec![]).await.unwrap();
        self.blocks.push(meta.clone());
        meta
    }

    async fn open(&self) -> Result<Catalog, Error> {
        Catalog::open(self.store.clone(), self.env.clone(), options()).await
    }

    /// Returns the error of a start that must fail, after checking that it names the remedy.
    async fn refused(&self) -> String {
        let error = self.open().await.err().expect("a start over a damaged catalog is refused").to_string();
        assert!(error.contains("sandur repair") && error.contains("--dry-run"), "{error}");
        let report = check(&self.store, &self.env).await.unwrap();
        assert!(report.catalog_is_damaged && !report.is_undamaged(), "{report:?}");
        error
    }

    async fn objects(&self, below: &str) -> Vec<String> {
        let listed = self.store.list(below, Intent::gc()).await.unwrap();
        listed.into_iter().map(|object| object.path).collect()
    }

    async fn get(&self, path: &str) -> Bytes {
        self.store.get(path, Intent::catalog()).await.unwrap()
    }

    async fn put(&self, path: &str, bytes: Bytes) {
        self.store.put(path, bytes, Intent::catalog()).await.unwrap();
    }

    async fn delete(&self, path: &str) {
        self.store.delete(path, Intent::catalog()).await.unwrap();
    }

    async fn delete_all(&self, below: &str) {
        for path in self.objects(below).await {
            self.delete(&path).await;
        }
    }

    /// Repairs, and checks that every block exists afterwards, in the store and in the catalog.
    async fn repair(&self) -> Repair {
        let before = self.objects("").await;
        let repair = Repair::plan(&self.store, &self.env).await.unwrap();
        assert_eq!(self.objects("").await, before, "a plan changes nothing");
        assert!(repair.is_needed(), "{repair:?}");
        repair.execute(&self.store, &self.env).await.unwrap();
        let report = check(&self.store, &self.env).await.unwrap();
        assert!(!report.catalog_is_damaged, "{report:?}");
        let catalog = self.open().await.unwrap();
        let found: Vec<Id> = catalog.snapshot().all_blocks().map(|block| block.id).collect();
        let expected: Vec<Id> = self.blocks.iter().map(|block| block.id).collect();
        assert_eq!(sorted(found), sorted(expected));
        for block in &self.blocks {
            let found = catalog.snapshot().block(block.id).unwrap().clone();
            let same = (found.path(), found.size, found.level) == (block.path(), block.size, block.level);
            assert!(same && found.window == block.window, "{found:?}, was {block:?}");
        }
        self.nothing_is_deleted(&catalog).await;
        // The new log can be continued.
        let next = self.env.new_id();
        register(&catalog, next).await.unwrap();
        assert_eq!(self.open().await.unwrap().snapshot(), catalog.snapshot());
        assert!(
            !Repair::plan(&self.store, &self.env).await.unwrap().is_needed(),
            "there is nothing more to do"
        );
        repair
    }

    /// Garbage collection in accelerated time deletes no block.
    async fn nothing_is_deleted(&self, catalog: &Catalog) {
        let before = self.objects("blocks").await;
        let mut collector = Collector::new(catalog.clone(), GcOptions::default());
        for _ in 0..4 {
            // A lost catalog answers with errors.
            let _ = collector.collect(self.writer).await;
            let _ = collector.collect_orphans(self.writer, None).await;
            self.env.sleep(Duration::from_secs(7_200)).await;
        }
        assert_eq!(self.objects("blocks").await, before);
    }
}

fn sorted(mut ids: Vec<Id>) -> Vec<Id> {
    ids.sort_unstable();
    ids
}

fn few() -> CatalogOptions {
    CatalogOptions { checkpoint_entries: 4, ..options() }
}

#[tokio::test(start_paused = true)]
async fn a_missing_entry_is_a_gap_and_refuses_the_start() {
    let (scene, _) = Scene::new(1, 6, options()).await;
    scene.delete(&entry_path(4)).await;
    let error = scene.refused().await;
    assert!(error.contains("entry 7") && error.contains("only to 3"), "{error}");
    let repair = scene.repair().await;
    assert_eq!((repair.sound_through, &repair.applied[..]), (3, &[5, 6, 7][..]));
    assert_eq!((repair.added.len(), repair.number), (1, 8));
    let kept = scene.objects(&repair.replaced()).await;
    assert_eq!(kept.len(), 6, "replaced objects are kept: {kept:?}");
}

#[tokio::test(start_paused = true)]
async fn an_emptied_catalog_is_not_taken_for_a_new_one() {
    for without_witness in [false, true] {
        let (scene, _) = Scene::new(2, 12, few()).await;
        scene.delete_all("catalog").await;
        if without_witness {
            scene.delete("witness").await;
        }
        scene.refused().await;
        assert_eq!(scene.objects("catalog").await, Vec::<String>::new(), "nothing is written into it");
        let repair = scene.repair().await;
        assert_eq!((repair.sound_through, repair.added.len()), (0, 12));
        assert!(repair.number > 12, "{}", repair.number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_log_and_an_old_copy_of_it_are_noticed() {
    let (mut scene, catalog) = Scene::new(3, 5, options()).await;
    let mut yesterday = Vec::new();
    for path in scene.objects("catalog").await {
        yesterday.push((path.clone(), scene.get(&path).await));
    }
    for hour in 10..14 {
        scene.add_block(&catalog, hour, vec![]).await;
    }
    catalog.write_witness().await;
    scene.delete(&entry_path(10)).await;
    let error = scene.refused().await;
    assert!(error.contains("'witness'") && error.contains("entry 10"), "{error}");
    // The complete catalog of yesterday.
    scene.delete_all("catalog").await;
    for (path, bytes) in yesterday {
        scene.put(&path, bytes).await;
    }
    scene.refused().await;
    let repair = scene.repair().await;
    assert_eq!((repair.sound_through, repair.added.len()), (6, 4));
}

#[tokio::test(start_paused = true)]
async fn heartbeats_and_blocks_are_witnesses() {
    let (scene, catalog) = Scene::new(4, 5, options()).await;
    scene.delete("witness").await;
    let (address, host, wal) = (String::new(), "h".to_owned(), WalKind::Bucket);
    let own = Registration { incarnation: scene.writer, address, host, wal, node: None };
    Members::new(catalog.clone(), own, MembersOptions::default()).beat().await.unwrap();
    scene.delete(&entry_path(6)).await;
    let error = scene.refused().await;
    assert!(error.contains("members/"), "{error}");
    scene.delete_all("members").await;
    // Now only a block has seen the entry, and the start does not read blocks. But nothing is deleted,
    // although the log has grown again: that block was made with another log.
    scene.delete(&entry_path(5)).await;
    let catalog = scene.open().await.unwrap();
    let seal = |incarnation| Edit::Seal { incarnation, fence: 0 };
    catalog.commit(scene.writer, vec![seal(scene.writer)], vec![]).await.unwrap();
    scene.nothing_is_deleted(&catalog).await;
    assert!(matches!(catalog.lost(), None | Some(Error::Lost { .. })), "{:?}", catalog.lost());
    let report = check(&scene.store, &scene.env).await.unwrap();
    assert!(report.catalog_is_damaged, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn swapped_and_edited_entries_break_the_chain() {
    // Another history with the same numbers.
    let (other, _) = Scene::new(99, 6, options()).await;
    for number in [2, 4, 7] {
        let (scene, _) = Scene::new(5, 6, options()).await;
        scene.put(&entry_path(number), other.get(&entry_path(number)).await).await;
        scene.refused().await;
        let (scene, _) = Scene::new(5, 6, options()).await;
        let mut edited = Entry::decode(&scene.get(&entry_path(number)).await).unwrap();
        edited.transactions.clear();
        scene.put(&entry_path(number), edited.encode().unwrap().into()).await;
        let error = scene.refused().await;
        assert!(number == 7 || error.contains("swapped, edited"), "{error}");
        scene.repair().await;
    }
    // Two entries of one log, exchanged.
    let (scene, _) = Scene::new(6, 6, options()).await;
    let (three, four) = (scene.get(&entry_path(3)).await, scene.get(&entry_path(4)).await);
    scene.put(&entry_path(3), four).await;
    scene.put(&entry_path(4), three).await;
    scene.refused().await;
    scene.repair().await;
}

#[tokio::test(start_paused = true)]
async fn damaged_objects_of_every_kind_are_reported_together_and_repaired() {
    let (scene, catalog) = Scene::new(7, 20, few()).await;
    let last = catalog.snapshot().number();
    let junk = || Bytes::from_static(b"junk");
    scene.put(&entry_path(last), junk()).await;
    scene.put(&entry_path(last + 1), junk()).await;
    scene.put("catalog/boundary", junk()).await;
    let roots: Vec<String> =
        scene.objects("catalog/checkpoints").await.into_iter().filter(|p| p.ends_with(".root")).collect();
    scene.put(roots.last().unwrap(), junk()).await;
    scene.refused().await;
    let report = check(&scene.store, &scene.env).await.unwrap();
    for object in [&entry_path(last), "catalog/boundary", roots.last().unwrap()] {
        assert!(report.findings.iter().any(|finding| finding.object == *object), "{object}: {report:?}");
    }
    let repair = scene.repair().await;
    assert_eq!((repair.sound_through, repair.added.len()), (last - 1, 1));
    assert_eq!(scene.get(&format!("{}/catalog/boundary", repair.replaced())).await, junk());
}

#[tokio::test(start_paused = true)]
async fn a_very_high_number_does_not_cause_endless_work() {
    let (scene, _) = Scene::new(8, 3, options()).await;
    scene.put(&entry_path(u64::MAX / 2), Bytes::from_static(b"junk")).await;
    scene.refused().await;
    let repair = scene.repair().await;
    assert!(repair.findings.len() < 200, "{}", repair.findings.len());
}

#[tokio::test(start_paused = true)]
async fn a_running_process_notices_that_its_log_was_deleted() {
    for empties in [true, false] {
        let (scene, catalog) = Scene::new(9, 5, options()).await;
        let other = scene.open().await.unwrap();
        match empties {
            true => scene.delete_all("catalog").await,
            false => scene.delete(&entry_path(6)).await,
        }
        let before = scene.objects("").await;
        let error = catalog.refresh().await.unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{error}");
        assert!(catalog.lost().is_some() && catalog.watch_lost().borrow().is_some());
        let error = catalog.commit(scene.writer, vec![], vec![]).await.unwrap_err();
        assert!(matches!(error, CommitError::Failed(Error::Lost { .. })), "{error}");
        // A process that commits before it refreshes.
        let error = other.commit(scene.writer, vec![], vec![]).await.unwrap_err();
        assert!(matches!(error, CommitError::Failed(Error::Lost { .. })), "{error}");
        assert_eq!(scene.objects("").await, before, "nothing is written into the gap");
        scene.nothing_is_deleted(&catalog).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_from_before_the_chain_continues_with_one() {
    let (env, store) = memory(10);
    let writer = env.new_id();
    // Entries of version 1: the same bytes without the checksum of the entry before.
    let registration = Edit::Register {
        edits: EDITS_UNSTATED,
        reads: None,
        incarnation: writer,
        address: String::new(),
        host: "test".to_owned(),
        started_ms: 1,
        wal: WalKind::Bucket,
    };
    let edits = [vec![registration], vec![add(&block(&env, writer, 1))], vec![add(&block(&env, writer, 2))]];
    for (number, edits) in (1..).zip(edits) {
        let transaction = Transaction { sequence: number, author: writer, preconditions: vec![], edits };
        let entry =
            Entry { number, session: Id(9), base: number - 1, before: None, transactions: vec![transaction] };
        let bytes = crate::world::version_1(&entry);
        assert_eq!(Entry::decode(&bytes).unwrap(), entry);
        store.put(&entry_path(number), bytes, Intent::catalog()).await.unwrap();
    }
    let catalog = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    assert_eq!((catalog.snapshot().number(), catalog.snapshot().block_count()), (3, 2));
    for hour in 3..6 {
        catalog.commit(writer, vec![add(&block(&env, writer, hour))], vec![]).await.unwrap();
    }
    catalog.checkpoint().await.unwrap();
    let opened = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    assert_eq!(opened.snapshot(), catalog.snapshot());
    assert_eq!(opened.snapshot().position(), catalog.snapshot().position());
    // The chain holds from the last old entry on.
    let old = store.get(&entry_path(2), Intent::catalog()).await.unwrap();
    let mut edited = Entry::decode(&store.get(&entry_path(3), Intent::catalog()).await.unwrap()).unwrap();
    edited.transactions.clear();
    store.put(&entry_path(3), crate::world::version_1(&edited), Intent::catalog()).await.unwrap();
    store.delete(&root_path(6), Intent::catalog()).await.unwrap();
    let error = Catalog::open(store.clone(), env.clone(), options()).await.err().unwrap();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
    assert_eq!(Entry::decode(&old).unwrap().before, None);
}

/// Merged blocks name their inputs, so a rebuilt catalog does not count their rows twice.
#[tokio::test(start_paused = true)]
async fn a_merge_is_restored_without_its_inputs() {
    let (mut scene, catalog) = Scene::new(11, 4, options()).await;
    let inputs: Vec<BlockMeta> = scene.blocks.drain(..2).collect();
    let mut merged = block(&scene.env, scene.writer, 0);
    let ids: Vec<Id> = inputs.iter().map(|input| input.id).collect();
    let bytes = crate::world::merged_object(&mut merged, catalog.snapshot().position(), ids.clone());
    scene.store.put(&merged.path(), bytes, Intent::block()).await.unwrap();
    let mut edits = vec![add(&merged)];
    edits.extend(ids.iter().map(|id| Edit::RemoveBlock { id: *id, at_ms: 0 }));
    catalog.commit(scene.writer, edits, vec![]).await.unwrap();
    catalog.write_witness().await;
    scene.blocks.push(merged);
    scene.delete(&entry_path(6)).await;
    let repair = scene.repair().await;
    assert_eq!((repair.added.len(), sorted(repair.superseded.clone())), (1, sorted(ids.clone())));
    // Also when nothing is left of the catalog.
    scene.delete_all("catalog").await;
    let repair = scene.repair().await;
    assert_eq!((repair.added.len(), sorted(repair.superseded)), (3, sorted(ids)));
}

/// The next repair finishes one that was interrupted after its root was created.
#[tokio::test(start_paused = true)]
async fn an_interrupted_repair_is_finished_by_the_next_one() {
    let (scene, _) = Scene::new(12, 6, few()).await;
    scene.delete(&entry_path(7)).await;
    let before: Vec<String> = scene.objects("catalog").await;
    let mut copies = Vec::new();
    for path in &before {
        copies.push((path.clone(), scene.get(path).await));
    }
    scene.repair().await;
    // The state after only the new checkpoint was written.
    let added: Vec<String> =
        scene.objects("catalog").await.into_iter().filter(|path| path.len() == entry_path(1).len()).collect();
    for path in added {
        scene.delete(&path).await;
    }
    scene.delete("catalog/boundary").await;
    for (path, bytes) in copies {
        scene.put(&path, bytes).await;
    }
    scene.delete("witness").await;
    scene.refused().await;
    scene.repair().await;
}
