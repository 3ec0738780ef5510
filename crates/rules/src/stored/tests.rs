//! Stored rules of one and of two processes, over a store in memory that is slow, fails, or has damaged
//! objects.

use bytes::Bytes;
use sandur_base::ErrorKind;
use sandur_model::Labels;
use sandur_store::fault::{Fault, FaultPlan, FaultStore, Op};
use sandur_store::{Intent, StoreOptions};

use super::document::SILENCES_MAX;
use super::*;
use crate::data::Instant;
use crate::silence::{EXPIRED_KEPT, Posted, SilenceMatcher, Steps};

const TENANT: &str = "team-a";

/// A process over a store.
struct Process {
    env: Env,
    store: Store,
    rules: StoredRules,
}

impl Process {
    fn over(store: &FaultStore, env: &Env) -> Self {
        Self::with_memory(store, env, 64 << 20)
    }

    fn with_memory(store: &FaultStore, env: &Env, memory: u64) -> Self {
        let store = Store::from_fault_store(store.clone(), env.clone(), StoreOptions::default());
        let rules = StoredRules::new(StoredParts {
            env: env.clone(),
            store: store.clone(),
            memory: MemoryBudget::root("state of rules", memory),
            metrics: RuleMetrics::default(),
            interval: Duration::from_secs(60),
        });
        Self { env: env.clone(), store, rules }
    }

    async fn set(&self, namespace: &str, text: &str) -> Result<(), StoredError> {
        self.set_within(namespace, text, &Limits::default()).await
    }

    async fn set_within(&self, namespace: &str, text: &str, limits: &Limits) -> Result<(), StoredError> {
        let tenant = tenant();
        self.rules.set_group(change(&tenant, namespace), text.to_owned(), limits).await
    }

    /// Names of namespaces with the numbers of their groups.
    async fn listed(&self) -> Result<Vec<(String, usize)>, StoredError> {
        let listed = self.rules.list(&tenant(), Language::Promql, None).await?;
        Ok(listed.namespaces.into_iter().map(|(name, groups)| (name, groups.len())).collect())
    }

    fn names(&self) -> Vec<String> {
        self.rules.specs(&tenant()).iter().map(|spec| format!("{}/{}", spec.file, spec.name)).collect()
    }

    /// The path of the object with the rules of the tenant.
    fn object(&self) -> String {
        self.rules.lock().index.tenants[TENANT].now.path.clone()
    }

    async fn replace(&self, path: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Bytes {
        let before = self.store.get(path, Intent::catalog()).await.unwrap();
        self.store.put(path, change(before.to_vec()).into(), Intent::catalog()).await.unwrap();
        before
    }
}

fn tenant() -> TenantId {
    TenantId::new(TENANT).unwrap()
}

fn change<'a>(tenant: &'a TenantId, namespace: &'a str) -> Change<'a> {
    Change { tenant, language: Language::Promql, namespace, from_previous: false }
}

fn group(name: &str) -> String {
    format!("name: {name}\ninterval: 30s\nrules:\n- {{record: r_{name}, expr: up}}\n")
}

fn world(seed: u64, plan: FaultPlan) -> (Env, FaultStore) {
    let env = Env::simulated(seed, 1_700_000_000_000_000_000);
    (env.clone(), FaultStore::new(env, seed, plan))
}

#[tokio::test(start_paused = true)]
async fn groups_are_stored_and_seen_by_another_process() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
    assert_eq!(two.listed().await.unwrap(), []);
    one.set("a/b %", &group("g")).await.unwrap();
    one.set("a/b %", &group("h")).await.unwrap();
    assert_eq!(one.names(), ["a/b %/g", "a/b %/h"]);
    assert_eq!(two.names(), [""; 0], "not read yet");
    assert_eq!(two.listed().await.unwrap(), [("a/b %".to_owned(), 2)]);
    assert_eq!(two.names(), ["a/b %/g", "a/b %/h"]);
    let text = two.rules.group(&tenant(), Language::Promql, ("a/b %", "g")).await.unwrap();
    assert_eq!(&*text, "name: \"g\"\ninterval: \"30s\"\nrules:\n    - record: \"r_g\"\n      expr: \"up\"\n");
    let other = two.rules.list(&TenantId::new("other").unwrap(), Language::Promql, None).await.unwrap();
    assert!(other.namespaces.is_empty(), "another tenant sees nothing");
    assert!(two.rules.list(&tenant(), Language::Logql, None).await.unwrap().namespaces.is_empty());

