//! For each rule of `packaging/alerts.yml` a state in which it fires; it must not fire in any other.

use std::collections::BTreeSet;
use std::time::Duration;

use sandur_runtime::Env;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};

use super::alerts::{Monitor, rules};
use super::alone;
use super::course::{SEED, works};
use super::node::Node;
use crate::harness::NOW;

/// A server, its store, and a monitor.
struct World {
    env: Env,
    bucket: FaultStore,
    node: Node,
    monitor: Monitor,
}

impl World {
    async fn new() -> Self {
        let env = Env::simulated(SEED, NOW * 1_000_000_000);
        let bucket = FaultStore::new(env.clone(), SEED, works());
        let node = Node::open(&env, &bucket.client("watched"), |_| {}).await;
        let monitor = Monitor::new(&env);
        Self { env, bucket, node, monitor }
    }

    /// Lets time pass: `act` is repeated, and the server is monitored.
    async fn pass(&mut self, minutes: u64, every: Duration, act: impl AsyncFn(&Node)) {
        let ends = self.env.monotonic() + Duration::from_secs(minutes * 60);
        let mut scraped_at = None;
        while self.env.monotonic() < ends {
            let next = self.env.monotonic() + every;
            act(&self.node).await;
            if scraped_at.is_none_or(|at| self.env.monotonic() >= at + SCRAPE_EVERY) {
                scraped_at = Some(self.env.monotonic());
                self.monitor.look(Some(&self.node)).await;
            }
            self.env.sleep(next.saturating_sub(self.env.monotonic())).await;
        }
    }

    /// Checks that exactly the expected alerts fire.
    fn expect(&self, state: &str, expected: &[&str], known: &mut BTreeSet<String>) {
        assert_eq!(self.monitor.fired(), expected, "{state}, seed {SEED}");
        known.extend(expected.iter().map(|name| (*name).to_owned()));
    }
}

const SECOND: Duration = Duration::from_secs(1);
const SECONDS: Duration = Duration::from_secs(5);
const HALF_MINUTE: Duration = Duration::from_secs(30);
/// As Prometheus does without a setting. An evaluation of the rules takes most of the time of the test.
const SCRAPE_EVERY: Duration = Duration::from_secs(60);

async fn push(node: &Node) {
    node.push("a line", 0).await;
}

/// A push whose client gives up after a second.
async fn push_impatiently(node: &Node) {
    let pushed = node.push("a line", 0);
    node.server.app.env.timeout(SECOND, pushed).await;
}

/// States of the store.
async fn of_the_store(known: &mut BTreeSet<String>) {
    let away = FaultPlan { refused: 1.0, ..works() };
    let states: [(&str, FaultPlan, u64, &[&str]); 6] = [
        ("healthy", works(), 15, &[]),
        ("unreachable", away, 5, &["SandurNotWritable", "SandurViewStale", "SandurPushesFail"]),
        (
            "refuses writes",
            FaultPlan { denies_writes: true, ..works() },
            5,
            &["SandurNotWritable", "SandurPushesFail"],
        ),
        ("refuses reads", FaultPlan { denies_reads: true, ..works() }, 5, &["SandurViewStale"]),
        ("throttles", FaultPlan { throttled: 0.5, ..works() }, 15, &["SandurStoreThrottles"]),
        (
            "is too slow for impatient clients",
            FaultPlan { extra: Duration::from_secs(2), ..works() },
            8,
            &["SandurPushesAbandoned"],
        ),
    ];
    for (state, plan, minutes, fires) in states {
        let mut world = World::new().await;
        world.pass(2, SECONDS, push).await;
        let is_healthy = plan == works();
        world.bucket.set_plan(plan);
        match fires {
            ["SandurPushesAbandoned"] => world.pass(minutes, SECONDS, push_impatiently).await,
            _ => world.pass(minutes, SECONDS, push).await,
        }
        world.expect(state, fires, known);
        if !is_healthy {
            // All of them stop when the store works again.
            world.bucket.set_plan(works());
            world.pass(15, HALF_MINUTE, push).await;
            let ended = |alert: &super::alerts::Alert| alert.fired.iter().all(|(_, to)| to.is_some());
            assert!(world.monitor.alerts.iter().all(ended), "{state}");
        }
    }
    let mut world = World::new().await;
    world.pass(2, SECONDS, push).await;
    world.bucket.set_plan(FaultPlan { refused: 1.0, ..works() });
    for _ in 0..5 {
        push(&world.node).await;
    }
    world.bucket.set_plan(works());
    world.pass(10, SECONDS, push).await;
    world.expect("unreachable for some seconds", &[], known);
}

/// States caused by senders.
async fn of_senders(known: &mut BTreeSet<String>) {
    let mut world = World::new().await;
    world
        .pass(35, HALF_MINUTE, async |node| {
            assert_eq!(node.push("a line of last year", 400 * 86_400).await.status, 400);
        })
        .await;
    world.expect("lines are refused", &["SandurEntriesRefused"], known);
    let mut world = World::new().await;
    world
        .pass(35, HALF_MINUTE, async |node| {
            let text = format!("{} 1\n", "a".repeat(5_000));
            assert_eq!(node.server.post("/api/v1/import/prometheus", &[], text).await.status, 400);
        })
        .await;
    world.expect("samples are refused", &["SandurEntriesRefused"], known);
    let mut world = World::new().await;
    world
        .pass(35, HALF_MINUTE, async |node| {
            assert_eq!(node.server.post("/graphite/carbon", &[], "no point\n").await.status, 400);
        })
        .await;
    world.expect("points are refused", &["SandurEntriesRefused"], known);
    let mut world = World::new().await;
    world
        .pass(15, HALF_MINUTE, async |node| {
            // As a listener does with a block that was not stored.
            node.server.app.carbon.metrics.repeats.inc();
        })
        .await;
    world.expect("points are not stored", &["SandurCarbonWaits"], known);
}

