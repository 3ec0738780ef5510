//! Goal: what is not a place, a backup or an empty store is refused with its reason; backups and removals
//! exclude each other; marks of dead processes end; damage to a backup is found before anything is restored.
//!
//! Method: stores in memory with a catalog and WAL objects, on a paused clock. `sandur-sim` makes backups of
//! stores with blocks while nodes use them.

#![allow(clippy::unwrap_used)] // a test: a panic is how it fails

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use sandur_base::Id;
use sandur_catalog::{Catalog, CatalogOptions, Registration};
use sandur_format::catalog_entry::{BackupMark, WalKind};
use sandur_format::wal_segment::{FrameId, encode_fence};
use sandur_runtime::Env;
use sandur_store::{Intent, Store, StoreOptions};

use crate::{Backup, Error, Place, Progress, Restore, Step, remove};

fn store(env: &Env) -> Store {
    Store::from_object_store(Arc::new(InMemory::new()), env.clone(), StoreOptions::default())
}

fn progress() -> Progress {
    Arc::new(|_: Step| ())
}

/// A store with a writer whose WAL has this many segments.
async fn source(env: &Env, segments: u64) -> (Store, Id) {
    let store = store(env);
    let catalog = Catalog::open(store.clone(), env.clone(), CatalogOptions::default()).await.unwrap();
    let incarnation = env.new_id();
    let (address, host, wal) = ("10.0.0.1:3100".to_owned(), "host".to_owned(), WalKind::Bucket);
    catalog.register(Registration { incarnation, address, host, wal, node: None }).await.unwrap();
    for sequence in 0..segments {
        let path = format!("wal/{incarnation}/{sequence:020}");
        let bytes = encode_fence(FrameId { incarnation, sequence });
        store.put(&path, bytes, Intent::wal()).await.unwrap();
    }
    (store, incarnation)
}

async fn place(env: &Env) -> Place {
    Place::open_or_create(store(env), env).await.unwrap()
}

fn backup(env: &Env, source: &Store, place: &Place) -> Backup {
    let (env, source, place) = (env.clone(), source.clone(), place.clone());
    Backup { env, source, place, max_rate: None, progress: progress() }
}

