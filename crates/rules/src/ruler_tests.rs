//! Courses of rules over files, with data in memory and a simulated clock.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sandur_base::{BoxFuture, Id};
use sandur_model::{Labels, is_stale};
use sandur_runtime::Env;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Store, StoreOptions};

use super::*;
use crate::data::{Instant, Number};
use crate::error::EvaluationError;
use crate::external::External;
use crate::group::EVALUATIONS_MAX;
use crate::memory_data::MemoryData;
use crate::metrics::RuleMetrics;
use crate::notify::{Address, Grouping, Message, Notifier, NotifierParts, Outcome, Post};
use crate::ownership::{Lease, Owners};
use crate::restore::Tolerance;
use crate::rule::Common;
use crate::rulers::Rulers;
use crate::schedule::Schedule;
use crate::shared_ownership::SharedOwnership;
use crate::shown::{GroupShown, RulesShown};
use crate::spec::Language;
use crate::stored::{Change, StoredParts};

/// Notes which alerts and notifications of groups it got, and fails while it is down.
#[derive(Default)]
struct Receiver(std::sync::Mutex<Vec<String>>, AtomicBool, std::sync::Mutex<Vec<serde_json::Value>>);

impl Post for Receiver {
    fn post<'a>(
        &'a self,
        message: Message<'a>,
        _: &'a TenantId,
        _: Duration,
    ) -> sandur_base::BoxFuture<'a, Outcome> {
        if self.1.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(message.outcome(503)));
        }
        let body = match message {
            Message::Alerts { body, .. } => body,
            Message::Webhook { body, .. } => {
                self.2.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
                return Box::pin(std::future::ready(Ok(())));
            }
            Message::Mail { .. } => return Box::pin(std::future::ready(Ok(()))),
        };
        let alerts: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let text = |alert: &serde_json::Value| {
            format!("{} {}-{}", alert["labels"]["alertname"], alert["startsAt"], alert["endsAt"])
        };
        self.0.lock().unwrap().extend(alerts.as_array().unwrap().iter().map(text));
        Box::pin(std::future::ready(Ok(())))
    }
}

struct Bench {
    env: Env,
    data: Arc<MemoryData>,
    directory: Arc<tempfile::TempDir>,
    receiver: Arc<Receiver>,
    metrics: RuleMetrics,
    shown: RulesShown,
    running: Option<(Shutdown, Task<()>)>,
    ownership: Option<Arc<dyn Ownership>>,
    /// The limit of the memory of states.
    limit: Arc<AtomicU64>,
}

/// A record of owners in which this process gets what it wants.
struct Record(std::sync::Mutex<Owners>);

impl Record {
    /// A record of a process that should own all shards.
    fn new(is_recorded: bool) -> Arc<Self> {
        Arc::new(Self(std::sync::Mutex::new(Owners {
            is_recorded,
            incarnation: Id(1),
            own: RuleShards::NONE,
            wanted: RuleShards::ALL,
            free: RuleShards::ALL,
            nodes: Vec::new(),
            is_unknown: false,
            running_since: Instant::default(),
        })))
    }

    fn part(self: &Arc<Self>) -> Option<Arc<dyn Ownership>> {
        Some(SharedOwnership::new(Arc::<Self>::clone(self), RuleMetrics::default()).part())
    }

    fn edit(&self, edit: impl FnOnce(&mut Owners)) {
        edit(&mut self.0.lock().unwrap());
    }
}

impl Ownership for Record {
    fn owners(&self) -> Owners {
        self.0.lock().unwrap().clone()
    }

    fn lease(&self) -> Lease {
        let Owners { is_recorded, incarnation, own, .. } = self.owners();
        Lease { is_recorded, incarnation, own, age: Duration::ZERO, is_alone: true }
    }

