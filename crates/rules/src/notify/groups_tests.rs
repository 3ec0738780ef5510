//! Groups of alerts and what a receiver is told, with receivers that answer, refuse, fail and hang.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_model::Labels;
use serde_json::{Value, json};

use super::groups::{ALERT_BYTES_MAX, ALERTS_MAX};
use super::*;
use crate::alert::State;
use crate::silence::{Silence, SilenceMatcher, Silences};

/// What a receiver does with its next requests.
#[derive(Clone, Copy)]
enum Answer {
    Status(u16),
    /// It takes the request and never answers.
    Hangs,
}

/// What a receiver got.
#[derive(Clone, Debug)]
struct Got {
    second: u64,
    tenant: String,
    key: String,
    body: Value,
}

struct Hook {
    env: Env,
    answers: Mutex<VecDeque<Answer>>,
    otherwise: Mutex<Answer>,
    got: Mutex<Vec<Got>>,
    attempts: AtomicUsize,
}

impl Hook {
    fn new(env: &Env) -> Arc<Self> {
        Arc::new(Self {
            env: env.clone(),
            answers: Mutex::default(),
            otherwise: Mutex::new(Answer::Status(200)),
            got: Mutex::default(),
            attempts: AtomicUsize::new(0),
        })
    }

    /// What it got since the last call: `SECOND STATUS name*` for alerts that fire, `name.` for others.
    fn told(&self) -> Vec<String> {
        let got = std::mem::take(&mut *lock(&self.got));
        got.iter().map(|got| format!("{} {}", got.second, names(&got.body))).collect()
    }

    fn keys(&self) -> Vec<String> {
        lock(&self.got).iter().map(|got| got.key.clone()).collect()
    }
}

fn promql(text: &str) -> Expression<'_> {
    Expression::new(crate::Language::Promql, text)
}

fn names(body: &Value) -> String {
    let name = |alert: &Value| {
        let name = alert["labels"]["instance"].as_str().unwrap().to_owned();
        name + if alert["status"] == "firing" { "*" } else { "." }
    };
    let alerts: Vec<String> = body["alerts"].as_array().unwrap().iter().map(name).collect();
    format!("{} {}", body["status"].as_str().unwrap(), alerts.join(" "))
}

impl Post for Hook {
    fn post<'a>(&'a self, message: Message<'a>, tenant: &'a TenantId, _: Duration) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let Message::Webhook { body, key, .. } = &message else { panic!("{message:?}") };
            self.attempts.fetch_add(1, Ordering::Relaxed);
            let answer = lock(&self.answers).pop_front().unwrap_or(*lock(&self.otherwise));
            let got = Got {
                second: self.env.monotonic().as_secs(),
                tenant: tenant.to_string(),
                key: (*key).to_owned(),
                body: serde_json::from_slice(body).unwrap(),
            };
            let outcome = match answer {
                Answer::Status(status) => message.outcome(status),
                Answer::Hangs => {
                    lock(&self.got).push(got);
                    return std::future::pending().await;
                }
            };
            if outcome.is_ok() {
                lock(&self.got).push(got);
            }
            outcome
        })
    }
}

/// A process with a receiver.
struct Bench {
    env: Env,
    hook: Arc<Hook>,
    notifier: Notifier,
    metrics: RuleMetrics,
    muted: Arc<Muted>,
}

/// Silences of all tenants.
#[derive(Default)]
struct Muted(Mutex<Arc<Silences>>);

impl Mute for Muted {
    fn silences(&self, _: &TenantId) -> Arc<Silences> {
        Arc::clone(&lock(&self.0))
    }
}

const START: i64 = 1_700_000_000;

impl Bench {
    fn new() -> Self {
        Self::with(Grouping::default())
    }

    fn with(grouping: Grouping) -> Self {
        let env = Env::simulated(1, START * 1_000_000_000);
        let hook = Hook::new(&env);
        Self::over(&env, &hook, grouping)
    }

    /// A process that begins now.
    fn over(env: &Env, hook: &Arc<Hook>, grouping: Grouping) -> Self {
        let labels = vec![("zone".to_owned(), "z".to_owned())];
        let (metrics, muted) = (RuleMetrics::default(), Arc::<Muted>::default());
        let notifier = Notifier::new(NotifierParts {
            env: env.clone(),
            alertmanagers: Vec::new(),
            receivers: vec![Address::Webhook("http://hook/secret".to_owned())],
            grouping,
            external: Arc::new(External { labels, url: "http://s:3100".to_owned() }),
            silences: Some(Arc::<Muted>::clone(&muted)),
            post: Arc::<Hook>::clone(hook),
            metrics: metrics.clone(),
        });
        Self { env: env.clone(), hook: Arc::clone(hook), notifier, metrics, muted }
    }