async fn restore(env: &Env, place: &Place, target: &Store) -> Result<(), Error> {
    let manifest = place.choose(None, None).await?;
    let (env, place, target) = (env.clone(), place.clone(), target.clone());
    Restore { env, place, manifest, target, max_rate: None, progress: progress() }.run().await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_restored_catalog_has_writers_that_are_dead() {
    let env = Env::simulated(1, 0);
    let ((source, incarnation), place) = (source(&env, 3).await, place(&env).await);
    let created = backup(&env, &source, &place).run().await.unwrap();
    assert_eq!((created.manifest.wal.len(), created.rounds), (3, 1));
    let target = store(&env);
    // What a process that is killed during its start leaves behind does not make the store used.
    target.put("probe/x", Bytes::from_static(b"x"), Intent::probe()).await.unwrap();
    restore(&env, &place, &target).await.unwrap();
    let catalog = Catalog::open(target.clone(), env.clone(), CatalogOptions::default()).await.unwrap();
    let snapshot = catalog.snapshot();
    let writer = snapshot.writer(incarnation).unwrap();
    assert!(writer.address.is_empty() && writer.wal == WalKind::Local && !writer.is_sealed());
    assert_eq!(snapshot.position(), created.manifest.at, "it continues the log of the source");
    assert_eq!(target.list("wal", Intent::wal()).await.unwrap().len(), 3);
    let again = restore(&env, &place, &target).await;
    assert!(matches!(again, Err(Error::NotEmpty { .. })), "{again:?}");
    // The copy goes its own way: it is another store for the place as soon as both have grown.
    for catalog in [catalog, Catalog::open(source, env.clone(), CatalogOptions::default()).await.unwrap()] {
        let (incarnation, wal) = (env.new_id(), WalKind::Bucket);
        let (address, host) = (String::new(), String::new());
        catalog.register(Registration { incarnation, address, host, wal, node: None }).await.unwrap();
        let made = backup(&env, catalog.store(), &place).run().await;
        assert!(made.is_ok() || matches!(made, Err(Error::OtherStore { .. })), "{made:?}");
    }
    assert_eq!(place.backups().await.unwrap().complete.len(), 2, "of only one of them");
}

#[tokio::test(start_paused = true)]
async fn places_stores_and_other_directories_are_distinguished() {
    let env = Env::simulated(2, 0);
    let ((source, _), place) = (source(&env, 1).await, place(&env).await);
    let refused = Place::open_or_create(source.clone(), &env).await;
    assert!(matches!(refused, Err(Error::NotAPlace { .. })), "a store");
    assert!(matches!(Place::open(source.clone()).await, Err(Error::NoBackups { .. })));
    let empty = place.choose(None, None).await;
    assert!(matches!(empty, Err(Error::NoBackups { .. })), "{empty:?}");
    let id = backup(&env, &source, &place).run().await.unwrap().manifest.id;
    assert_eq!(place.choose(Some(id), None).await.unwrap().id, id);
    let unknown = place.choose(Some(env.new_id()), None).await;
    assert!(matches!(unknown, Err(Error::NoSuchBackup { .. })), "{unknown:?}");
    let nothing = backup(&env, &store(&env), &place).run().await;
    assert!(matches!(nothing, Err(Error::NoStore { .. })), "{nothing:?}");
    let junk = store(&env);
    junk.put("a", Bytes::from_static(b"a"), Intent::gc()).await.unwrap();
    assert!(matches!(Place::open_or_create(junk, &env).await, Err(Error::NotAPlace { .. })), "other files");
    let early = place.choose(None, Some(-1_000)).await;
    assert!(matches!(early, Err(Error::NoneBefore { .. })), "{early:?}");
    let over = restore(&env, &place, &place.store).await;
    assert!(matches!(over, Err(Error::NotEmpty { .. })), "{over:?}");
}

#[tokio::test(start_paused = true)]
async fn backups_and_removals_exclude_each_other_while_they_live() {
    let env = Env::simulated(3, 0);
    let ((source, _), place) = (source(&env, 1).await, place(&env).await);
    let first = backup(&env, &source, &place).run().await.unwrap().manifest.id;
    // A backup that renews its mark.
    let path = format!("running/{}", env.new_id());
    let mark = |counter| BackupMark { id: Id(7), began_ms: 0, counter }.encode();
    let (renewed, timer, name) = (place.store.clone(), env.clone(), path.clone());
    let renewal = env.spawn("renewal", async move {
        for counter in 0.. {
            renewed.put(&name, mark(counter).into(), Intent::catalog()).await.unwrap();
            timer.sleep(Duration::from_secs(5)).await;
        }
    });
    env.sleep(Duration::from_secs(1)).await;
    let refused = remove(&place, &env, &[first]).await;
    assert!(matches!(refused, Err(Error::InProgress { .. })), "{refused:?}");
    assert!(place.backup(first).await.unwrap().is_some());
    assert!(place.read_mark("removing").await.unwrap().is_none());
    // It dies.
    drop(renewal);
    let removed = remove(&place, &env, &[first]).await.unwrap();
    assert_eq!((removed.backups, place.backups().await.unwrap().complete.len()), (1, 0));
    assert!(place.read_mark(&path).await.unwrap().is_none());
    // A removal that died: no backup begins, and the next removal takes over.
    place.store.put("removing", mark(1).into(), Intent::catalog()).await.unwrap();
    let refused = backup(&env, &source, &place).run().await;
    assert!(matches!(refused, Err(Error::Removing { .. })), "{refused:?}");
    remove(&place, &env, &[]).await.unwrap();
    backup(&env, &source, &place).run().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_backup_that_was_taken_for_dead_fails() {
    let env = Env::simulated(4, 0);
    let ((source, _), place) = (source(&env, 2).await, place(&env).await);
    // One byte per second: it takes some minutes.
    let slow = Backup { max_rate: Some(1), ..backup(&env, &source, &place) };
    let running = env.spawn("backup", async move { slow.run().await });
    env.sleep(Duration::from_secs(20)).await;
    let marks = place.store.list("running", Intent::catalog()).await.unwrap();
    assert_eq!(marks.len(), 1);
    place.store.delete(&marks[0].path, Intent::catalog()).await.unwrap();
    let failed = running.join().await.unwrap();
    assert!(matches!(failed, Err(Error::TakenForDead { .. })), "{failed:?}");
    assert!(place.backups().await.unwrap().complete.is_empty());
    assert!(place.store.list("backups", Intent::catalog()).await.unwrap().is_empty(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn damage_to_a_backup_is_named_and_nothing_is_restored() {
    let env = Env::simulated(5, 0);
    let ((source, _), place) = (source(&env, 2).await, place(&env).await);
    backup(&env, &source, &place).run().await.unwrap();
    let objects = place.store.list("backups", Intent::gc()).await.unwrap();
    assert!(objects.len() >= 6, "{objects:?}");
    // The boundary and the witness are computed, not read.
    let needed = |path: &str| !path.ends_with("boundary") && !path.ends_with("witness");
    for object in objects.iter().filter(|object| needed(&object.path)) {
        let original = place.store.get(&object.path, Intent::gc()).await.unwrap();
        let mut changed = original.to_vec();
        changed[original.len() / 2] ^= 1;
        for damaged in [original.slice(..original.len() - 1), changed.into()] {
            place.store.put(&object.path, damaged, Intent::gc()).await.unwrap();
            let target = store(&env);
            let refused = restore(&env, &place, &target).await.unwrap_err();
            assert!(refused.to_string().contains(&object.path), "{}: {refused}", object.path);
            assert!(target.list("", Intent::gc()).await.unwrap().is_empty());
        }
        place.store.delete(&object.path, Intent::gc()).await.unwrap();
        let missing = restore(&env, &place, &store(&env)).await.unwrap_err().to_string();
        let is_named = missing.contains(&object.path) || missing.contains("has no backups");
        assert!(is_named, "{}: {missing}", object.path);
        place.store.put(&object.path, original, Intent::gc()).await.unwrap();
    }
    restore(&env, &place, &store(&env)).await.unwrap();
}

/// A restore that was interrupted, and then repeated after a server had made a catalog of its own.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_used_since_is_not_overwritten_by_a_repeated_restore() {
    let env = Env::simulated(6, 0);
    let ((from, _), place) = (source(&env, 2).await, place(&env).await);
    let id = backup(&env, &from, &place).run().await.unwrap().manifest.id;
    let (used, _) = source(&env, 1).await;
    let mark = BackupMark { id, began_ms: 0, counter: 0 };
    used.put("restoring", mark.encode().into(), Intent::catalog()).await.unwrap();
    let before = contents(&used).await;
    let refused = restore(&env, &place, &used).await;
    assert!(matches!(refused, Err(Error::NotEmpty { .. })), "{refused:?}");
    assert_eq!(contents(&used).await, before, "no object was written");
    // Boundary and witness of another catalog are not replaced.
    for path in ["catalog/boundary", "witness"] {
        let target = store(&env);
        target.put("restoring", mark.encode().into(), Intent::catalog()).await.unwrap();
        target.put(path, Bytes::from_static(b"other"), Intent::catalog()).await.unwrap();
        let refused = restore(&env, &place, &target).await;
        assert!(matches!(refused, Err(Error::NotEmpty { .. })), "{refused:?}");
        assert_eq!(target.get(path, Intent::catalog()).await.unwrap(), "other");
    }
}

#[tokio::test(start_paused = true)]
async fn no_server_starts_on_a_store_that_is_being_restored() {
    let env = Env::simulated(7, 0);
    let ((from, _), place) = (source(&env, 2).await, place(&env).await);
    let manifest = backup(&env, &from, &place).run().await.unwrap().manifest;
    let target = store(&env);
    // One byte per second: it copies the WAL for some minutes.
    let slow = Restore {
        env: env.clone(),
        place: place.clone(),
        manifest,
        target: target.clone(),
        max_rate: Some(1),
        progress: progress(),
    };
    let running = env.spawn("restore", async move { slow.run().await });
    env.sleep(Duration::from_secs(5)).await;
    let started = Catalog::open(target.clone(), env.clone(), CatalogOptions::default()).await;
    assert!(started.is_err(), "it has no root yet");
    running.join().await.unwrap().unwrap();
    Catalog::open(target, env.clone(), CatalogOptions::default()).await.unwrap();
}

/// The backup copies a segment per minute, and the writer writes one per second.
#[tokio::test(start_paused = true)]
async fn a_backup_ends_although_the_writer_is_faster() {
    let env = Env::simulated(8, 0);
    let ((source, incarnation), place) = (source(&env, 3).await, place(&env).await);
    let (wal, timer) = (source.clone(), env.clone());
    let writer = env.spawn("writer", async move {
        for sequence in 3.. {
            timer.sleep(Duration::from_secs(1)).await;
            let path = format!("wal/{incarnation}/{sequence:020}");
            let bytes = encode_fence(FrameId { incarnation, sequence });
            wal.put(&path, bytes, Intent::wal()).await.unwrap();
        }
    });
    let slow = Backup { max_rate: Some(1), ..backup(&env, &source, &place) };
    let running = env.spawn("backup", async move { slow.run().await });
    env.sleep(Duration::from_secs(3_600)).await;
    assert!(running.is_finished(), "it does not follow the writer");
    let created = running.join().await.unwrap().unwrap();
    assert_eq!(created.manifest.wal.len(), 3, "those that existed when it began");
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_cannot_be_decoded_leaves_the_place_usable() {
    let env = Env::simulated(9, 0);
    let ((source, _), place) = (source(&env, 2).await, place(&env).await);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(backup(&env, &source, &place).run().await.unwrap().manifest.id);
    }
    let path = format!("backups/{}/manifest", ids[1]);
    place.store.put(&path, Bytes::from_static(b"nonsense"), Intent::catalog()).await.unwrap();
    let backups = place.backups().await.unwrap();
    assert_eq!((backups.complete.len(), backups.unreadable.len()), (2, 1));
    assert_eq!(backups.unreadable[0].0, ids[1]);
    ids.push(backup(&env, &source, &place).run().await.unwrap().manifest.id);
    assert_eq!(place.choose(Some(ids[0]), None).await.unwrap().id, ids[0]);
    let newest = place.choose(None, None).await;
    assert!(matches!(newest, Err(Error::Unknown { backup, .. }) if backup == ids[1]), "{newest:?}");
    let refused = remove(&place, &env, &[ids[0]]).await;
    assert!(matches!(refused, Err(Error::Unknown { backup, .. }) if backup == ids[1]), "{refused:?}");
    assert!(place.backup(ids[0]).await.unwrap().is_some(), "nothing was removed");
    let removed = remove(&place, &env, &[ids[1]]).await.unwrap();
    assert_eq!((removed.backups, removed.interrupted), (1, 0));
    assert_eq!(place.choose(None, None).await.unwrap().id, ids[3]);
    assert_eq!(remove(&place, &env, &[ids[0]]).await.unwrap().backups, 1);
}

#[tokio::test(start_paused = true)]
async fn copies_of_the_wal_of_earlier_attempts_are_deleted() {
    let env = Env::simulated(12, 0);
    let ((source, _), place) = (source(&env, 2).await, place(&env).await);
    // One byte per second: a process registers while the WAL is copied.
    let slow = Backup { max_rate: Some(1), ..backup(&env, &source, &place) };
    let running = env.spawn("backup", async move { slow.run().await });
    env.sleep(Duration::from_secs(20)).await;
    let catalog = Catalog::open(source, env.clone(), CatalogOptions::default()).await.unwrap();
    let (address, host, wal) = (String::new(), String::new(), WalKind::Bucket);
    let registration = Registration { incarnation: env.new_id(), address, host, wal, node: None };
    catalog.register(registration).await.unwrap();
    let manifest = running.join().await.unwrap().unwrap().manifest;
    assert_eq!(manifest.attempt, 2);
    let below = format!("backups/{}/", manifest.id);
    let all = contents(&place.store).await;
    let attempts: Vec<&str> = all
        .iter()
        .filter_map(|(path, _)| path.strip_prefix(&below)?.split_once("/wal/"))
        .map(|p| p.0)
        .collect();
    assert_eq!(attempts, ["2", "2"]);
}

/// Changes stored rules as the API does: a new object, the index that names it and the one before, and then
/// the deletion of the one that the index does not name any more.
async fn change_rules(store: &Store, change: u64) {
    let put = async |name: String, text: String| {
        store.put(&format!("rules/{name}"), text.into(), Intent::catalog()).await.unwrap();
    };
    put(format!("t1/{change}"), format!("rules of change {change}")).await;
    put("index".to_owned(), format!("{change} {}", change.saturating_sub(1))).await;
    if let Some(dropped) = change.checked_sub(2) {
        store.delete(&format!("rules/t1/{dropped}"), Intent::catalog()).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn stored_rules_are_restored_with_their_bytes() {
    let env = Env::simulated(9, 0);
    let ((source, _), place) = (source(&env, 1).await, place(&env).await);
    let without = backup(&env, &source, &place).run().await.unwrap().manifest;
    assert!(without.rules.is_empty());
    change_rules(&source, 0).await;
    change_rules(&source, 1).await;
    let manifest = backup(&env, &source, &place).run().await.unwrap().manifest;
    assert_eq!(manifest.rules.last().unwrap().name, "index", "restored after what it names");
    let target = store(&env);
    restore(&env, &place, &target).await.unwrap();
    let rules = |all: Vec<(String, Bytes)>| -> Vec<(String, Bytes)> {
        all.into_iter().filter(|(path, _)| path.starts_with("rules/")).collect()
    };
    let restored = rules(contents(&target).await);
    assert_eq!((restored.len(), &restored), (3, &rules(contents(&source).await)));
    // Damage to a copy is found, and nothing is restored.
    let path = format!("backups/{}/rules/t1/1", manifest.id);
    place.store.put(&path, Bytes::from_static(b"other"), Intent::catalog()).await.unwrap();
    let target = store(&env);
    let refused = restore(&env, &place, &target).await.unwrap_err().to_string();
    assert!(refused.contains(&path) && contents(&target).await.is_empty(), "{refused}");
    remove(&place, &env, &[manifest.id]).await.unwrap();
    assert!(place.store.list(&format!("backups/{}", manifest.id), Intent::gc()).await.unwrap().is_empty());
}

/// Rules change each second for some minutes while they are copied at a byte per second.
#[tokio::test(start_paused = true)]
async fn the_index_of_a_backup_names_only_rules_that_it_has() {
    let env = Env::simulated(10, 0);
    let ((source, _), place) = (source(&env, 1).await, place(&env).await);
    change_rules(&source, 0).await;
    // Objects that nothing refers to: they are copied first, and the rules are replaced in the meantime.
    for n in 0..3 {
        source.put(&format!("rules/t0/{n}"), vec![0; 20].into(), Intent::catalog()).await.unwrap();
    }
    let (changed, timer) = (source.clone(), env.clone());
    let changes = env.spawn("changes", async move {
        for change in 1..200 {
            timer.sleep(Duration::from_secs(1)).await;
            change_rules(&changed, change).await;
        }
    });
    let slow = Backup { max_rate: Some(1), ..backup(&env, &source, &place) };
    let running = env.spawn("backup", async move { slow.run().await });
    changes.join().await.unwrap();
    let copied = running.join().await.unwrap().unwrap().manifest;
    let target = store(&env);
    restore(&env, &place, &target).await.unwrap();
    let index = target.get("rules/index", Intent::catalog()).await.unwrap();
    let index = String::from_utf8(index.to_vec()).unwrap();
    for change in index.split(' ') {
        let rules = target.get(&format!("rules/t1/{change}"), Intent::catalog()).await;
        assert_eq!(rules.unwrap(), format!("rules of change {change}"), "{index}: {:?}", copied.rules);
    }
}

/// The names of a store's objects with their bytes.
async fn contents(store: &Store) -> Vec<(String, Bytes)> {
    let mut contents = Vec::new();
    for object in store.list("", Intent::gc()).await.unwrap() {
        let bytes = store.get(&object.path, Intent::gc()).await.unwrap();
        contents.push((object.path, bytes));
    }
    contents
}