    fn own(&self, incarnation: Id, shards: RuleShards) -> BoxFuture<'_, Result<bool, String>> {
        let mut owners = self.0.lock().unwrap();
        let is_allowed = owners.incarnation == incarnation;
        if is_allowed {
            (owners.own, owners.free) = (shards, RuleShards::ALL.without(shards));
        }
        Box::pin(std::future::ready(Ok(is_allowed)))
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The start of the clock: seconds since the epoch.
const START: i64 = 1_700_000_000;

impl Bench {
    fn new() -> Self {
        Self::of(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// The clock begins half an interval before an evaluation of the group `g` of `a.yml`: its phase depends
    /// on the name of the folder, which is another one in each run.
    fn of(directory: Arc<tempfile::TempDir>) -> Self {
        let path = directory.path().join("a.yml").display().to_string();
        let schedule = Schedule::new(&path, "g", Duration::from_secs(60));
        let start = schedule.before(Instant::of_seconds(START)).plus(Duration::from_secs(30));
        let env = Env::simulated(1, start.ns());
        Self {
            data: Arc::new(MemoryData::new(env.clone())),
            env,
            directory,
            receiver: Arc::default(),
            metrics: RuleMetrics::default(),
            shown: RulesShown::default(),
            running: None,
            ownership: None,
            limit: Arc::new(AtomicU64::new(16 << 20)),
        }
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.directory.path().join(file), text).unwrap();
    }

    /// Starts a server.
    fn start(&mut self) {
        let stop = Shutdown::default();
        let task = self.env.spawn("ruler", self.maker()().run(stop.signal()));
        self.running = Some((stop, task));
    }

    /// Starts a server with stored rules only.
    fn start_stored(&mut self, stored: &StoredRules) {
        let (make, of) = (self.maker(), stored.clone());
        let make = Box::new(move |_| Ruler { stored: Some(of.clone()), ..make() });
        let rulers = Rulers { env: self.env.clone(), stored: stored.clone(), make };
        let stop = Shutdown::default();
        let task = self.env.spawn("rulers", rulers.run(stop.signal()));
        self.running = Some((stop, task));
    }

    /// Makes rulers.
    fn maker(&self) -> impl Fn() -> Ruler + Send + Sync + use<> {
        let (env, external) = (self.env.clone(), Arc::new(External::default()));
        let post: Arc<dyn Post> = Arc::<Receiver>::clone(&self.receiver);
        let notifier = Notifier::new(NotifierParts {
            env: env.clone(),
            alertmanagers: vec!["http://am".to_owned()],
            receivers: vec![Address::Webhook("http://hook".to_owned())],
            grouping: Grouping::default(),
            external: Arc::clone(&external),
            silences: None,
            post,
            metrics: self.metrics.clone(),
        });
        self.shown.set_notifier(notifier.clone());
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let common = Common {
            data: Arc::<MemoryData>::clone(&self.data),
            external,
            series_max: 1_000,
            timeout: Duration::from_secs(30),
            tolerance: Tolerance { outage: minutes(60), grace: minutes(10) },
        };
        let memory = sandur_memory::MemoryBudget::root("rules", 16 << 20);
        let (resend_delay, metrics) = (minutes(1), self.metrics.clone());
        let turns = Arc::new(tokio::sync::Semaphore::new(EVALUATIONS_MAX));
        let tenant = TenantId::default_tenant();
        let parts = Parts {
            env: env.clone(),
            tenant,
            are_stored: false,
            common,
            notifier,
            resend_delay,
            memory,
            metrics,
            turns,
        };
        let sources = vec![Source::parse(&self.directory.path().display().to_string())];
        let (shown, ownership, limit) = (self.shown.clone(), self.ownership.clone(), Arc::clone(&self.limit));
        move || Ruler {
            parts: parts.clone(),
            built_in: Vec::new(),
            sources: sources.clone(),
            state_memory_max: {
                let limit = Arc::clone(&limit);
                Box::new(move || limit.load(Ordering::Relaxed))
            },
            interval: minutes(1),
            most: Most { groups: 100, rules: 1_000 },
            stored: None,
            is_new: false,
            shown: shown.part(TenantId::default_tenant(), parts.metrics.clone()),
            ownership: ownership.clone(),
        }
    }

    /// Stored rules in a bucket, as a process reads them.
    fn stored_rules(&self, bucket: &FaultStore) -> StoredRules {
        StoredRules::new(StoredParts {
            env: self.env.clone(),
            store: Store::from_fault_store(bucket.clone(), self.env.clone(), StoreOptions::default()),
            memory: sandur_memory::MemoryBudget::root("state of rules", 64 << 20),
            metrics: self.metrics.clone(),
            interval: Duration::from_secs(60),
        })
    }

    /// Kills the server.
    fn kill(&mut self) {
        self.running = None;
    }

    async fn pass(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// What a receiver of groups was told since the last call.
    fn told(&self) -> Vec<String> {
        let told = std::mem::take(&mut *self.receiver.2.lock().unwrap());
        let text = |body: &serde_json::Value| {
            let names = body["alerts"].as_array().unwrap().iter();
            let names: Vec<&str> =
                names.map(|alert| alert["labels"]["alertname"].as_str().unwrap()).collect();
            format!("{} {}", body["status"].as_str().unwrap(), names.join(" "))
        };
        let mut told: Vec<String> = told.iter().map(text).collect();
        told.sort();
        told
    }

    /// Sets a gauge from now on, as a scrape each 15 seconds would.
    fn set(&self, name: &str, value: f64, seconds: i64) {
        let labels = Labels::from_pairs([("__name__", name), ("instance", "i")]);
        let now = self.env.now_ns() / 1_000_000;
        for at in (now..now + seconds * 1_000).step_by(15_000) {
            self.data.add(&labels, at, Number::Float(value));
        }
    }

    /// The values of series whose names begin with this, `x` for a stale marker.
    fn stored(&self, prefix: &str) -> Vec<String> {
        let series = self.data.series();
        let named = series.iter().filter(|(labels, _)| labels.get("__name__").unwrap().starts_with(prefix));
        let mut lines: Vec<String> = named
            .map(|(labels, samples)| {
                let value = |value: &f64| if is_stale(*value) { "x".to_owned() } else { value.to_string() };
                let values: Vec<String> = samples.values.iter().map(value).collect();
                format!("{labels} {}", values.join(" "))
            })
            .collect();
        lines.sort();
        lines
    }

    fn groups(&self) -> Vec<Arc<GroupShown>> {
        self.shown.groups(&sandur_model::TenantId::default_tenant())
    }

    /// The states of the alerts of all rules.
    fn states(&self) -> String {
        let groups = self.groups();
        let alerts = groups.iter().flat_map(|group| &group.rules).flat_map(|rule| &rule.alerts);
        alerts.map(|alert| alert.state.name()).collect::<Vec<_>>().join(",")
    }

    fn errors(&self) -> Vec<String> {
        self.groups()
            .iter()
            .flat_map(|group| &group.rules)
            .filter_map(|rule| rule.last_error.clone())
            .collect()
    }
}

const RECORD: &str = "groups:\n- name: g\n  rules:\n  - {record: a:twice, expr: a * 2}\n  \
                      - {record: a:four, expr: 'a:twice * 2', labels: {level: '2'}}\n";

#[tokio::test(start_paused = true)]
async fn a_rule_sees_what_the_rule_before_it_wrote_at_the_same_time() {
    let mut bench = Bench::new();
    bench.write("a.yml", RECORD);
    bench.set("a", 1.0, 300);
    bench.start();
    bench.pass(61).await;
    assert_eq!(
        bench.stored("a:"),
        [r#"{__name__="a:four", instance="i", level="2"} 4"#, r#"{__name__="a:twice", instance="i"} 2"#]
    );
    let times = |name: &str| -> Vec<i64> {
        let series = bench.data.series();
        series.iter().find(|(l, _)| l.get("__name__") == Some(name)).unwrap().1.times.to_vec()
    };
    assert_eq!(times("a:four"), times("a:twice"), "exactly the time of the evaluation");
}

#[tokio::test(start_paused = true)]
async fn a_series_that_ends_gets_one_stale_marker() {
    let mut bench = Bench::new();
    bench.write("a.yml", "groups:\n- name: g\n  rules:\n  - {record: r, expr: 'a > 1'}\n");
    bench.set("a", 2.0, 130);
    bench.start();
    bench.pass(125).await;
    bench.set("a", 0.0, 400);
    bench.pass(180).await;
    assert_eq!(bench.stored("r"), [r#"{__name__="r", instance="i"} 2 2 x"#]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_or_incomplete_evaluation_changes_nothing() {
    let mut bench = Bench::new();
    bench.write(
        "a.yml",
        "groups:\n- name: g\n  rules:\n  - {record: r, expr: 'a > 1'}\n  - {alert: x, expr: 'a > 1'}\n",
    );
    bench.set("a", 2.0, 1_000);
    bench.start();
    bench.pass(61).await;
    assert_eq!(bench.states(), "firing");
    let (before, sent) = (bench.stored("r"), bench.receiver.0.lock().unwrap().len());
    for error in [
        EvaluationError::Incomplete("a block is missing".to_owned()),
        EvaluationError::Query("out of order".to_owned()),
    ] {
        bench.data.fail(Some(error.clone()));
        bench.pass(120).await;
        assert_eq!((bench.states(), bench.stored("r")), ("firing".to_owned(), before.clone()));
        assert_eq!(bench.errors(), [error.to_string(), error.to_string()]);
    }
    let notified = bench.receiver.0.lock().unwrap().clone();
    assert!(notified.len() > sent, "receivers do not resolve it in the meantime");
    bench.data.fail(None);
    bench.pass(60).await;
    assert_eq!((bench.errors().len(), bench.states()), (0, "firing".to_owned()));
    assert_eq!(bench.stored("r").len(), 1);
    assert!(bench.stored("r")[0].ends_with("2 2"), "{:?}", bench.stored("r"));
}

#[tokio::test(start_paused = true)]
async fn alerts_write_their_states_as_series() {
    let mut bench = Bench::new();
    bench.write(
        "a.yml",
        "groups:\n- name: g\n  rules:\n  - {alert: x, expr: 'a > 1', for: 2m, labels: {l: '{{ $value }}'}}\n",
    );
    bench.set("a", 2.0, 1_000);
    bench.start();
    // The first two evaluations precede the restoring.
    bench.pass(60 * 6).await;
    let stored = bench.stored("ALERTS");
    assert_eq!(stored.len(), 2, "{stored:?}");
    assert_eq!(
        stored[0],
        r#"{__name__="ALERTS", alertname="x", alertstate="firing", instance="i", l="2"} 1 1 1 1"#
    );
    assert!(
        stored[1].starts_with(r#"{__name__="ALERTS_FOR_STATE", alertname="x", instance="i", l="2"} 17000"#)
    );
    bench.set("a", 0.0, 1_000);
    let notified = bench.receiver.0.lock().unwrap().clone();
    assert!(notified[0].starts_with("\"x\" "), "{notified:?}");
}

#[tokio::test(start_paused = true)]
async fn a_restart_continues_for_without_the_outage() {
    let mut bench = Bench::new();
    let rule = "groups:\n- name: g\n  rules:\n  - {alert: x, expr: 'a > 1', for: 30m}\n";
    bench.write("a.yml", rule);
    bench.set("a", 2.0, 7_200);
    bench.start();
    bench.pass(60 * 16).await;
    assert_eq!(bench.states(), "pending");
    bench.kill();
    bench.pass(60 * 10).await;
    bench.start();
    // 15 of the 30 minutes are over; the outage of 10 minutes does not count.
    bench.pass(60 * 12).await;
    assert_eq!(bench.states(), "pending");
    bench.pass(60 * 7).await;
    assert_eq!(bench.states(), "firing");
    bench.kill();
    bench.pass(60 * 3).await;
    bench.start();
    bench.pass(60 * 4).await;
    assert_eq!(bench.states(), "firing", "it fired before the restart");
}

#[tokio::test(start_paused = true)]
async fn evaluations_of_a_pause_are_made_up_and_send_nothing() {
    let mut bench = Bench::new();
    let rule = "groups:\n- name: g\n  interval: 20s\n  rules:\n  - {record: r, expr: a}\n  \
                - {alert: x, expr: 'a > 1'}\n";
    bench.write("a.yml", rule);
    bench.set("a", 2.0, 7_200);
    bench.start();
    bench.pass(65).await;
    let (before, sent) = (bench.stored("r")[0].split(' ').count(), bench.receiver.0.lock().unwrap().len());
    // As if the process had been stopped for 100 s.
    bench.env.set_clock_skew(Duration::from_secs(100), true);
    bench.pass(21).await;
    let after = bench.stored("r")[0].split(' ').count();
    assert!(matches!(after - before, 6 | 7), "{before} and {after}");
    assert_eq!((bench.metrics.missed.get(), bench.metrics.made_up.get()), (0, 5));
    assert_eq!(bench.groups()[0].made_up, 5);
    let sent = bench.receiver.0.lock().unwrap().len() - sent;
    assert_eq!(sent, 1, "the one that is on time");
    // A longer one.
    bench.env.set_clock_skew(Duration::from_secs(100 + 20 * 150), true);
    bench.pass(21).await;
    assert_eq!((bench.metrics.missed.get(), bench.metrics.made_up.get()), (49, 106));
}

#[tokio::test(start_paused = true)]
async fn a_failed_restoring_is_repeated() {
    let mut bench = Bench::new();
    bench.write("a.yml", "groups:\n- name: g\n  rules:\n  - {alert: x, expr: 'a > 1', for: 30m}\n");
    bench.set("a", 2.0, 7_200);
    bench.start();
    bench.pass(60 * 29).await;
    for working in [0, 61, 0] {
        bench.kill();
        bench.start();
        bench.pass(working).await;
        bench.data.fail(Some(EvaluationError::Query("no".to_owned())));
        bench.pass(180).await;
        bench.data.fail(None);
    }
    bench.pass(60 * 14).await;
    assert_eq!(bench.states(), "firing", "after the grace period of 10 minutes");
}

#[tokio::test(start_paused = true)]
async fn a_reload_keeps_what_did_not_change_and_ends_what_is_gone() {
    let mut bench = Bench::new();
    bench.write(
        "a.yml",
        "groups:\n- name: g\n  rules:\n  - {record: r, expr: a}\n  - {record: s, expr: a}\n  \
         - {alert: x, expr: 'a > 1', for: 20m}\n",
    );
    bench.write("b.yml", "groups:\n- name: h\n  rules:\n  - {record: t, expr: a}\n");
    bench.set("a", 2.0, 7_200);
    bench.start();
    bench.pass(60 * 15).await;
    // `s` is removed, `r` and `x` move to another group, `t` to another file.
    bench.write(
        "a.yml",
        "groups:\n- name: other\n  rules:\n  - {record: r, expr: a}\n  \
         - {alert: x, expr: 'a > 0', for: 20m}\n  - {record: t, expr: a}\n",
    );
    fs::remove_file(bench.directory.path().join("b.yml")).unwrap();
    bench.pass(60 * 8).await;
    assert_eq!(bench.states(), "firing", "20 minutes are over, 8 of them since the reload");
    let line = |name: &str| bench.stored(name).remove(0);
    assert!(line("s").ends_with("2 x"), "{}", line("s"));
    for name in ["r", "t"] {
        assert!(!line(name).contains('x') && line(name).split(' ').count() > 20, "{}", line(name));
    }
    // All groups are removed.
    bench.write("a.yml", "groups: []\n");
    bench.pass(30).await;
    assert!(bench.groups().is_empty() && line("r").ends_with(" x"), "{}", line("r"));
    assert!(bench.stored("ALERTS").iter().all(|line| line.ends_with(" x")));
}

#[tokio::test(start_paused = true)]
async fn alerts_go_on_if_the_labels_of_their_rule_have_another_order() {
    let mut bench = Bench::new();
    let write = |bench: &Bench, labels: &str| {
        let rule = format!("  - {{alert: x, expr: a, labels: {{{labels}}}}}\n");
        bench.write("a.yml", &format!("groups:\n- name: g\n  rules:\n{rule}"));
    };
    write(&bench, "p: '1', q: '2'");
    bench.set("a", 2.0, 7_200);
    bench.start();
    bench.pass(60 * 5).await;
    let since = |bench: &Bench| bench.groups()[0].rules[0].alerts[0].active_at;
    let before = since(&bench);
    write(&bench, "q: '2', p: '1'");
    bench.pass(60 * 5).await;
    assert_eq!(since(&bench), before);
}

#[tokio::test(start_paused = true)]
async fn series_that_a_changed_rule_wrote_end_at_the_time_of_its_other_samples() {
    let mut bench = Bench::new();
    let write = |bench: &Bench, rules: &str| {
        bench.write("a.yml", &format!("groups:\n- name: g\n  query_offset: 10s\n  rules:\n{rules}"));
    };
    write(&bench, "  - {record: r, expr: a, labels: {l: x}}\n");
    bench.set("a", 2.0, 7_200);
    bench.start();
    bench.pass(60 * 5).await;
    // The rule without the label could write the series with it, so its group ends that series.
    write(&bench, "  - {record: r, expr: a}\n");
    bench.pass(60 * 2).await;
    let series = bench.data.series();
    let of = |value: Option<&str>| {
        let is_it = |labels: &Labels| labels.get("__name__") == Some("r") && labels.get("l") == value;
        let (_, samples) = series.iter().find(|(labels, _)| is_it(labels)).unwrap();
        (samples.times.to_vec(), samples.values.to_vec())
    };
    let ((after, _), (before, values)) = (of(None), of(Some("x")));
    assert!(is_stale(*values.last().unwrap()), "{values:?}");
    assert_eq!(before.last(), after.first());
}

#[tokio::test(start_paused = true)]
async fn a_broken_file_is_shown_and_its_rules_go_on() {
    let mut bench = Bench::new();
    bench.write("a.yml", RECORD);
    bench.set("a", 1.0, 1_000);
    bench.start();
    bench.pass(61).await;
    bench.write("a.yml", "groups:\n- name: g\n  rules:\n  - {record: a, expr: 'sum('}\n");
    bench.pass(120).await;
    let files = bench.shown.files(&sandur_model::TenantId::default_tenant());
    assert!(files[0].error.as_ref().unwrap().starts_with("line 4: could not parse"), "{files:?}");
    assert_eq!((bench.metrics.broken_files.get(), bench.stored("a:four")[0].split(' ').count()), (1, 6));
    bench.write("a.yml", RECORD);
    bench.pass(30).await;
    assert_eq!(bench.metrics.broken_files.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn rules_with_too_many_series_or_equal_labels_fail() {
    let mut bench = Bench::new();
    bench.write(
        "a.yml",
        "groups:\n- name: g\n  limit: 3\n  rules:\n  - {record: r, expr: 'm < 4'}\n  \
         - {record: s, expr: m}\n  - {record: t, expr: 'm < 2', labels: {n: ''}}\n  \
         - {alert: u, expr: 'm < 4'}\n",
    );
    for n in 0..1_001 {
        let labels = Labels::from_pairs([("__name__", "m"), ("n", &n.to_string())]);
        bench.data.add(&labels, bench.env.now_ns() / 1_000_000, Number::Float(f64::from(n)));
    }
    bench.start();
    bench.pass(61).await;
    let errors = bench.errors();
    assert_eq!(errors[0], "exceeded limit of 3 with 4 series");
    assert!(errors[1].contains("1001 series, and a rule may have 1000 (ruler.max_series)"), "{errors:?}");
    assert!(
        errors[2].starts_with("vector contains metrics with the same labelset after applying rule labels")
    );
    assert_eq!(errors[3], "exceeded limit of 3 with 4 alerts");
    assert_eq!(bench.stored("r").len() + bench.stored("ALERTS").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_the_same_course_are_equal() {
    let directory = Arc::new(tempfile::tempdir().unwrap());
    let course = || async {
        let mut bench = Bench::of(Arc::clone(&directory));
        bench.write(
            "a.yml",
            "groups:\n- name: g\n  interval: 20s\n  rules:\n  - {record: r, expr: 'a > 1'}\n  \
             - {alert: x, expr: 'r > 1', for: 1m, annotations: {b: '{{ query \"a\" | first | value }}'}}\n",
        );
        bench.start();
        for n in 0..20 {
            bench.set("a", f64::from(n % 3), 60);
            bench.pass(60).await;
        }
        let notified = bench.receiver.0.lock().unwrap().clone();
        (bench.stored("r"), bench.stored("ALERTS"), notified)
    };
    assert_eq!(course().await, course().await);
}

/// The ruler compared the shards of before and after a look. They were equal, and the groups stayed stopped.
#[tokio::test(start_paused = true)]
async fn groups_whose_shards_are_dropped_and_taken_in_one_look_go_on() {
    let mut bench = Bench::new();
    let rule = "groups:\n- name: g\n  interval: 10s\n  rules:\n  - {record: r, expr: a}\n";
    bench.write("a.yml", rule);
    bench.set("a", 2.0, 7_200);
    let record = Record::new(false);
    bench.ownership = record.part();
    bench.start();
    bench.pass(35).await;
    let count = |bench: &Bench| bench.stored("r")[0].split(' ').count();
    let mut before = count(&bench);
    let changes: [fn(&mut Owners); 2] = [
        |owners| owners.is_recorded = true,
        |owners| {
            (owners.incarnation, owners.own, owners.free) = (Id(2), RuleShards::NONE, RuleShards::ALL);
        },
    ];
    for change in changes {
        record.edit(change);
        bench.pass(35).await;
        let now = count(&bench);
        assert!(now >= before + 3, "{before}, then {now}");
        before = now;
    }
}

/// The ruler of a new tenant took its shards over from nobody, and `for` was over at once.
#[tokio::test(start_paused = true)]
async fn rules_of_a_new_tenant_do_not_make_up_the_time_before_them() {
    let mut bench = Bench::new();
    bench.set("a", 2.0, 7_200);
    bench.ownership = Record::new(true).part();
    let bucket = FaultStore::new(bench.env.clone(), 1, FaultPlan::none());
    let stored = bench.stored_rules(&bucket);
    bench.start_stored(&stored);
    stored.refresh().await.unwrap();
    bench.pass(300).await;
    let tenant = TenantId::default_tenant();
    let change = Change { tenant: &tenant, language: Language::Promql, namespace: "n", from_previous: false };
    let text = "name: g\ninterval: 10s\nrules:\n- {alert: x, expr: 'a > 1', for: 1m}\n".to_owned();
    stored.set_group(change, text, &sandur_model::Limits::default()).await.unwrap();
    bench.pass(15).await;
    assert_eq!((bench.states().as_str(), bench.metrics.made_up.get()), ("pending", 0));
    bench.pass(60).await;
    assert_eq!(bench.states(), "firing");
    // A process that starts later may follow another one.
    bench.kill();
    bench.pass(25).await;
    let stored = bench.stored_rules(&bucket);
    bench.start_stored(&stored);
    stored.refresh().await.unwrap();
    bench.pass(5).await;
    assert_eq!(bench.states(), "firing");
    assert!(bench.metrics.made_up.get() >= 2, "{}", bench.metrics.made_up.get());
}

/// The first look of a ruler withdrew what another ruler of the tenant had queued.
#[tokio::test(start_paused = true)]
async fn alerts_that_wait_are_withdrawn_with_their_own_shard_only() {
    let bench = Bench::new();
    bench.set("a", 2.0, 7_200);
    bench.receiver.1.store(true, Ordering::Relaxed);
    bench.write("a.yml", "groups:\n- name: g\n  interval: 10s\n  rules:\n  - {alert: x, expr: 'a > 1'}\n");
    let record = Record::new(true);
    let shared = SharedOwnership::new(Arc::<Record>::clone(&record), bench.metrics.clone());
    let (make, stop) = (bench.maker(), Shutdown::default());
    let of_files = Ruler { ownership: Some(shared.part()), ..make() };
    let _files = bench.env.spawn("ruler", of_files.run(stop.signal()));
    bench.pass(30).await;
    assert_eq!((bench.states().as_str(), bench.metrics.queued.get()), ("firing", 1));

    let stored = bench.stored_rules(&FaultStore::new(bench.env.clone(), 1, FaultPlan::none()));
    let tenant = TenantId::default_tenant();
    let change = Change { tenant: &tenant, language: Language::Promql, namespace: "n", from_previous: false };
    let text = "name: g\ninterval: 10s\nrules:\n- {alert: y, expr: 'a > 1'}\n".to_owned();
    stored.set_group(change, text, &sandur_model::Limits::default()).await.unwrap();
    // The group is not evaluated in the first second.
    let now = Instant::of_ns(bench.env.now_ns());
    let next = Schedule::new("n", "g", Duration::from_secs(10)).first(now);
    bench.env.sleep(next.since(now) + Duration::from_secs(1)).await;
    let of_stored =
        Ruler { ownership: Some(shared.part()), stored: Some(stored.clone()), is_new: true, ..make() };
    let _stored = bench.env.spawn("ruler", of_stored.run(stop.signal()));
    bench.pass(1).await;
    assert_eq!(bench.metrics.queued.get(), 1, "the first look");
    bench.pass(12).await;
    assert_eq!((bench.metrics.queued.get(), bench.metrics.taken_over.get()), (2, 64), "taken once");
    // Another process owns the shards of stored rules.
    let of_files = RuleShards::ALL.without(RuleShards::from_bits(u64::from(u32::MAX)));
    record.edit(|owners| {
        (owners.own, owners.wanted, owners.free) = (of_files, of_files, RuleShards::NONE);
    });
    bench.pass(2).await;
    assert_eq!((bench.states().as_str(), bench.metrics.queued.get()), ("firing", 1));
}

/// Ends that could not be stored were written outside of any term, also when another process may have
/// continued the rule, and when the rule had come back.
#[tokio::test(start_paused = true)]
async fn ends_of_removed_rules_are_not_written_in_a_later_term_nor_for_rules_that_came_back() {
    let mut bench = Bench::new();
    let rule = "groups:\n- name: g\n  interval: 10s\n  rules:\n  - {record: r, expr: a}\n";
    bench.set("a", 2.0, 7_200);
    let record = Record::new(true);
    bench.ownership = record.part();
    bench.start();
    let failure = || Some(EvaluationError::Write("no".to_owned()));
    for is_back in [false, true] {
        bench.write("a.yml", rule);
        bench.pass(60).await;
        let before = bench.stored("r")[0].split(' ').count();
        bench.data.fail(failure());
        bench.write("a.yml", "groups: []\n");
        bench.pass(30).await;
        assert!(bench.groups().is_empty());
        if is_back {
            bench.write("a.yml", &rule.replace("name: g", "name: other"));
            bench.pass(15).await;
        } else {
            record.edit(|owners| {
                (owners.incarnation, owners.own, owners.free) = (Id(2), RuleShards::NONE, RuleShards::ALL);
            });
            bench.pass(5).await;
        }
        bench.data.fail(None);
        bench.pass(60).await;
        let line = bench.stored("r").remove(0);
        assert!(!line.contains('x'), "{is_back}: {line}");
        assert_eq!(line.split(' ').count() > before, is_back, "{line}");
    }
    // Without either, they are ended when that is possible again.
    bench.data.fail(failure());
    bench.write("a.yml", "groups: []\n");
    bench.pass(30).await;
    bench.data.fail(None);
    bench.pass(15).await;
    assert!(bench.stored("r")[0].ends_with(" x"), "{:?}", bench.stored("r"));
}

/// After 20 attempts the group started as after a restart.
#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_continued_yet_is_continued_later() {
    let mut bench = Bench::new();
    let rule = "groups:\n- name: g\n  interval: 10s\n  rules:\n  - {record: r, expr: a}\n  \
                - {alert: x, expr: 'a > 1', for: 2m}\n";
    bench.write("a.yml", rule);
    bench.set("a", 2.0, 7_200);
    for (failing, expected) in [(0, "pending"), (90, "firing"), (900, "firing"), (1_100, "pending")] {
        bench.kill();
        bench.ownership = Record::new(true).part();
        bench.data.fail(Some(EvaluationError::Incomplete("no".to_owned())));
        bench.start();
        bench.pass(failing).await;
        bench.data.fail(None);
        bench.pass(25).await;
        assert_eq!(bench.states(), expected, "{failing} s");
        bench.pass(150).await;
        assert_eq!(bench.states(), "firing");
    }
}

/// The limit of the start held until the end.
#[tokio::test(start_paused = true)]
async fn a_changed_limit_of_the_memory_of_states_holds_from_then_on() {
    let mut bench = Bench::new();
    bench.write("a.yml", "groups:\n- name: g\n  interval: 10s\n  rules:\n  - {record: r, expr: a}\n");
    bench.set("a", 2.0, 7_200);
    bench.start();
    for (limit, failures) in [(16 << 20, 0), (10, 1), (16 << 20, 0)] {
        bench.limit.store(limit, Ordering::Relaxed);
        bench.pass(25).await;
        assert_eq!(bench.errors().len(), failures, "{limit}: {:?}", bench.errors());
    }
}

/// Nothing sends them any more, and a receiver of groups has no end of its own for them.
#[tokio::test(start_paused = true)]
async fn alerts_of_removed_rules_end_for_receivers_of_groups() {
    let mut bench = Bench::new();
    let group = |rules: &str| format!("groups:\n- name: g\n  rules:\n{rules}");
    let rule = |name: &str, more: &str| format!("  - {{alert: {name}, expr: 'a > 0'{more}}}\n");
    bench.write("a.yml", &group(&(rule("x", "") + &rule("y", "") + &rule("z", ""))));
    bench.set("a", 1.0, 10_000);
    bench.start();
    bench.pass(300).await;
    assert_eq!(bench.told(), ["firing x", "firing y", "firing z"]);
    bench.pass(600).await;
    assert_eq!(bench.told(), [""; 0]);
    // One rule is removed, one has another label.
    bench.write("a.yml", &group(&(rule("x", "") + &rule("z", ", labels: {l: m}"))));
    bench.pass(900).await;
    assert_eq!(bench.told(), ["firing z z", "resolved y"]);
    bench.write("a.yml", "groups: []\n");
    bench.pass(900).await;
    assert_eq!(bench.told(), ["resolved x", "resolved z"]);
}