    /// An alert that fired at this second of the test, and ended at another.
    fn alert(name: &str, instance: &str, fired: i64, ended: Option<i64>) -> Alert {
        let at = |second: i64| Instant::of_seconds(START + second);
        Alert {
            labels: Arc::new(Labels::from_pairs([("alertname", name), ("instance", instance)])),
            annotations: Arc::new(vec![("summary".to_owned(), format!("{instance} \"burns\""))]),
            value: 1.0,
            state: if ended.is_some() { State::Inactive } else { State::Firing },
            active_at: at(fired),
            fired_at: Some(at(fired)),
            resolved_at: ended.map(at),
            keep_firing_since: None,
            last_sent_at: Some(at(fired)),
            valid_until: None,
        }
    }

    fn send(&self, alerts: impl IntoIterator<Item = Alert>) {
        self.send_as(TenantId::default_tenant().as_str(), alerts);
    }

    fn send_as(&self, tenant: &str, alerts: impl IntoIterator<Item = Alert>) {
        let tenant = TenantId::new(tenant).unwrap();
        let origin = Origin { tenant: &tenant, are_stored: false, file: "f.yml", group: "g", shard: Some(1) };
        self.notifier.send(origin, promql("up == 0"), alerts.into_iter().collect());
    }

    fn fires(&self, instance: &str, fired: i64) {
        self.send([Self::alert("Down", instance, fired, None)]);
    }

    fn ends(&self, instance: &str, fired: i64, ended: i64) {
        self.send([Self::alert("Down", instance, fired, Some(ended))]);
    }

    /// Silences alerts with this matcher from one second of the test to another.
    fn silence(&self, matcher: &str, (from, to): (i64, i64)) {
        let at = |second: i64| Instant::of_seconds(START + second);
        let silence = Silence {
            id: "s".to_owned(),
            matchers: vec![SilenceMatcher::parse(matcher).unwrap()],
            starts_at: at(from),
            ends_at: at(to),
            updated_at: at(from),
            created_by: String::new(),
            comment: String::new(),
        };
        *lock(&self.muted.0) = Arc::new(Silences::of([silence].iter(), at(0)).unwrap());
    }

    async fn told_until(&self, second: u64) -> Vec<String> {
        let rest = Duration::from_secs(second).saturating_sub(self.env.monotonic());
        self.env.sleep(rest + Duration::from_millis(1)).await;
        self.hook.told()
    }
}

#[tokio::test(start_paused = true)]
async fn a_notification_has_the_form_of_alertmanagers_webhook() {
    let bench = Bench::new();
    bench.send([Bench::alert("Down", "a", 0, None), Bench::alert("Down", "b", -60, None)]);
    bench.env.sleep(Duration::from_secs(31)).await;
    let got = lock(&bench.hook.got)[0].clone();
    let alert = |instance: &str, starts_at: &str, fingerprint: &str| {
        json!({
            "status": "firing",
            "labels": {"alertname": "Down", "instance": instance, "zone": "z"},
            "annotations": {"summary": format!("{instance} \"burns\"")},
            "startsAt": starts_at,
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://s:3100/graph?g0.expr=up+%3D%3D+0&g0.tab=1",
            "fingerprint": fingerprint,
        })
    };
    let of = |n: usize| got.body["alerts"][n]["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(
        got.body,
        json!({
            "version": "4",
            "receiver": "webhook",
            "status": "firing",
            "groupKey": "{}/{file=\"f.yml\", group=\"g\"}:{alertname=\"Down\"}",
            "groupLabels": {"alertname": "Down"},
            "commonLabels": {"alertname": "Down", "zone": "z"},
            "commonAnnotations": {},
            "externalURL": "http://s:3100",
            "truncatedAlerts": 0,
            "alerts": [
                alert("a", "2023-11-14T22:13:20Z", &of(0)),
                alert("b", "2023-11-14T22:12:20Z", &of(1)),
            ],
        })
    );
    assert!(of(0).len() == 16 && of(0) != of(1));
    assert_eq!((got.tenant, bench.metrics.notified.get()), (TenantId::default_tenant().to_string(), 2));
    let shown = &bench.notifier.receivers()[0];
    assert_eq!((shown.name.as_str(), shown.alerts), ("http://hook", 2), "without the path");
}

