//! Goal: the contract of the catalog on a well-behaved store: several processes agree, commits share
//! entries, checkpoints and truncation lose nothing. Method: several catalogs over one memory store in
//! paused time.

#![allow(clippy::unwrap_used)] // also in the functions that tests share

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStoreExt;
use sandur_base::Id;
use sandur_catalog::{Catalog, CatalogOptions, CommitError, EditFault, Rejection};
use sandur_format::catalog_entry::{Edit, Precondition};
use sandur_model::{Dataset, TenantId, TimeRange};
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Operation, Store};

use crate::world::{START_NS, add, block, memory, options, register};

#[tokio::test(start_paused = true)]
async fn processes_see_each_others_commits() {
    let (env, store) = memory(1);
    let a = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    let b = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    let writer = env.new_id();
    let snapshot = register(&a, writer).await.unwrap();
    assert_eq!((snapshot.number(), b.snapshot().number()), (1, 0));
    let meta = block(&env, writer, 3);
    // `b` does not know the writer yet, but the log decides the commit, not the snapshot of `b`.
    b.commit(writer, vec![add(&meta)], vec![Precondition::Live { incarnation: writer }]).await.unwrap();
    let seen = a.refresh().await.unwrap();
    assert_eq!(seen, b.snapshot());
    let dataset = Dataset::logs(TenantId::new("t").unwrap());
    let blocks: Vec<_> = seen.blocks(&dataset, TimeRange::ALL).collect();
    assert_eq!(blocks.iter().map(|b| b.id).collect::<Vec<_>>(), [meta.id]);
    let c = Catalog::open(store, env, options()).await.unwrap();
    assert_eq!(c.snapshot(), seen);
}

#[tokio::test(start_paused = true)]
async fn of_two_flushes_of_the_same_rows_one_is_rejected() {
    let (env, store) = memory(2);
    let a = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    let b = Catalog::open(store, env.clone(), options()).await.unwrap();
    let writer = env.new_id();
    register(&a, writer).await.unwrap();
    let flush = |meta| vec![add(&meta), Edit::Floor { incarnation: writer, from: 0, to: 7 }];
    let guard = || vec![Precondition::FloorIs { incarnation: writer, at: 0 }];
    let (first, second) = tokio::join!(
        a.commit(writer, flush(block(&env, writer, 1)), guard()),
        b.commit(writer, flush(block(&env, writer, 1)), guard()),
    );
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    let error = first.and(second).unwrap_err();
    let CommitError::Rejected { why } = &error else { panic!("{error}") };
    assert_eq!(**why, Rejection::Precondition(guard()[0].clone()));
    assert_eq!(a.refresh().await.unwrap().block_count(), 1);
    let orphan = add(&block(&env, Id(5), 1));
    let error = a.commit(writer, vec![orphan], vec![]).await.unwrap_err();
    let CommitError::Rejected { why } = &error else { panic!("{error}") };
    assert!(matches!(**why, Rejection::Edit { fault: EditFault::Unregistered, .. }));
}

#[tokio::test(start_paused = true)]
async fn commits_that_wait_together_share_entries() {
    let (env, store) = memory(3);
    let catalog = Catalog::open(store, env.clone(), options()).await.unwrap();
    let writer = env.new_id();
    register(&catalog, writer).await.unwrap();
    let commits = (0..100).map(|hour| {
        let (catalog, meta) = (catalog.clone(), block(&env, writer, hour));
        async move { catalog.commit(writer, vec![add(&meta)], vec![]).await }
    });
    for result in futures_util::future::join_all(commits).await {
        result.unwrap();
    }
    let snapshot = catalog.snapshot();
    assert_eq!(snapshot.block_count(), 100);
    assert!(snapshot.number() <= 4, "{} entries", snapshot.number());
}

