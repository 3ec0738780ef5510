//! Goal: garbage collection deletes only what was announced, members measure silence by their own clock,
//! and `check` finds every kind of damage. Method: real objects in a memory store in paused time; each
//! object is looked up by name.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use std::time::Duration;

use bytes::Bytes;
use sandur_base::Id;
use sandur_catalog::{
    Catalog, CatalogOptions, Collector, GcOptions, Members, MembersOptions, OwnBlocks, Registration,
    Severity, check,
};
use sandur_format::catalog_entry::{BlockMeta, Edit, WalKind};
use sandur_runtime::Env;
use sandur_store::{Intent, Store};

use crate::world::{add, block, memory, object, options, register};

async fn put(store: &Store, path: &str) {
    store.put(path, Bytes::from_static(b"12345"), Intent::block()).await.unwrap();
}

async fn exists(store: &Store, path: &str) -> bool {
    store.head(path, Intent::gc()).await.unwrap().is_some()
}

fn wal(incarnation: Id, sequence: u64) -> String {
    format!("wal/{incarnation}/{sequence:020}")
}

struct Scene {
    env: Env,
    store: Store,
    catalog: Catalog,
    own: Id,
}

/// A catalog with one registered process.
async fn scene(seed: u64) -> Scene {
    let (env, store) = memory(seed);
    let catalog = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    let own = env.new_id();
    register(&catalog, own).await.unwrap();
    Scene { env, store, catalog, own }
}

impl Scene {
    async fn commit(&self, edits: Vec<Edit>) {
        self.catalog.commit(self.own, edits, vec![]).await.unwrap();
    }

    async fn stored_block(&self, writer: Id) -> BlockMeta {
        let mut meta = block(&self.env, writer, 1);
        let bytes = object(&mut meta, self.catalog.snapshot().position());
        self.store.put(&meta.path(), bytes, Intent::block()).await.unwrap();
        meta
    }