#[tokio::test(start_paused = true)]
async fn groups_wait_then_change_each_interval_and_repeat() {
    let bench = Bench::new();
    bench.fires("a", 0);
    assert_eq!(bench.told_until(29).await, [""; 0]);
    bench.fires("b", 20);
    assert_eq!(bench.told_until(31).await, ["30 firing a* b*"]);
    // The evaluation sends them again and again.
    bench.fires("a", 0);
    bench.fires("c", 40);
    assert_eq!(bench.told_until(329).await, [""; 0], "not before the interval");
    assert_eq!(bench.told_until(331).await, ["330 firing a* b* c*"]);
    bench.ends("a", 0, 400);
    assert_eq!(bench.told_until(640).await, ["630 firing b* c* a."]);
    // The end is sent for a while, and told once.
    bench.ends("a", 0, 400);
    assert_eq!(bench.told_until(5_000).await, [""; 0]);
    // 630 + 4 h, at the next turn of the group.
    assert_eq!(bench.told_until(630 + 14_400 + 300).await, ["15030 firing b* c*"]);
    bench.ends("b", 20, 15_100);
    bench.ends("c", 40, 15_100);
    assert_eq!(bench.told_until(16_000).await, ["15630 resolved b. c."]);
    assert_eq!(bench.told_until(60_000).await, [""; 0]);
    bench.fires("a", 60_000);
    assert_eq!(bench.told_until(60_300).await, ["60030 firing a*"], "the group is still known");
}