#[tokio::test(start_paused = true)]
async fn checkpoints_truncate_the_log_and_lose_nothing() {
    let (env, store) = memory(4);
    let few = CatalogOptions { checkpoint_entries: 4, ..options() };
    let a = Catalog::open(store.clone(), env.clone(), few.clone()).await.unwrap();
    let sleeper = Catalog::open(store.clone(), env.clone(), few.clone()).await.unwrap();
    let writer = env.new_id();
    register(&a, writer).await.unwrap();
    for hour in 0..30 {
        a.commit(writer, vec![add(&block(&env, writer, hour))], vec![]).await.unwrap();
        a.keep_house().await.unwrap();
    }
    assert_eq!(a.snapshot().number(), 31);
    let listed = store.list("catalog", sandur_store::Intent::catalog()).await.unwrap();
    let entries = listed.iter().filter(|o| o.path.len() == "catalog/".len() + 20).count();
    let roots = listed.iter().filter(|o| o.path.ends_with(".root")).count();
    assert!(entries <= 8, "{entries} entries are left");
    assert_eq!(roots, 2);
    assert!(a.entry(3).await.unwrap().is_none());
    // A process that opens now, and one that was idle all the time, see everything.
    let fresh = Catalog::open(store, env.clone(), few).await.unwrap();
    assert_eq!(fresh.snapshot(), a.snapshot());
    assert_eq!(sleeper.refresh().await.unwrap(), a.snapshot());
    // The process that was idle can commit.
    let meta = block(&env, writer, 50);
    let snapshot = sleeper.commit(writer, vec![add(&meta)], vec![]).await.unwrap();
    assert!(snapshot.block(meta.id).is_some());
    assert_eq!(a.refresh().await.unwrap(), snapshot);
}