    fn collector(&self, dry_run: bool) -> Collector {
        Collector::new(self.catalog.clone(), GcOptions { dry_run, ..GcOptions::default() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_block_stays_for_the_grace_period() {
    let scene = scene(1).await;
    let (kept, removed) = (scene.stored_block(scene.own).await, scene.stored_block(scene.own).await);
    scene.commit(vec![add(&kept), add(&removed)]).await;
    // The remover's clock gives a time long ago, which is ignored.
    scene.commit(vec![Edit::RemoveBlock { id: removed.id, at_ms: 0 }]).await;
    let (mut collector, mut dry) = (scene.collector(false), scene.collector(true));
    assert_eq!(dry.collect(scene.own).await.unwrap().blocks_waiting, 1);
    assert_eq!(collector.collect(scene.own).await.unwrap().blocks, 0);
    scene.env.sleep(Duration::from_secs(3599)).await;
    assert_eq!(collector.collect(scene.own).await.unwrap().blocks_waiting, 1);
    assert!(exists(&scene.store, &removed.path()).await);
    scene.env.sleep(Duration::from_secs(1)).await;
    assert_eq!(dry.collect(scene.own).await.unwrap().blocks, 1);
    assert!(exists(&scene.store, &removed.path()).await);
    let report = collector.collect(scene.own).await.unwrap();
    assert_eq!((report.blocks, report.block_bytes, report.blocks_waiting), (1, removed.size, 0));
    assert!(!exists(&scene.store, &removed.path()).await && exists(&scene.store, &kept.path()).await);
    assert_eq!(scene.catalog.snapshot().removed().count(), 0);
    assert!(check(&scene.store, &scene.env).await.unwrap().is_undamaged());
}

#[tokio::test(start_paused = true)]
async fn wal_objects_below_the_floor_are_deleted_but_not_the_fence() {
    let scene = scene(2).await;
    let dead = scene.env.new_id();
    register(&scene.catalog, dead).await.unwrap();
    for sequence in 0..8 {
        put(&scene.store, &wal(dead, sequence)).await;
        put(&scene.store, &wal(scene.own, sequence)).await;
    }
    put(&scene.store, &format!("members/{dead}")).await;
    let mut collector = scene.collector(false);
    scene.commit(vec![Edit::Floor { incarnation: scene.own, from: 0, to: 3 }]).await;
    scene.commit(vec![Edit::Seal { incarnation: dead, fence: 6 }]).await;
    assert_eq!(collector.collect(scene.own).await.unwrap().wal_objects, 0, "deleted one run later");
    assert_eq!(collector.collect(scene.own).await.unwrap().wal_objects, 4);
    assert!(
        !exists(&scene.store, &wal(scene.own, 2)).await && exists(&scene.store, &wal(scene.own, 3)).await
    );
    assert!(exists(&scene.store, &wal(dead, 0)).await && exists(&scene.store, &wal(dead, 6)).await);
    assert!(!exists(&scene.store, &wal(dead, 7)).await, "objects above the fence are void");
    scene.commit(vec![Edit::Floor { incarnation: dead, from: 0, to: 6 }]).await;
    collector.collect(scene.own).await.unwrap();
    let report = collector.collect(scene.own).await.unwrap();
    assert_eq!((report.wal_objects, report.writers), (6, 1));
    assert!(exists(&scene.store, &wal(dead, 6)).await, "the fence is never deleted");
    assert!(!exists(&scene.store, &format!("members/{dead}")).await);
    assert!(scene.catalog.snapshot().writer(dead).is_none());
}

#[tokio::test(start_paused = true)]
async fn files_of_a_local_writer_are_deleted_once_it_is_drained() {
    let scene = scene(3).await;
    let dead = scene.env.new_id();
    let (address, host, kind) = (String::new(), String::new(), WalKind::Local);
    scene
        .catalog
        .register(Registration { incarnation: dead, address, host, wal: kind, node: None })
        .await
        .unwrap();
    put(&scene.store, &wal(dead, 0)).await;
    scene.commit(vec![Edit::Seal { incarnation: dead, fence: 900 }]).await;
    scene.commit(vec![Edit::Floor { incarnation: dead, from: 0, to: 899 }]).await;
    let mut collector = scene.collector(false);
    for _ in 0..3 {
        assert_eq!(collector.collect(scene.own).await.unwrap().wal_objects, 0);
    }
    scene.commit(vec![Edit::Floor { incarnation: dead, from: 899, to: 900 }]).await;
    collector.collect(scene.own).await.unwrap();
    let report = collector.collect(scene.own).await.unwrap();
    assert_eq!((report.wal_objects, report.writers), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn orphans_are_voided_before_they_are_deleted() {
    let scene = scene(4).await;
    let (live, sealed) = (scene.env.new_id(), scene.env.new_id());
    register(&scene.catalog, live).await.unwrap();
    register(&scene.catalog, sealed).await.unwrap();
    let used = scene.stored_block(sealed).await;
    let late = scene.stored_block(sealed).await;
    let unknown = scene.stored_block(Id(7)).await;
    let of_live = scene.stored_block(live).await;
    let own_old = scene.stored_block(scene.own).await;
    scene.env.sleep(Duration::from_secs(5)).await;
    let own_pending = scene.stored_block(scene.own).await;
    scene.commit(vec![add(&used), Edit::Seal { incarnation: sealed, fence: 0 }]).await;
    let own = OwnBlocks { incarnation: scene.own, uncommitted_from: own_pending.id };
    let (mut dry, mut collector) = (scene.collector(true), scene.collector(false));
    for collector in [&mut dry, &mut collector] {
        let first = collector.collect_orphans(scene.own, Some(own)).await.unwrap();
        assert_eq!((first.deleted, first.left), (0, 5), "nothing is deleted by the first run");
    }
    scene.env.sleep(GcOptions::default().grace).await;
    let dry = dry.collect_orphans(scene.own, Some(own)).await.unwrap();
    assert_eq!((dry.deleted, dry.left), (3, 2));
    assert!(exists(&scene.store, &late.path()).await);
    let report = collector.collect_orphans(scene.own, Some(own)).await.unwrap();
    assert_eq!((report.listed, report.deleted, report.left), (6, 3, 2));
    for (meta, stays) in [
        (&used, true),
        (&late, false),
        (&unknown, false),
        (&of_live, true),
        (&own_old, false),
        (&own_pending, true),
    ] {
        assert_eq!(exists(&scene.store, &meta.path()).await, stays, "{}", meta.path());
    }
    // The suspended process cannot commit the deleted block; the pending block can be committed.
    assert!(scene.catalog.commit(sealed, vec![add(&late)], vec![]).await.is_err());
    scene.commit(vec![add(&own_pending)]).await;
    assert!(check(&scene.store, &scene.env).await.unwrap().is_undamaged());
}

#[tokio::test(start_paused = true)]
async fn silence_is_measured_only_by_the_observers_clock() {
    let scene = scene(5).await;
    let other = scene.env.new_id();
    register(&scene.catalog, other).await.unwrap();
    let registration = |incarnation| Registration {
        incarnation,
        address: String::new(),
        host: "h".into(),
        wal: WalKind::Bucket,
        node: None,
    };
    let members = |id| Members::new(scene.catalog.clone(), registration(id), MembersOptions::default());
    let (observer, observed) = (members(scene.own), members(other));
    let task = observed.start();
    for _ in 0..20 {
        scene.env.sleep(Duration::from_secs(10)).await;
        observer.observe().await.unwrap();
        assert!(!observer.is_presumed_dead(other));
    }
    drop(task);
    observer.observe().await.unwrap();
    // The observer is suspended: its first read afterwards proves nothing.
    scene.env.sleep(Duration::from_secs(600)).await;
    assert_eq!(observer.silent_for(other), Some(Duration::ZERO));
    observer.observe().await.unwrap();
    assert!(!observer.is_presumed_dead(other), "{:?}", observer.silent_for(other));
    for _ in 0..3 {
        scene.env.sleep(Duration::from_secs(10)).await;
        observer.observe().await.unwrap();
    }
    assert!(observer.is_presumed_dead(other) && !observer.is_presumed_dead(scene.own));
    observed.beat().await.unwrap();
    observer.observe().await.unwrap();
    assert!(!observer.is_presumed_dead(other), "it is back");
    scene.commit(vec![Edit::Seal { incarnation: other, fence: 0 }]).await;
    assert!(observer.is_presumed_dead(other) && observer.is_presumed_dead(Id(3)));
}

#[tokio::test]
async fn on_a_local_directory_every_other_writer_is_dead() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::system(1);
    let url = format!("file://{}", directory.path().display());
    let store = Store::open(&url, env.clone(), Default::default()).await.unwrap();
    let catalog = Catalog::open(store.clone(), env.clone(), CatalogOptions::default()).await.unwrap();
    let (own, other) = (env.new_id(), env.new_id());
    for incarnation in [own, other] {
        register(&catalog, incarnation).await.unwrap();
    }
    let (address, host, wal) = (String::new(), String::new(), WalKind::Local);
    let registration = Registration { incarnation: own, address, host, wal, node: None };
    let members = Members::new(catalog.clone(), registration, MembersOptions::default());
    assert!(members.is_presumed_dead(other) && !members.is_presumed_dead(own));
    // No query can use a block that was removed before this process started.
    let meta = block(&env, own, 1);
    put(&store, &meta.path()).await;
    let remove = Edit::RemoveBlock { id: meta.id, at_ms: 0 };
    catalog.commit(own, vec![add(&meta)], vec![]).await.unwrap();
    let mut before = Collector::new(catalog.clone(), GcOptions::default());
    catalog.commit(own, vec![remove], vec![]).await.unwrap();
    assert_eq!(before.collect(own).await.unwrap().blocks, 0);
    let mut after = Collector::new(catalog, GcOptions::default());
    assert_eq!(after.collect(own).await.unwrap().blocks, 1);
    assert!(!exists(&store, &meta.path()).await);
}

#[tokio::test(start_paused = true)]
async fn check_reports_every_damaged_object() {
    let scene = scene(6).await;
    let dead = scene.env.new_id();
    register(&scene.catalog, dead).await.unwrap();
    let (good, short, missing) =
        (scene.stored_block(dead).await, scene.stored_block(dead).await, block(&scene.env, dead, 1));
    let short = BlockMeta { size: short.size + 4, ..short };
    scene.commit(vec![add(&good)]).await;
    scene.catalog.checkpoint().await.unwrap();
    assert!(check(&scene.store, &scene.env).await.unwrap().is_undamaged());
    scene.commit(vec![add(&short), add(&missing)]).await;
    scene.commit(vec![Edit::Seal { incarnation: dead, fence: 2 }]).await;
    put(&scene.store, &wal(dead, 1)).await;
    put(&scene.store, "catalog/stranger").await;
    scene.stored_block(Id(9)).await;
    let report = check(&scene.store, &scene.env).await.unwrap();
    let damaged: Vec<&str> = report
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Damage)
        .map(|f| f.object.as_str())
        .collect();
    let mut expected = vec![short.path(), missing.path(), wal(dead, 0), wal(dead, 1)];
    expected.sort();
    assert_eq!(sorted(damaged), expected);
    assert_eq!((report.blocks, report.unreferenced, report.checkpoints, report.entries), (1, 1, 1, 5));
    // A damaged checkpoint and a damaged entry.
    let root = "catalog/checkpoints/00000000000000000003.root";
    put(&scene.store, root).await;
    let opened = Catalog::open(scene.store.clone(), scene.env.clone(), options()).await.unwrap();
    assert_eq!(opened.snapshot(), scene.catalog.snapshot(), "the log is still complete");
    put(&scene.store, "catalog/00000000000000000002").await;
    let report = check(&scene.store, &scene.env).await.unwrap();
    assert!(report.catalog_is_damaged && !report.is_sound());
    for object in [root, "catalog/00000000000000000002"] {
        assert!(report.findings.iter().any(|f| f.object == object), "{object}: {report:?}");
    }
    let error = Catalog::open(scene.store.clone(), scene.env.clone(), options()).await.err().unwrap();
    assert!(error.to_string().contains("catalog/00000000000000000002"), "{error}");
}

fn sorted(mut names: Vec<&str>) -> Vec<String> {
    names.sort_unstable();
    names.into_iter().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn a_description_summarizes_the_catalog() {
    let scene = scene(7).await;
    let metas: Vec<BlockMeta> = (0..3).map(|hour| block(&scene.env, scene.own, hour * 24)).collect();
    scene.commit(metas.iter().map(add).collect()).await;
    scene.commit(vec![Edit::RemoveBlock { id: metas[2].id, at_ms: 0 }]).await;
    scene.catalog.checkpoint().await.unwrap();
    let text = scene.catalog.describe().to_string();
    let host = scene.catalog.snapshot().writer(scene.own).unwrap().host.clone();
    for part in [
        "entry       3",
        "checkpoint  3",
        "removed     1 blocks, 10 rows, 5B of 1000B raw, 2026-11-23 to 2026-11-23",
        "level 0: 2 blocks, 20 rows, 10B of 2.0KiB raw, 2026-11-21 to 2026-11-22",
        host.as_str(),
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}