/// States of the process.
async fn of_the_process(known: &mut BTreeSet<String>) {
    let mut world = World::new().await;
    world.pass(2, SECONDS, push).await;
    for _ in 0..8 {
        world.monitor.look(None).await;
        world.env.sleep(SCRAPE_EVERY).await;
    }
    world.expect("stopped", &["SandurDown"], known);

    let mut world = World::new().await;
    world.pass(2, SECONDS, push).await;
    world.node.server.app.writes.pressure().set(true);
    world.pass(7, SECONDS, push).await;
    world.expect("short of memory", &["SandurPushesFail", "SandurMemoryShort"], known);

    let mut world = World::new().await;
    for _ in 0..500 {
        world.bucket.fail_next(Op::Put, "blocks/", Fault::Denied);
    }
    push(&world.node).await;
    world.pass(7, HALF_MINUTE, async |node| drop(node.engine.flush().await)).await;
    world.expect("blocks cannot be written", &["SandurFlushesFail"], known);

    let env = Env::simulated(SEED, NOW * 1_000_000_000);
    let bucket = FaultStore::new(env.clone(), SEED, works());
    let client = bucket.client("watched");
    let node = Node::open(&env, &client, |_| {}).await;
    let _other = Node::open(&env, &bucket.client("other"), |_| {}).await;
    let monitor = Monitor::new(&env);
    let mut world = World { env, bucket, node, monitor };
    world.pass(2, SECONDS, push).await;
    client.cut(true);
    world.pass(1, SECONDS, push).await;
    client.cut(false);
    world.pass(5, SECONDS, push).await;
    world.expect("fenced", &["SandurFenced"], known);
}

/// Hours in which the metrics do not change.
async fn of_hours(known: &mut BTreeSet<String>) {
    let mut world = World::new().await;
    world.pass(2, SECONDS, push).await;
    // The catalog sets it when a snapshot is published.
    world.node.engine.catalog().metrics().removed.set(200_000);
    let page = world.node.metrics().await;
    // Its page is repeated; hours of its own work would only take time.
    world.node.engine.shutdown().await.unwrap();
    for _ in 0..6 * 60 / 2 + 5 {
        world.monitor.scraped(Some(&page)).await;
        world.env.sleep(Duration::from_secs(120)).await;
    }
    world.expect("garbage stays", &["SandurGarbageStays"], known);
}

/// A series of a page of metrics, and its value at each look.
type Changed = (&'static str, fn(u32) -> u32);

/// Other processes and rules: their states are values of metrics.
async fn of_others_and_rules(known: &mut BTreeSet<String>) {
    let failures = "sandur_rules_evaluation_failures_total{reason=\"query\"}";
    let lost = "sandur_rules_notifications_lost_total{reason=\"queue_full\"}";
    let unknown = "sandur_scrape_discovery_failures_total{kind=\"file\"}";
    let states: [(&str, Changed); 9] = [
        ("SandurRowsOfOthersMissing", ("sandur_engine_followed_lagging", |_| 2)),
        ("SandurRoleWithoutNodes", ("sandur_engine_role_nodes{role=\"compact\"}", |_| 0)),
        ("SandurNodesHeld", ("sandur_engine_nodes_held", |_| 1)),
        ("SandurRulesBroken", ("sandur_rules_broken_files", |_| 1)),
        ("SandurRulesBroken", ("sandur_rules_stored_broken", |_| 1)),
        ("SandurRulesFail", (failures, |look| look)),
        ("SandurAlertsNotSent", ("sandur_rules_notifications_queued", |_| 7)),
        ("SandurAlertsNotSent", (lost, |look| look / 10)),
        ("SandurDiscoveryFails", (unknown, |look| look)),
    ];
    for (alert, (series, value)) in states {
        let mut world = World::new().await;
        world.pass(2, SECONDS, push).await;
        let page = world.node.metrics().await;
        world.node.engine.shutdown().await.unwrap();
        let others: Vec<&str> = page.lines().filter(|line| !line.starts_with(series)).collect();
        for look in 0..30 {
            let page = format!("{}\n{series} {}", others.join("\n"), value(look));
            world.monitor.scraped(Some(&page)).await;
            world.env.sleep(SCRAPE_EVERY).await;
        }
        world.expect(series, &[alert], known);
    }
}

#[test]
fn each_alert_fires_only_in_its_state() {
    let mut known = BTreeSet::new();
    alone(of_the_store(&mut known));
    alone(of_senders(&mut known));
    alone(of_the_process(&mut known));
    alone(of_hours(&mut known));
    alone(of_others_and_rules(&mut known));
    let all: BTreeSet<String> = rules().into_iter().map(|alert| alert.name).collect();
    assert_eq!(known, all, "there is no state in which an alert fires");
}