#[tokio::test(start_paused = true)]
async fn a_commit_at_a_deleted_number_is_detected_and_repeated() {
    let (env, store) = memory(5);
    let few = CatalogOptions { checkpoint_entries: 3, ..options() };
    let a = Catalog::open(store.clone(), env.clone(), few.clone()).await.unwrap();
    let writer = env.new_id();
    register(&a, writer).await.unwrap();
    let sleeper = Catalog::open(store.clone(), env.clone(), few).await.unwrap();
    for hour in 0..20 {
        a.commit(writer, vec![add(&block(&env, writer, hour))], vec![]).await.unwrap();
        a.keep_house().await.unwrap();
    }
    // Number 2 is deleted, so the suspended process's create succeeds there: a ghost.
    let meta = block(&env, writer, 99);
    let snapshot = sleeper.commit(writer, vec![add(&meta)], vec![]).await.unwrap();
    assert!(store.get("catalog/00000000000000000002", sandur_store::Intent::catalog()).await.is_ok());
    assert!(snapshot.number() > 20);
    assert_eq!(sleeper.metrics().reloads.get(), 1);
    assert!(a.refresh().await.unwrap().block(meta.id).is_some());
    // A third process that is as late is not misled by the ghost.
    assert_eq!(a.refresh().await.unwrap(), sleeper.refresh().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_of_many_blocks_has_several_parts() {
    let (env, store) = memory(6);
    let catalog = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    let writer = env.new_id();
    register(&catalog, writer).await.unwrap();
    for round in 0..5 {
        let blocks = (0..4_000).map(|n| add(&block(&env, writer, (round * 4_000 + n) % 700)));
        catalog.commit(writer, blocks.collect(), vec![]).await.unwrap();
    }
    let removed: Vec<Id> = catalog.snapshot().all_blocks().step_by(10).map(|b| b.id).collect();
    let edits = removed.iter().map(|id| Edit::RemoveBlock { id: *id, at_ms: 9 }).collect();
    catalog.commit(writer, edits, vec![]).await.unwrap();
    assert!(catalog.checkpoint().await.unwrap());
    assert!(!catalog.checkpoint().await.unwrap(), "there is one at this number");
    let listed = store.list("catalog/checkpoints", sandur_store::Intent::catalog()).await.unwrap();
    assert_eq!(listed.len(), 3 + 1, "20,000 blocks in parts of 8,192, and a root");
    let fresh = Catalog::open(store.clone(), env.clone(), options()).await.unwrap();
    assert_eq!(fresh.snapshot(), catalog.snapshot());
    assert_eq!((fresh.snapshot().block_count(), fresh.snapshot().removed().count()), (18_000, 2_000));
    // A transaction that is larger than an entry is refused at once.
    let blocks = (0..60_000).map(|n| add(&block(&env, writer, n % 700))).collect();
    let error = catalog.commit(writer, blocks, vec![]).await.unwrap_err();
    assert!(matches!(error, CommitError::TooLarge(_)), "{error}");
    assert!(error.to_string().contains("split it"), "{error}");
}

#[tokio::test]
async fn a_catalog_in_a_local_directory_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", directory.path().display());
    let env = Env::system(1);
    let few = CatalogOptions { checkpoint_entries: 4, ..CatalogOptions::default() };
    let writer = env.new_id();
    let before = {
        let store = sandur_store::Store::open(&url, env.clone(), Default::default()).await.unwrap();
        let catalog = Catalog::open(store, env.clone(), few.clone()).await.unwrap();
        register(&catalog, writer).await.unwrap();
        for hour in 0..20 {
            catalog.commit(writer, vec![add(&block(&env, writer, hour))], vec![]).await.unwrap();
            catalog.keep_house().await.unwrap();
        }
        catalog.refresh().await.unwrap()
    };
    let store = sandur_store::Store::open(&url, env.clone(), Default::default()).await.unwrap();
    let catalog = Catalog::open(store, env, few).await.unwrap();
    assert_eq!(catalog.snapshot(), before);
    assert_eq!((before.number(), before.block_count()), (21, 20));
    assert!(catalog.is_local());
}

/// A poll of a log that has not grown is one request, sees every new entry, and verifies the end of the log
/// every ten seconds and after a suspension.
#[tokio::test(start_paused = true)]
async fn polls_are_cheap_and_miss_nothing() {
    let env = Env::simulated(9, START_NS);
    let bucket = FaultStore::new(env.clone(), 9, FaultPlan::none());
    let store =
        |name: &str| Store::from_object_store(Arc::new(bucket.client(name)), env.clone(), Default::default());
    let few = CatalogOptions { checkpoint_entries: 4, truncate_after: Duration::from_secs(60), ..options() };
    let (writing, polling) = (store("writing"), store("polling"));
    let a = Catalog::open(writing, env.clone(), few.clone()).await.unwrap();
    let b = Catalog::open(polling.clone(), env.clone(), few).await.unwrap();
    let gets = || {
        let usage = polling.meter().snapshot();
        usage.iter().filter(|one| one.operation == Operation::Get).map(|one| one.requests).sum::<u64>()
    };
    let writer = env.new_id();
    register(&a, writer).await.unwrap();
    b.poll().await.unwrap();
    let before = gets();
    for _ in 0..100 {
        env.sleep(Duration::from_secs(1)).await;
        assert!(b.poll().await.unwrap().writer(writer).is_some());
        assert!(b.age() < Duration::from_secs(1));
    }
    let sent = gets() - before;
    assert!((100..=125).contains(&sent), "{sent} requests of 100 polls");
    for hour in 0..40 {
        a.commit(writer, vec![add(&block(&env, writer, hour))], vec![]).await.unwrap();
        a.keep_house().await.unwrap();
        // Sometimes the process is suspended, for so long that entries that it has not read are deleted.
        let pause = if hour % 10 == 9 { 400 } else { env.random_below(20) };
        env.sleep(Duration::from_secs(pause)).await;
        assert_eq!(b.poll().await.unwrap(), a.snapshot(), "entry {hour}");
    }
    assert!(a.entry(3).await.unwrap().is_none(), "the log was truncated");
    bucket.objects().delete(&format!("catalog/{:020}", a.snapshot().number()).into()).await.unwrap();
    let noticed = async {
        while b.poll().await.is_ok() {
            env.sleep(Duration::from_secs(1)).await;
        }
    };
    assert!(env.timeout(Duration::from_secs(13), noticed).await.is_some(), "a lost entry is noticed");
}
