//! Goal: a shard of rules has one owner, a dead one is followed, and nothing of a former owner is stored
//! under another incarnation. Method: engines over one simulated bucket, in paused time.

use sandur_model::{LogBatch, Role, Roles, RuleShards};

use super::*;
use crate::NodeOptions;

fn of_node(name: &str, roles: Roles) -> EngineOptions {
    let (id, zone) = (name.to_owned(), String::new());
    let node = NodeOptions { id, zone, roles, cache_bytes: 1 << 30, version: "test".to_owned() };
    EngineOptions { node, ..small_options() }
}

fn ruling() -> Roles {
    Roles::ALL.with(Role::RuleFiles)
}

async fn pass(env: &Env, seconds: u64) {
    env.sleep(Duration::from_secs(seconds)).await;
}

fn line(at: i64, text: &str) -> LogBatch {
    BatchBuilder::new().stream("a").row(at, text).build()
}

#[tokio::test(start_paused = true)]
async fn shards_are_divided_and_given_up() {
    let env = Env::simulated(201, START_NS);
    let bucket = near_bucket(&env, 201);
    let one = open_on(&bucket, &env, "one", of_node("one", ruling())).await;
    let alone = one.rule_terms();
    assert!(alone.lease.is_recorded && alone.lease.is_alone && !alone.is_unknown);
    assert_eq!((alone.wanted, alone.free), (RuleShards::ALL, RuleShards::ALL));
    assert!(one.own_rules(one.incarnation(), RuleShards::ALL).await.unwrap());
    let two = open_on(&bucket, &env, "two", of_node("two", ruling())).await;
    let without = of_node("three", Roles::ALL.without(Role::Rules));
    let three = open_on(&bucket, &env, "three", without).await;
    pass(&env, 30).await;
    let (of_one, of_two) = (one.rule_terms(), two.rule_terms());
    assert_eq!(of_one.wanted.or(of_two.wanted), RuleShards::ALL);
    assert!(of_one.wanted.and(of_two.wanted).is_empty() && of_one.wanted.count() > 16);
    assert!(three.rule_terms().wanted.is_empty() && !of_one.lease.is_alone);
    assert_eq!(of_two.owners, [(RuleShards::ALL, "one".to_owned())]);
    // A live owner is not replaced.
    assert!(!two.own_rules(two.incarnation(), of_two.wanted).await.unwrap());
    assert!(one.own_rules(one.incarnation(), of_one.wanted).await.unwrap());
    assert!(two.own_rules(two.incarnation(), of_two.wanted).await.unwrap());
    assert!(two.rule_lease().age < Duration::from_secs(1));
    // A node that drains should own nothing, and the other one everything.
    one.drain(true).await.unwrap();
    pass(&env, 4).await;
    assert!(one.rule_terms().wanted.is_empty());
    assert!(one.own_rules(one.incarnation(), RuleShards::NONE).await.unwrap());
    pass(&env, 4).await;
    let of_two = two.rule_terms();
    assert_eq!((of_two.wanted, of_two.free), (RuleShards::ALL, of_one.wanted));
}

/// Rules of files are known to some processes only, stored rules to all.
#[tokio::test(start_paused = true)]
async fn rules_of_files_belong_to_processes_with_files() {
    let env = Env::simulated(207, START_NS);
    let bucket = near_bucket(&env, 207);
    let with = open_on(&bucket, &env, "with", of_node("with", ruling())).await;
    let without = open_on(&bucket, &env, "without", of_node("without", Roles::ALL)).await;
    pass(&env, 30).await;
    let of_files = RuleShards::ALL.without(RuleShards::STORED);
    let (of_with, of_without) = (with.rule_terms().wanted, without.rule_terms().wanted);
    assert_eq!(of_with.and(of_files), of_files);
    assert!(of_without.and(of_files).is_empty() && !of_without.is_empty());
    assert_eq!(of_with.or(of_without), RuleShards::ALL);
}