    // The same text again writes nothing.
    let reads = one.rules.0.parts.metrics.stored_changes.get();
    one.set("a/b %", &group("g")).await.unwrap();
    assert_eq!(one.rules.0.parts.metrics.stored_changes.get(), reads);

    let tenant = tenant();
    two.rules.delete_group(change(&tenant, "a/b %"), "g").await.unwrap();
    let again = two.rules.delete_group(change(&tenant, "a/b %"), "g").await.unwrap_err();
    assert_eq!((again.kind(), again.to_string().as_str()), (ErrorKind::NotFound, "group does not exist"));
    one.rules.delete_namespace(change(&tenant, "a/b %")).await.unwrap();
    let again = one.rules.delete_namespace(change(&tenant, "a/b %")).await.unwrap_err();
    assert_eq!(again.to_string(), "group namespace does not exist");
    two.rules.refresh().await.unwrap();
    assert!(two.names().is_empty() && two.rules.tenants().is_empty());
    let objects = one.store.list("rules", Intent::catalog()).await.unwrap();
    assert_eq!(objects.len(), 1, "only the index is left: {objects:?}");
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_change_rules_at_once_lose_nothing() {
    for seed in 0..10 {
        let plan = if seed % 2 == 0 { FaultPlan::latency_only() } else { FaultPlan::some_faults() };
        let (env, store) = world(seed, plan);
        let processes = [Process::over(&store, &env), Process::over(&store, &env)];
        let set = |n: usize| {
            let process = &processes[n % 2];
            async move {
                // After a failure the outcome is unknown, so clients repeat a request.
                while let Err(error) = process.set(&format!("ns{}", n % 3), &group(&format!("g{n}"))).await {
                    assert!(error.kind().is_retryable(), "seed {seed}: {error}");
                    process.env.sleep(Duration::from_secs(1)).await;
                }
            }
        };
        futures_util::future::join_all((0..24).map(set)).await;
        store.quiet(true);
        for process in &processes {
            let listed = process.listed().await.unwrap();
            assert_eq!(listed.iter().map(|(_, groups)| groups).sum::<usize>(), 24, "seed {seed}: {listed:?}");
        }
        // A new process reads the same.
        let fresh = Process::over(&store, &env);
        fresh.rules.refresh().await.unwrap();
        assert_eq!(fresh.names(), processes[0].names(), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_group_changes_nothing_and_the_error_names_the_limit() {
    let (env, store) = world(1, FaultPlan::none());
    let process = Process::over(&store, &env);
    process.set("n", &group("g")).await.unwrap();
    let limits = Limits {
        ruler_max_namespaces_per_tenant: 1,
        ruler_max_rule_groups_per_tenant: 2,
        ruler_max_rules_per_tenant: 3,
        ruler_max_rules_per_rule_group: 2,
        ruler_max_rule_group_size: 400,
        ..Limits::default()
    };
    process.set_within("n", &group("h"), &limits).await.unwrap();
    let two = "name: g\nrules:\n- {record: a, expr: up}\n- {record: b, expr: up}\n";
    process.set_within("n", two, &limits).await.unwrap();
    let before = process.names();
    let large = format!("name: g\nrules:\n- {{record: a, expr: up, labels: {{l: '{}'}}}}\n", "x".repeat(400));
    let wide = format!("{two}- {{record: c, expr: up}}\n");
    for (namespace, text, expected) in [
        ("m", group("x"), "2 namespaces, and the limit is 1 (ruler_max_namespaces_per_tenant)"),
        ("n", group("x"), "3 groups, and the limit is 2 (ruler_max_rule_groups_per_tenant)"),
        ("n", two.replace(": g", ": h"), "4 rules, and the limit is 3 (ruler_max_rules_per_tenant)"),
        ("n", wide, "3 rules in a group, and the limit is 2 (ruler_max_rules_per_rule_group)"),
        ("n", large, "bytes, and the limit is 400 (ruler_max_rule_group_size)"),
        ("n", "name: g\nrules: []".to_owned(), "rules: a group needs at least one rule"),
        ("n", group("g").replace("30s", "10ms"), "interval: 10ms, and a stored group has at least 1s"),
        (
            "n",
            "name: g\nrules:\n- {record: a, expr: 'sum('}".to_owned(),
            "line 3: could not parse expression",
        ),
        ("n", "- a".to_owned(), "line 1: expected keys with values"),
        ("n", "x: *y".to_owned(), "line 1: "),
        ("n", "name: g\nsource_tenants: [b]\nrules: []".to_owned(), "unknown key 'source_tenants'"),
    ] {
        let error = process.set_within(namespace, &text, &limits).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}\n{expected}");
        assert!(matches!(error.kind(), ErrorKind::Limit | ErrorKind::Invalid), "{error}");
    }
    process.rules.refresh().await.unwrap();
    assert_eq!(process.names(), before);
    let logql = Change { language: Language::Logql, ..change(&tenant(), "n") }.tenant.clone();
    let change = Change { tenant: &logql, language: Language::Logql, namespace: "n", from_previous: false };
    let text = "name: g\nrules:\n- {record: a, expr: 'sum(rate({a=\"b\"}[5m]))'}\n".to_owned();
    let error = process.rules.set_group(change, text, &Limits::default()).await.unwrap_err();
    assert!(error.to_string().contains("has rules of the other language"), "{error}");
}

/// Aliases that repeat values would make a small body large.
#[tokio::test(start_paused = true)]
async fn hostile_groups_are_refused_in_bounded_memory() {
    let (env, store) = world(1, FaultPlan::none());
    let process = Process::with_memory(&store, &env, 8 << 20);
    let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for n in 1..20 {
        laughs += &format!("a{n}: &a{n} [{}]\n", [format!("*a{}", n - 1).as_str(); 9].join(","));
    }
    let repeated = format!("name: &x {}\nb: [{}]\n", "y".repeat(50_000), ["*x"; 1_000].join(","));
    for text in [laughs, repeated, "[".repeat(20_000), "{a: ".repeat(5_000), "\u{0}".repeat(100)] {
        let error = process.set("n", &text).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let error = process.set("n", &format!("name: {}", "x".repeat(1 << 20))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "it does not fit into the memory: {error}");
    assert!(process.rules.tenants().is_empty() && process.rules.memory().used() == 0);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_keeps_what_held_before() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
    one.set("n", &group("g")).await.unwrap();
    two.rules.refresh().await.unwrap();
    one.set("n", &group("h")).await.unwrap();
    let path = one.object();
    let whole = one.replace(&path, |bytes| bytes[..bytes.len() - 1].to_vec()).await;

    two.rules.refresh().await.unwrap();
    assert_eq!(two.names(), ["n/g"], "what held before");
    let shown = two.rules.shown(&tenant());
    assert!(
        shown[0].path == path && shown[0].error.as_ref().unwrap().contains("bytes instead of"),
        "{shown:?}"
    );
    assert_eq!(two.rules.0.parts.metrics.stored_broken.get(), 1);
    for error in [two.listed().await.map(|_| ()).unwrap_err(), two.set("n", &group("i")).await.unwrap_err()] {
        assert!(
            error.kind() == ErrorKind::Corrupt && error.to_string().contains("?base=previous"),
            "{error}"
        );
    }
    // A process that starts now goes on from the rules before the last change.
    let fresh = Process::over(&store, &env);
    fresh.rules.refresh().await.unwrap();
    assert_eq!((fresh.names(), fresh.rules.shown(&tenant()).len()), (vec!["n/g".to_owned()], 1));

    // The object of another tenant in its place is noticed as well.
    let other = TenantId::new("other").unwrap();
    one.rules.set_group(change(&other, "n"), group("x"), &Limits::default()).await.unwrap();
    let of_other = one.rules.lock().index.tenants["other"].now.path.clone();
    let swapped = one.store.get(&of_other, Intent::catalog()).await.unwrap();
    one.replace(&path, |_| swapped.to_vec()).await;
    two.rules.refresh().await.unwrap();
    assert_eq!(two.names(), ["n/g"]);

    // It heals when the object is restored.
    one.replace(&path, |_| whole.to_vec()).await;
    two.rules.refresh().await.unwrap();
    assert_eq!((two.names(), two.rules.shown(&tenant())), (vec!["n/g".to_owned(), "n/h".to_owned()], vec![]));
    assert_eq!(two.rules.0.parts.metrics.stored_broken.get(), 0);

    // Or a client goes on from the rules before the last change.
    one.replace(&path, |_| b"x".to_vec()).await;
    let (tenant, limits) = (tenant(), Limits::default());
    let fresh = Process::over(&store, &env);
    let previous = Change { from_previous: true, ..change(&tenant, "n") };
    fresh.rules.set_group(previous, group("i"), &limits).await.unwrap();
    two.rules.refresh().await.unwrap();
    assert_eq!((fresh.names(), two.names()), (vec!["n/g".to_owned(), "n/i".to_owned()], fresh.names()));
}

/// It counted as damage, and the error advised to give up a change that was stored.
#[tokio::test(start_paused = true)]
async fn rules_for_which_there_is_no_memory_are_not_damaged_and_concern_their_tenant_only() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, own, other) = (Process::over(&store, &env), tenant(), TenantId::new("other").unwrap());
    one.rules.set_group(change(&other, "n"), group("x"), &Limits::default()).await.unwrap();
    one.set("n", &group("g")).await.unwrap();
    let long =
        format!("name: h\nrules:\n- {{record: r, expr: up, labels: {{l: '{}'}}}}\n", "x".repeat(100_000));
    one.set("n", &long).await.unwrap();

    let two = Process::with_memory(&store, &env, 512 << 10);
    let error = two.rules.refresh().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert_eq!((two.names().len(), two.rules.shown(&tenant()).len()), (0, 0), "not those of before");
    assert_eq!((two.rules.specs(&other).len(), two.rules.is_complete()), (1, false));
    let previous = Change { from_previous: true, ..change(&own, "n") };
    for error in [
        two.listed().await.map(|_| ()).unwrap_err(),
        two.set("n", &group("i")).await.unwrap_err(),
        two.rules.set_group(previous, group("i"), &Limits::default()).await.unwrap_err(),
    ] {
        assert!(error.kind() == ErrorKind::Busy && !error.to_string().contains("previous"), "{error}");
    }
    assert_eq!(two.rules.list(&other, Language::Promql, None).await.unwrap().namespaces.len(), 1);
    two.rules.set_group(change(&other, "n"), group("y"), &Limits::default()).await.unwrap();

    one.rules.delete_group(change(&tenant(), "n"), "h").await.unwrap();
    two.rules.refresh().await.unwrap();
    assert_eq!((two.names(), two.rules.is_complete()), (vec!["n/g".to_owned()], true));
    assert_eq!(two.rules.specs(&other).len(), 2);
}

/// The change went on from no rules.
#[tokio::test(start_paused = true)]
async fn a_change_does_not_go_on_from_previous_rules_that_are_damaged_as_well() {
    let (env, store) = world(1, FaultPlan::none());
    let one = Process::over(&store, &env);
    one.set("n", &group("g")).await.unwrap();
    let before = one.object();
    one.set("n", &group("h")).await.unwrap();
    one.replace(&one.object(), |_| b"x".to_vec()).await;
    let whole = one.replace(&before, |_| b"x".to_vec()).await;
    let (fresh, tenant, limits) = (Process::over(&store, &env), tenant(), Limits::default());
    let previous = Change { from_previous: true, ..change(&tenant, "n") };
    let error = fresh.rules.set_group(previous, group("i"), &limits).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.to_string().contains(&before), "{error}");
    one.replace(&before, |_| whole.to_vec()).await;
    fresh.rules.set_group(previous, group("i"), &limits).await.unwrap();
    assert_eq!(fresh.names(), ["n/g", "n/i"]);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_old_or_lost_index_keeps_what_held_before() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
    one.set("n", &group("g")).await.unwrap();
    let old = one.store.get(index::INDEX, Intent::catalog()).await.unwrap();
    one.set("n", &group("h")).await.unwrap();
    let both = ["n/g".to_owned(), "n/h".to_owned()];
    two.rules.refresh().await.unwrap();
    let new = one.replace(index::INDEX, |bytes| bytes[..40].to_vec()).await;
    let broken = async |expected: &str| {
        two.rules.refresh().await.unwrap();
        assert_eq!(two.names(), both, "{expected}");
        let error = two.rules.shown(&tenant())[0].error.clone().unwrap();
        assert!(error.contains(expected), "{error}");
        let refused = two.set("n", &group("i")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    };
    broken("the checksum is wrong").await;
    one.replace(index::INDEX, |_| old.to_vec()).await;
    broken("an older version was put in its place").await;
    one.store.delete(index::INDEX, Intent::gc()).await.unwrap();
    broken("does not exist any more").await;
    let fresh = Process::over(&store, &env);
    let error = fresh.listed().await.unwrap_err();
    assert!(error.to_string().contains("objects with rules of tenants do"), "{error}");
    one.store.put(index::INDEX, new, Intent::catalog()).await.unwrap();
    two.rules.refresh().await.unwrap();
    assert_eq!((two.names(), two.rules.shown(&tenant())), (both.to_vec(), vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_outage_changes_nothing() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, client) = (Process::over(&store, &env), store.client("two"));
    let two = Process::over(&client, &env);
    one.set("n", &group("g")).await.unwrap();
    two.rules.refresh().await.unwrap();
    client.cut(true);
    let errors = [two.set("n", &group("h")).await.unwrap_err(), two.rules.refresh().await.unwrap_err()];
    assert!(errors.iter().all(|error| error.kind().is_retryable()), "{errors:?}");
    assert_eq!((two.names(), two.rules.shown(&tenant())), (vec!["n/g".to_owned()], vec![]));
    client.cut(false);
    // A process that is killed after the first of the two writes leaves an object that nobody reads.
    store.fail_next(Op::Update, index::INDEX, Fault::Denied);
    let error = two.set("n", &group("h")).await.unwrap_err();
    assert!(error.may_be_done(), "{error}");
    assert_eq!(one.listed().await.unwrap(), [("n".to_owned(), 1)]);
    two.set("n", &group("h")).await.unwrap();
    assert_eq!(one.listed().await.unwrap(), [("n".to_owned(), 2)]);
}

/// The change ended between its two writes and left an object that nobody reads.
#[tokio::test(start_paused = true)]
async fn a_change_whose_client_is_gone_is_made_completely_or_not_at_all() {
    let mut made = 0;
    for given_up_after_ms in (0..400).step_by(10) {
        let (env, store) = world(given_up_after_ms, FaultPlan::latency_only());
        let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
        let text = group("g");
        let _ = env.timeout(Duration::from_millis(given_up_after_ms), one.set("n", &text)).await;
        env.sleep(Duration::from_secs(60)).await;
        let groups = two.listed().await.unwrap().len();
        let objects = two.store.list("rules", Intent::catalog()).await.unwrap();
        let of_tenants = objects.iter().filter(|object| object.path != index::INDEX).count();
        assert_eq!((of_tenants, one.names().len()), (groups, groups), "{given_up_after_ms} ms: {objects:?}");
        made += groups;
    }
    assert!(made > 20, "{made}");
}

/// The answer of the store was lost, and another process changed rules before the outcome was read.
#[tokio::test(start_paused = true)]
async fn a_delete_that_was_stored_is_done_although_the_index_has_changed_again() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
    for name in ["g", "h"] {
        one.set("n", &group(name)).await.unwrap();
    }
    store.fail_next(Op::Update, index::INDEX, Fault::LostAck);
    for slow in [0, 20] {
        store.fail_next(Op::Get, index::INDEX, Fault::Slow(Duration::from_secs(slow)));
    }
    let other = async {
        env.sleep(Duration::from_secs(2)).await;
        assert_eq!(two.listed().await.unwrap(), [("n".to_owned(), 1)]);
        two.set("n", &group("i")).await.unwrap();
    };
    let own = tenant();
    let (deleted, ()) = tokio::join!(one.rules.delete_group(change(&own, "n"), "g"), other);
    deleted.unwrap();
    assert_eq!(one.names(), ["n/h", "n/i"]);
    let missing = one.rules.delete_group(change(&own, "n"), "g").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn of_ten_thousand_groups_those_beyond_the_limit_are_not_stored() {
    let mut document = Document::empty(&tenant());
    let limits = Limits { ruler_max_rule_groups_per_tenant: 1_500, ..Limits::default() };
    let mut refused = 0;
    for n in 0..10_000 {
        let namespace = format!("ns{}", n % 7);
        let group =
            CheckedGroup::read(&group(&format!("g{n}")), (Language::Promql, &namespace), &limits).unwrap();
        refused += usize::from(document.set(&namespace, group, &limits).is_err());
    }
    let bytes = document.encode().unwrap();
    assert_eq!((refused, bytes.len() < 1 << 20), (8_500, true), "{} bytes", bytes.len());
    assert_eq!(Document::decode(&bytes, &tenant()).unwrap().specs(Duration::ZERO).unwrap().len(), 1_500);

    let (env, store) = world(1, FaultPlan::none());
    let process = Process::over(&store, &env);
    let limits = Limits { ruler_max_rule_groups_per_tenant: 20, ..Limits::default() };
    for n in 0..100 {
        let stored = process.set_within("n", &group(&format!("g{n}")), &limits).await;
        assert_eq!(stored.is_ok(), n < 20, "{stored:?}");
    }
    assert_eq!(process.names().len(), 20);
    assert_eq!(process.store.list("rules", Intent::catalog()).await.unwrap().len(), 3, "two versions");
}

#[tokio::test(start_paused = true)]
async fn following_sees_changes_within_the_interval_and_costs_one_request_each() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
    let stop = sandur_runtime::Shutdown::default();
    let interval = Duration::from_secs(30);
    let _task = env.spawn("follow", two.rules.clone().follow(interval, stop.signal()));
    env.sleep(Duration::from_secs(1)).await;
    one.set("n", &group("g")).await.unwrap();
    env.sleep(Duration::from_secs(34)).await;
    assert_eq!(two.names(), ["n/g"]);
    let before = store.trace().len();
    env.sleep(Duration::from_secs(3_600)).await;
    let requests = store.trace().len() - before;
    assert!((105..=135).contains(&requests), "an idle hour costs {requests} requests");
}

/// Bug: an interval of zero asked the store without a pause.
#[tokio::test(start_paused = true)]
async fn the_least_interval_of_reads_is_a_second() {
    let (env, store) = world(1, FaultPlan::none());
    let process = Process::over(&store, &env);
    let stop = sandur_runtime::Shutdown::default();
    let _task = env.spawn("follow", process.rules.clone().follow(Duration::ZERO, stop.signal()));
    env.sleep(Duration::from_secs(100)).await;
    let requests = store.trace().len();
    assert!((80..=112).contains(&requests), "100 s cost {requests} requests");
}

fn fixture(text: &str) -> Vec<u8> {
    let text = text.trim();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Later versions must read what this one writes.
#[test]
fn fixtures_are_read_and_written_again() {
    let bytes = fixture(include_str!("../../fixtures/index-1.hex"));
    let index = index::Index::decode(&bytes).unwrap();
    assert_eq!((index.generation, index.encode().unwrap()), (3, bytes));
    let bytes = fixture(include_str!("../../fixtures/rules-1.hex"));
    let entry = &index.tenants[TENANT];
    assert_eq!((entry.now.check(&bytes), &entry.before), (Ok(()), &None));
    let document = Document::decode(&bytes, &tenant()).unwrap();
    let specs = document.specs(Duration::from_secs(60)).unwrap();
    let names: Vec<_> = specs.iter().map(|spec| (&*spec.file, &*spec.name, spec.rules[0].language)).collect();
    assert_eq!(names, [("logs", "l", Language::Logql), ("n/1", "g", Language::Promql)]);
    assert_eq!(document.encode().unwrap(), bytes);
    assert!(Document::decode(&bytes, &TenantId::new("other").unwrap()).is_err());
}

/// A tenant with silences. Documents without any have no member for them.
#[test]
fn the_fixture_with_silences_is_read_and_written_again() {
    let silence = |matcher: &str, id: &str, (from, to)| {
        let created = Instant::of_seconds(1_700_000_000);
        let posted = Posted { comment: "it \"burns\"".to_owned(), ..posted(matcher, (from, to)) };
        posted.silence(id.to_owned(), created)
    };
    let mut expected = Document::empty(&tenant());
    let now = Instant::of_seconds(1_700_000_000);
    expected.set_silence(silence("a=~b|c", "one", (0, 600)), None, now).unwrap();
    expected.set_silence(silence("a!=b", "two", (60, 120)), None, now).unwrap();
    let bytes = fixture(include_str!("../../fixtures/silences-1.hex"));
    let document = Document::decode(&bytes, &tenant()).unwrap();
    assert_eq!((&document, document.encode().unwrap()), (&expected, bytes));
}

fn posted(matcher: &str, (from, to): (i64, i64)) -> Posted {
    let at = |second: i64| Instant::of_seconds(1_700_000_000 + second);
    Posted {
        id: None,
        matchers: vec![SilenceMatcher::parse(matcher).unwrap()],
        starts_at: at(from),
        ends_at: at(to),
        created_by: "me".to_owned(),
        comment: "because".to_owned(),
    }
}

impl Process {
    async fn silence(&self, posted: Posted) -> Result<String, StoredError> {
        self.rules.set_silence(&tenant(), posted, false).await
    }

    /// States of silences with their matchers, in the order of their starts.
    async fn silences(&self) -> Vec<String> {
        let now = Instant::of_ns(self.env.now_ns());
        let (mut all, _memory) = self.rules.list_silences(&tenant()).await.unwrap();
        all.sort_by_key(|silence| (silence.starts_at, silence.ends_at));
        all.iter().map(|silence| format!("{} {}", silence.state(now).name(), silence.matchers[0])).collect()
    }

    fn is_silenced(&self, instance: &str) -> bool {
        let labels = Labels::from_pairs([("instance", instance)]);
        let now = Instant::of_ns(self.env.now_ns());
        self.rules.silences(&tenant()).is_silenced(&labels, now, &mut Steps::default())
    }
}

#[tokio::test(start_paused = true)]
async fn silences_are_stored_beside_rules_changed_and_seen_by_another_process() {
    let (env, store) = world(1, FaultPlan::none());
    let (one, two) = (Process::over(&store, &env), Process::over(&store, &env));
    let id = one.silence(posted("instance=a", (0, 600))).await.unwrap();
    assert!(id.len() == 36 && id.split('-').count() == 5, "{id}");
    assert!(one.is_silenced("a") && !one.is_silenced("b") && !two.is_silenced("a"));
    two.set("n", &group("g")).await.unwrap();
    assert!(two.is_silenced("a"), "a change reads what others stored");
    assert_eq!(two.names(), ["n/g"]);
    let other = two.rules.list_silences(&TenantId::new("other").unwrap()).await.unwrap().0;
    assert!(other.is_empty(), "another tenant sees nothing");

    // A longer end changes the silence, other matchers replace it.
    let longer = Posted { id: Some(id.clone()), ..posted("instance=a", (0, 900)) };
    assert_eq!(two.silence(longer).await.unwrap(), id);
    let wider = Posted { id: Some(id.clone()), ..posted("instance=~a|b", (0, 900)) };
    let wide = two.silence(wider).await.unwrap();
    assert_ne!(wide, id);
    assert_eq!(one.silences().await, ["expired instance=\"a\"", "active instance=~\"a|b\""]);
    assert!(one.is_silenced("b"));
    let again = Posted { id: Some("none".to_owned()), ..posted("instance=a", (0, 900)) };
    assert_eq!(one.silence(again).await.unwrap_err().kind(), ErrorKind::NotFound);

    one.rules.expire_silence(&tenant(), &wide, false).await.unwrap();
    one.rules.expire_silence(&tenant(), &wide, false).await.unwrap();
    let missing = one.rules.expire_silence(&tenant(), "none", false).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    two.rules.refresh().await.unwrap();
    assert!(!two.is_silenced("b"));
    // Silences that are over are kept for some days. Without rules and silences the tenant is gone.
    two.rules.delete_namespace(change(&tenant(), "n")).await.unwrap();
    assert_eq!(two.silences().await.len(), 2);
    env.sleep(EXPIRED_KEPT).await;
    let later = 432_000;
    let last = two.silence(posted("instance=c", (later, later + 100))).await.unwrap();
    assert_eq!(two.silences().await, ["active instance=\"c\""]);
    env.sleep(EXPIRED_KEPT * 2).await;
    two.rules.expire_silence(&tenant(), &last, false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_add_silences_at_once_lose_nothing() {
    for seed in 0..10 {
        let plan = if seed % 2 == 0 { FaultPlan::latency_only() } else { FaultPlan::some_faults() };
        let (env, store) = world(seed, plan);
        let processes = [Process::over(&store, &env), Process::over(&store, &env)];
        let set = |n: usize| {
            let process = &processes[n % 2];
            async move {
                while let Err(error) = process.silence(posted(&format!("instance=i{n}"), (0, 100_000))).await
                {
                    assert!(error.kind().is_retryable(), "seed {seed}: {error}");
                    process.env.sleep(Duration::from_secs(1)).await;
                }
            }
        };
        futures_util::future::join_all((0..24).map(set)).await;
        store.quiet(true);
        let fresh = Process::over(&store, &env);
        fresh.rules.refresh().await.unwrap();
        assert!((0..24).all(|n| fresh.is_silenced(&format!("i{n}"))), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn silences_are_bounded_in_number_and_size() {
    let (env, store) = world(1, FaultPlan::none());
    let process = Process::over(&store, &env);
    let mut document = Document::empty(&tenant());
    let now = Instant::of_ns(env.now_ns());
    for n in 0..SILENCES_MAX as i64 {
        let silence = posted("instance=a", (0, 1_000 + n)).silence(format!("{n}"), now);
        document.set_silence(silence, None, now).unwrap();
    }
    let one_more = || posted("instance=a", (0, 5_000)).silence("more".to_owned(), now);
    let error = document.set_silence(one_more(), None, now).unwrap_err();
    assert_eq!(error.to_string(), "1001 silences, and the limit is 1000 (of a tenant)");
    // The oldest of those that are over makes room.
    let later = now.plus(Duration::from_secs(1_001));
    document.set_silence(one_more(), None, later).unwrap();
    assert!(!document.silences().contains_key("0") && document.silences().contains_key("1"));

    let large = Posted { comment: "x".repeat(20_000), ..posted("instance=a", (0, 600)) };
    let error = process.silence(large).await.unwrap_err();
    assert!(error.to_string().contains("bytes, at most 16384"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    // Each is within its bound, all together are not.
    let letters = (1..).map(|n| format!("instance=~\\pL{{{n}}}x"));
    let is_small = |text: &String| posted(text, (0, 600)).silence(String::new(), now).check(now).is_ok();
    let largest = letters.take_while(is_small).last().unwrap();
    let mut added = 0;
    let error = loop {
        match process.silence(posted(&largest, (0, 600))).await {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("of silences, and the limit is 16777216"), "{error}");
    assert!((16..40).contains(&added), "{added}");
}

#[tokio::test(start_paused = true)]
async fn damaged_silences_keep_what_held_before_and_are_reported() {
    let (env, store) = world(1, FaultPlan::none());
    let process = Process::over(&store, &env);
    process.silence(posted("instance=a", (0, 6_000))).await.unwrap();
    process.silence(posted("instance=b", (0, 6_000))).await.unwrap();
    let object = process.object();
    process.replace(&object, |bytes| bytes[..bytes.len() - 9].to_vec()).await;
    // The process that stored them goes on, a new one uses those before the last change.
    process.rules.refresh().await.unwrap();
    let fresh = Process::over(&store, &env);
    fresh.rules.refresh().await.unwrap();
    assert!(process.is_silenced("b") && fresh.is_silenced("a") && !fresh.is_silenced("b"));
    assert!(fresh.rules.shown(&tenant())[0].error.as_ref().unwrap().contains("bytes instead of"));
    let error = fresh.silence(posted("instance=c", (0, 600))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    fresh.rules.set_silence(&tenant(), posted("instance=c", (0, 600)), true).await.unwrap();
    assert!(fresh.is_silenced("a") && fresh.is_silenced("c") && !fresh.is_silenced("b"));
}