#[tokio::test(start_paused = true)]
async fn what_ends_before_it_was_told_is_not_told() {
    let bench = Bench::new();
    bench.fires("a", 0);
    bench.fires("b", 0);
    bench.env.sleep(Duration::from_secs(10)).await;
    bench.ends("a", 0, 10);
    assert_eq!(bench.told_until(400).await, ["30 firing b*"]);
    // It flaps between two turns of the group.
    bench.ends("b", 0, 400);
    bench.fires("b", 410);
    assert_eq!(bench.told_until(2_000).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn alerts_of_rules_that_are_gone_end() {
    let bench = Bench::new();
    let tenant = TenantId::default_tenant();
    let origin = |group| Origin { tenant: &tenant, are_stored: false, file: "f.yml", group, shard: Some(1) };
    let alerts = [Bench::alert("Down", "a", 0, None), Bench::alert("Down", "b", 0, None)];
    bench.send(alerts.clone());
    bench.notifier.send(origin("g2"), promql("up"), alerts.to_vec());
    assert_eq!(bench.told_until(31).await.len(), 2);
    bench.notifier.keep(origin("g"), &HashSet::from([alerts[0].labels.stream_id()]));
    assert_eq!(bench.told_until(400).await, ["330 firing a* b."]);
    bench.notifier.keep(origin("g"), &HashSet::new());
    assert_eq!(bench.told_until(700).await, ["630 resolved a."]);
    assert_eq!(bench.notifier.receivers()[0].alerts, 2, "those of the other group of rules");
    // They are told by another process from now on.
    bench.notifier.withdraw(&tenant, RuleShards::one(1));
    assert_eq!((bench.told_until(30_000).await, bench.metrics.grouped.get()), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn the_labels_of_a_group_are_chosen() {
    for (by, expected) in [
        (Some(vec![]), vec!["30 firing a* b* c*"]),
        (Some(vec!["instance".to_owned()]), vec!["30 firing a*", "30 firing b*", "30 firing c*"]),
        (Some(vec!["alertname".to_owned(), "none".to_owned()]), vec!["30 firing a* b*", "30 firing c*"]),
        (None, vec!["30 firing a*", "30 firing b*", "30 firing c*"]),
    ] {
        let bench = Bench::with(Grouping { by: by.clone(), ..Grouping::default() });
        bench.send([Bench::alert("X", "a", 0, None), Bench::alert("X", "b", 0, None)]);
        bench.send([Bench::alert("Y", "c", 0, None)]);
        assert_eq!(bench.told_until(100).await, expected, "{by:?}");
    }
}

/// Each attempt has the key of the first one, because that one may have arrived.
#[tokio::test(start_paused = true)]
async fn a_notification_that_fails_is_repeated_with_its_key() {
    let bench = Bench::new();
    let answers = [Answer::Status(503), Answer::Hangs, Answer::Hangs, Answer::Status(429)];
    lock(&bench.hook.answers).extend(answers);
    bench.fires("a", 0);
    bench.env.sleep(Duration::from_secs(120)).await;
    let keys = bench.hook.keys();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!((bench.metrics.notification_failures.get(), bench.metrics.notified.get()), (4, 1));
    assert_eq!(bench.notifier.receivers()[0].last_error, None);
    bench.hook.told();
    // A repetition is another notification.
    bench.env.sleep(Duration::from_secs(15_000)).await;
    assert_ne!(bench.hook.keys()[0], keys[0]);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_for_an_hour_gets_what_holds_then() {
    let bench = Bench::new();
    *lock(&bench.hook.otherwise) = Answer::Status(500);
    bench.fires("a", 0);
    bench.fires("b", 0);
    bench.env.sleep(Duration::from_secs(600)).await;
    bench.ends("b", 0, 600);
    bench.fires("c", 600);
    bench.env.sleep(Duration::from_secs(3_000)).await;
    let failures = bench.metrics.notification_failures.get();
    assert!((100..400).contains(&failures), "it backs off: {failures}");
    assert_eq!(bench.notifier.receivers()[0].last_error.as_deref(), Some("HTTP status 500"));
    *lock(&bench.hook.otherwise) = Answer::Status(200);
    bench.env.sleep(Duration::from_secs(60)).await;
    let told = bench.hook.told();
    assert!(told.len() == 1 && told[0].ends_with("firing a* c*"), "{told:?}");
    assert_eq!((bench.metrics.grouped.get(), bench.metrics.lost("queue_full")), (3, 0));
}

/// A request that is refused would be refused again until the group changes.
#[tokio::test(start_paused = true)]
async fn a_refused_notification_is_tried_at_the_next_turn_of_its_group() {
    let bench = Bench::new();
    *lock(&bench.hook.otherwise) = Answer::Status(404);
    bench.fires("a", 0);
    bench.env.sleep(Duration::from_secs(1_000)).await;
    assert_eq!(bench.hook.attempts.load(Ordering::Relaxed), 4, "at 30, 330, 630 and 930");
    *lock(&bench.hook.otherwise) = Answer::Status(204);
    assert_eq!(bench.told_until(1_300).await, ["1230 firing a*"]);
}

/// The next owner tells what it finds: the same notification has the same key, and nothing is told twice
/// more.
#[tokio::test(start_paused = true)]
async fn after_a_take_over_a_notification_is_repeated_once_with_its_key() {
    let old = Bench::new();
    old.fires("a", 0);
    old.fires("b", 5);
    old.env.sleep(Duration::from_secs(100)).await;
    old.ends("b", 5, 100);
    old.env.sleep(Duration::from_secs(300)).await;
    let keys = old.hook.keys();
    assert_eq!(old.hook.told(), ["30 firing a* b*", "330 firing a* b."]);
    let (env, hook) = (old.env.clone(), Arc::clone(&old.hook));
    // It is killed after the receiver accepted, and before it noted that.
    drop(old);
    let new = Bench::over(&env, &hook, Grouping::default());
    for _ in 0..10 {
        new.fires("a", 0);
        new.ends("b", 5, 100);
        env.sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(hook.keys(), [keys[1].clone()]);
    assert_eq!(hook.told(), ["430 firing a* b."]);
}

/// It ended before the new owner told it, and the receiver would have regarded it as firing for ever.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_alert_that_another_process_told_is_told() {
    let old = Bench::new();
    old.fires("a", 0);
    assert_eq!(old.told_until(40).await, ["30 firing a*"]);
    let (env, hook) = (old.env.clone(), Arc::clone(&old.hook));
    drop(old);
    let new = Bench::over(&env, &hook, Grouping::default());
    new.fires("a", 0);
    env.sleep(Duration::from_secs(10)).await;
    new.ends("a", 0, 50);
    assert_eq!(new.told_until(100).await, ["70 resolved a."]);
    assert_eq!(new.told_until(20_000).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_alerts_at_once_are_one_notification_that_counts_what_it_leaves_out() {
    let bench = Bench::new();
    bench.send((0..10_000).map(|n| Bench::alert("Down", &format!("i{n:05}"), 0, None)));
    bench.env.sleep(Duration::from_secs(31)).await;
    {
        let got = lock(&bench.hook.got);
        let body = &got[0].body;
        assert_eq!((got.len(), body["alerts"].as_array().unwrap().len()), (1, 1_000));
        assert_eq!(body["truncatedAlerts"], 9_000);
    }
    bench.hook.told();
    let end = |n: usize| Bench::alert("Down", &format!("i{n:05}"), 0, Some(60));
    bench.send((0..10_000).map(end));
    bench.env.sleep(Duration::from_secs(3_000)).await;
    assert_eq!((bench.hook.told().len(), bench.metrics.notified.get()), (1, 20_000));
    assert_eq!(bench.metrics.lost("queue_full"), 0);
    bench.notifier.keep(
        Origin {
            tenant: &TenantId::default_tenant(),
            are_stored: false,
            file: "f.yml",
            group: "g",
            shard: None,
        },
        &HashSet::new(),
    );
    assert_eq!(bench.metrics.grouped.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn alerts_beyond_the_bounds_are_lost_and_counted_and_other_tenants_have_room() {
    let bench = Bench::new();
    let many = |from: usize| (from..from + 5_000).map(|n| Bench::alert("Down", &format!("i{n}"), 0, None));
    for from in (0..ALERTS_MAX + 5_000).step_by(5_000) {
        bench.send_as("many", many(from));
    }
    assert_eq!((bench.metrics.lost("queue_full"), bench.metrics.grouped.get()), (5_000, ALERTS_MAX as i64));
    bench.send_as("few", [Bench::alert("Down", "few", 0, None)]);
    assert_eq!((bench.metrics.lost("queue_full"), bench.metrics.grouped.get()), (5_001, ALERTS_MAX as i64));
    // Labels of a megabyte.
    bench.send_as("few", [Bench::alert("Down", &"x".repeat(ALERT_BYTES_MAX), 0, None)]);
    assert_eq!(bench.metrics.lost("too_large"), 1);
    bench.send_as(
        "large",
        (0..40).map(|n| Bench::alert("Down", &format!("{n}{}", "x".repeat(400_000)), 0, None)),
    );
    assert!(bench.metrics.lost("queue_full") > 5_010);
    bench.env.sleep(Duration::from_secs(40)).await;
    let got = lock(&bench.hook.got);
    let tenants: Vec<&str> = got.iter().map(|got| got.tenant.as_str()).collect();
    assert_eq!(tenants, ["few", "large", "many"]);
    let large = &got[1].body;
    assert!(large.to_string().len() < 6 << 20 && large["truncatedAlerts"].as_u64().unwrap() > 10);
}

#[tokio::test(start_paused = true)]
async fn tenants_with_many_groups_delay_no_other() {
    let bench = Bench::with(Grouping { by: None, ..Grouping::default() });
    *lock(&bench.hook.otherwise) = Answer::Hangs;
    bench.send_as("a", (0..100).map(|n| Bench::alert("Down", &format!("i{n}"), 0, None)));
    bench.send_as("b", [Bench::alert("Down", "b", 0, None)]);
    // Each request takes ten seconds.
    bench.env.sleep(Duration::from_secs(50)).await;
    let tenants: Vec<String> = lock(&bench.hook.got).iter().take(2).map(|got| got.tenant.clone()).collect();
    assert_eq!(tenants, ["a", "b"]);
}

/// As in Alertmanager: what is silenced is not told, and neither is its end; after the silence it is told
/// with the others.
#[tokio::test(start_paused = true)]
async fn silenced_alerts_are_not_told() {
    let bench = Bench::new();
    bench.silence("instance=~a|x", (0, 1_000));
    bench.fires("a", 0);
    bench.fires("b", 0);
    bench.fires("x", 0);
    assert_eq!(bench.told_until(31).await, ["30 firing b*"]);
    bench.ends("x", 0, 100);
    assert_eq!(bench.told_until(1_000).await, [""; 0]);
    assert_eq!(bench.told_until(1_300).await, ["1230 firing a* b*"]);
    // One that was told is silenced. Then others are told without it, and after the silence it is told again.
    bench.silence("zone=z", (1_300, 2_000));
    bench.fires("c", 1_300);
    assert_eq!(bench.told_until(2_000).await, [""; 0], "the external labels count");
    assert_eq!(bench.told_until(2_200).await, ["2130 firing a* b* c*"]);
    bench.silence("instance=a", (2_200, 3_000));
    bench.fires("d", 2_200);
    assert_eq!(bench.told_until(3_000).await, ["2430 firing b* c* d*"]);
    assert_eq!(bench.told_until(3_100).await, ["3030 firing a* b* c* d*"]);
}

/// A namespace may have the name of a file.
#[tokio::test(start_paused = true)]
async fn rules_of_files_and_stored_rules_do_not_end_each_other() {
    let bench = Bench::new();
    let tenant = TenantId::default_tenant();
    bench.fires("a", 0);
    let stored = Origin { tenant: &tenant, are_stored: true, file: "f.yml", group: "g", shard: None };
    bench.notifier.send(stored, promql("up"), vec![Bench::alert("Down", "b", 0, None)]);
    assert_eq!(bench.told_until(31).await, ["30 firing a*", "30 firing b*"]);
    bench.notifier.keep(stored, &HashSet::new());
    assert_eq!(bench.told_until(1_000).await, ["330 resolved b."]);
}