/// The time from the kill until another process may own the shards, and has all rows of the dead one.
#[tokio::test(start_paused = true)]
async fn a_killed_owner_is_followed() {
    for seed in 202..206 {
        let env = Env::simulated(seed, START_NS);
        let bucket = near_bucket(&env, seed);
        let one = open_on(&bucket, &env, "one", of_node("one", ruling())).await;
        let two = open_on(&bucket, &env, "two", of_node("two", ruling())).await;
        pass(&env, 30 + env.random_below(10)).await;
        let own = one.rule_terms().wanted;
        assert!(one.own_rules(one.incarnation(), own).await.unwrap());
        let dead = one.incarnation();
        one.push_under(dead, line(START_NS, "last")).await.unwrap();
        drop(one);
        let killed = env.monotonic();
        while !two.own_rules(two.incarnation(), RuleShards::ALL).await.unwrap() {
            pass(&env, 1).await;
        }
        let took = env.monotonic() - killed;
        assert!(took < Duration::from_secs(40), "seed {seed}: {took:?}");
        assert_eq!(read_all(&two).await.len(), 1);
        let terms = two.rule_terms();
        assert!(terms.lease.own == RuleShards::ALL && terms.running_since_ms <= START_NS / 1_000_000 + 1_000);
    }
}

/// A process that is fenced while it is cut off stores nothing under the incarnation that owned the shards.
#[tokio::test(start_paused = true)]
async fn a_former_owner_stores_nothing() {
    let env = Env::simulated(207, START_NS);
    let bucket = near_bucket(&env, 207);
    let client = bucket.client("one");
    let store = Store::from_object_store(Arc::new(client.clone()), env.clone(), StoreOptions::default());
    let one = Engine::open(store, env.clone(), of_node("one", ruling())).await.unwrap();
    let two = open_on(&bucket, &env, "two", of_node("two", ruling())).await;
    pass(&env, 30).await;
    let former = one.incarnation();
    assert!(one.own_rules(former, RuleShards::ALL).await.unwrap());
    client.cut(true);
    let late = {
        let one = Arc::clone(&one);
        env.spawn("late push", async move { one.push_under(former, line(START_NS + 1, "late")).await })
    };
    pass(&env, 20).await;
    assert!(one.rule_lease().age > Duration::from_secs(10), "the lease is over before the seal");
    pass(&env, 60).await;
    assert!(two.own_rules(two.incarnation(), RuleShards::ALL).await.unwrap());
    client.cut(false);
    pass(&env, 60).await;
    assert!(late.join().await.unwrap().is_err());
    assert!(one.incarnation() != former && one.rule_lease().own.is_empty());
    assert!(one.push_under(former, line(START_NS + 2, "later")).await.is_err());
    assert!(!one.own_rules(one.incarnation(), RuleShards::one(3)).await.unwrap());
    one.push(line(START_NS + 3, "of the new incarnation")).await.unwrap();
    pass(&env, 5).await;
    assert_eq!(read_all(&two).await.len(), 1);
}

/// A push whose caller has given up may wait for a frame; the next owner must see it.
#[tokio::test(start_paused = true)]
async fn a_shard_is_given_up_after_all_earlier_pushes() {
    let env = Env::simulated(209, START_NS);
    let bucket = near_bucket(&env, 209);
    let options = EngineOptions { wal_puts_in_flight: 1, ..of_node("one", ruling()) };
    let one = open_on(&bucket, &env, "one", options).await;
    pass(&env, 5).await;
    let incarnation = one.incarnation();
    assert!(one.own_rules(incarnation, RuleShards::ALL).await.unwrap());
    let slow = Fault::Slow(Duration::from_secs(3));
    (0..4).for_each(|_| bucket.fail_next(Op::Create, &format!("wal/{incarnation}"), slow));
    for n in 0..2 {
        let pushed = one.push_under(incarnation, line(START_NS + n, "x"));
        let answer = env.timeout(Duration::from_millis(100), pushed).await;
        assert!(answer.is_none(), "its caller gives up: {answer:?}");
    }
    assert!(one.own_rules(incarnation, RuleShards::NONE).await.unwrap());
    assert_eq!(read_all(&one).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_directory_records_no_owner() {
    let env = Env::simulated(208, START_NS);
    let directory = tempfile::tempdir().unwrap();
    let url = directory.path().display().to_string();
    let store = Store::open(&url, env.clone(), StoreOptions::default()).await.unwrap();
    let one = Engine::open(store, env.clone(), small_options()).await.unwrap();
    assert!(!one.rule_lease().is_recorded);
    one.shutdown().await.unwrap();
}
