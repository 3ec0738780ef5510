//! Goal: versions of blocks are active exactly when every registered writer reads them, whatever a process
//! knows when it registers, and a process that does not read them stops. Method: catalogs of processes that
//! state what they read and of one that does not, over one store.

use sandur_base::Id;
use sandur_catalog::{
    BlockForms, Catalog, CatalogOptions, Error, NEWEST_FORMS, NodeDescription, NodePhase, Registration,
    Repair, check,
};
use sandur_format::catalog_entry::{EDITS_NEWEST, EDITS_OF_NODES, EDITS_UNSTATED, Edit, WalKind};
use sandur_model::{Roles, RuleShards};
use sandur_runtime::Env;
use sandur_store::Store;

use crate::world::{memory, options, register};

async fn open(store: &Store, env: &Env, reads: Option<BlockForms>) -> Result<Catalog, Error> {
    Catalog::open(store.clone(), env.clone(), CatalogOptions { reads, ..options() }).await
}

#[tokio::test(start_paused = true)]
async fn a_process_that_registers_without_knowing_an_older_one_activates_nothing() {
    let (env, store) = memory(31);
    let modern = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    let before = open(&store, &env, None).await.unwrap();
    let (old, new) = (env.new_id(), env.new_id());
    register(&before, old).await.unwrap();
    let snapshot = register(&modern, new).await.unwrap();
    assert!(snapshot.writer(old).is_some() && snapshot.writer(new).is_some());
    assert_eq!(snapshot.forms(), BlockForms::UNSTATED);
    assert!(!modern.activate_forms(new).await.unwrap());
    // An older process reads what the other stated as part of the host name, and keeps it in checkpoints.
    before.refresh().await.unwrap();
    assert!(before.checkpoint().await.unwrap());
    let third = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    assert_eq!(third.snapshot().writer(new).unwrap().reads, Some(NEWEST_FORMS));
    assert_eq!(third.snapshot().writer(old).unwrap().reads, None);
    assert!(!third.activate_forms(new).await.unwrap());

    third.seal(new, old, 0, Vec::new()).await.unwrap();
    assert!(modern.refresh().await.is_ok() && modern.activate_forms(new).await.unwrap());
    assert!(!modern.activate_forms(new).await.unwrap(), "once");
    let stopped = before.refresh().await.unwrap_err();
    assert!(matches!(stopped, Error::NewerForms { active: NEWEST_FORMS, .. }), "{stopped}");
    assert!(register(&before, env.new_id()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn active_versions_stay_in_checkpoints_and_stop_older_programs() {
    let (env, store) = memory(32);
    let catalog = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    let writer = env.new_id();
    assert_eq!(register(&catalog, writer).await.unwrap().number(), 1, "in one entry");
    assert_eq!(catalog.snapshot().forms(), NEWEST_FORMS);
    for _ in 0..2 {
        catalog.commit(writer, vec![Edit::Forget { incarnation: Id(5) }], vec![]).await.unwrap();
        assert!(catalog.checkpoint().await.unwrap());
    }
    assert!(catalog.truncate(false).await.unwrap().deleted > 0);
    let again = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    assert_eq!((again.snapshot().forms(), &*again.snapshot()), (NEWEST_FORMS, &*catalog.snapshot()));
    for reads in [None, Some(BlockForms { logs: NEWEST_FORMS.logs, samples: 1 })] {
        let refused = open(&store, &env, reads).await.err().unwrap();
        assert!(matches!(refused, Error::NewerForms { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(&NEWEST_FORMS.to_string()) && text.contains("start a newer version"), "{text}");
    }
    assert!(check(&store, &env).await.unwrap().is_undamaged());
}

/// Versions of a program of the future: this one neither follows nor repairs its store.
#[tokio::test(start_paused = true)]
async fn a_store_of_a_newer_program_is_neither_used_nor_repaired() {
    let (env, store) = memory(33);
    let later = BlockForms { logs: NEWEST_FORMS.logs + 1, samples: NEWEST_FORMS.samples };
    let catalog = open(&store, &env, Some(later)).await.unwrap();
    register(&catalog, env.new_id()).await.unwrap();
    let refusals = [
        open(&store, &env, Some(NEWEST_FORMS)).await.err(),
        check(&store, &env).await.err(),
        Repair::plan(&store, &env).await.err(),
    ];
    for refused in refusals {
        assert!(matches!(refused, Some(Error::NewerForms { .. })), "{refused:?}");
    }
}

fn node(id: &str) -> NodeDescription {
    let (id, zone, version) = (id.to_owned(), "zone-1".to_owned(), "0.1.0".to_owned());
    NodeDescription { id, zone, roles: Roles::ALL, cache_bytes: 1 << 30, phase: NodePhase::Serving, version }
}

fn of_node(incarnation: Id) -> Registration {
    let (address, host, wal) = ("10.0.0.1:3100".to_owned(), "host".to_owned(), WalKind::Bucket);
    Registration { incarnation, address, host, wal, node: Some(node("n-1")) }
}

/// Goal: nodes are described from the moment at which no program is registered that cannot read that, and
/// such a program works on undisturbed until then. Method: a catalog that states earlier edits.
#[tokio::test(start_paused = true)]
async fn nodes_are_described_once_the_last_older_program_has_ended() {
    let (env, store) = memory(34);
    let earlier = CatalogOptions { edits: EDITS_UNSTATED, ..options() };
    let before = Catalog::open(store.clone(), env.clone(), earlier.clone()).await.unwrap();
    let (old, new) = (env.new_id(), env.new_id());
    register(&before, old).await.unwrap();
    let modern = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    let registered = modern.register(of_node(new)).await.unwrap();
    assert_eq!(registered.writer(new).unwrap().node, None, "the older program could not read it");
    assert!(!modern.describe_node(new, &node("n-1")).await.unwrap());
    // The older program reads on, and writes checkpoints that keep what the newer one stated.
    before.refresh().await.unwrap();
    assert!(before.checkpoint().await.unwrap());
    let third = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    assert_eq!(third.snapshot().writer(new).unwrap().edits, EDITS_NEWEST);
    third.seal(new, old, 0, Vec::new()).await.unwrap();
    modern.refresh().await.unwrap();
    assert!(modern.describe_node(new, &node("n-1")).await.unwrap());
    assert!(!modern.describe_node(new, &node("n-1")).await.unwrap(), "once");
    let stopped = before.refresh().await.unwrap_err();
    assert!(stopped.to_string().contains("start a newer version of the program"), "{stopped}");
    // The checkpoint keeps the description, and stops older programs too.
    assert!(modern.checkpoint().await.unwrap());
    let again = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    assert_eq!(again.snapshot().writer(new).unwrap().node, Some(node("n-1")));
    assert!(Catalog::open(store.clone(), env.clone(), earlier).await.is_err());
    // With its registration, and from another process.
    let fourth = env.new_id();
    again.register(of_node(fourth)).await.unwrap();
    assert!(again.set_phase(fourth, new, NodePhase::Draining).await.unwrap());
    modern.refresh().await.unwrap();
    assert_eq!(modern.snapshot().writer(new).unwrap().node.as_ref().unwrap().phase, NodePhase::Draining);
    assert!(!again.set_phase(fourth, env.new_id(), NodePhase::Draining).await.unwrap());
    assert!(check(&store, &env).await.unwrap().is_undamaged());
}

/// Goal: shards of rules are owned from the moment at which no program is registered that cannot read that,
/// by one live process each, and a checkpoint keeps it. Method: a catalog that states earlier edits.
#[tokio::test(start_paused = true)]
async fn shards_of_rules_are_owned_once_the_last_older_program_has_ended() {
    let (env, store) = memory(35);
    let earlier = CatalogOptions { edits: EDITS_OF_NODES, ..options() };
    let before = Catalog::open(store.clone(), env.clone(), earlier.clone()).await.unwrap();
    let (old, first, second) = (env.new_id(), env.new_id(), env.new_id());
    before.register(of_node(old)).await.unwrap();
    let one = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    one.register(of_node(first)).await.unwrap();
    assert!(!one.records_owners_of_rules());
    assert!(one.own_rules(first, RuleShards::ALL).await.unwrap().is_none());
    one.seal(first, old, 0, Vec::new()).await.unwrap();
    assert!(one.records_owners_of_rules());
    let owned = one.own_rules(first, RuleShards::ALL).await.unwrap().unwrap();
    assert_eq!(owned.writer(first).unwrap().rules, RuleShards::ALL);
    let stopped = before.refresh().await.unwrap_err();
    assert!(stopped.to_string().contains("start a newer version of the program"), "{stopped}");
    let other = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    other.register(of_node(second)).await.unwrap();
    assert!(other.own_rules(second, RuleShards::one(5)).await.unwrap().is_none(), "it has a live owner");
    // The owner gives a shard up, or dies.
    one.own_rules(first, RuleShards::ALL.without(RuleShards::one(5))).await.unwrap().unwrap();
    assert!(other.own_rules(second, RuleShards::one(5)).await.unwrap().is_some());
    other.seal(second, first, 0, Vec::new()).await.unwrap();
    assert!(other.own_rules(second, RuleShards::ALL).await.unwrap().is_some());
    assert!(one.own_rules(first, RuleShards::one(1)).await.unwrap().is_none(), "it is sealed");
    assert!(other.checkpoint().await.unwrap());
    let again = open(&store, &env, Some(NEWEST_FORMS)).await.unwrap();
    assert_eq!(again.snapshot().writer(second).unwrap().rules, RuleShards::ALL);
    assert_eq!(again.snapshot().writer(first).unwrap().rules, RuleShards::NONE);
    assert!(Catalog::open(store.clone(), env.clone(), earlier).await.is_err());
    assert!(check(&store, &env).await.unwrap().is_undamaged());
}
