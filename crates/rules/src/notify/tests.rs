//! Notifications of receivers that answer, refuse, fail and hang.

use std::collections::VecDeque;
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_model::Labels;

use super::alertmanager::BATCH;
use super::*;
use crate::alert::State;

/// What a receiver does with its next requests, and what it got.
#[derive(Default)]
struct Receiver {
    answers: Mutex<VecDeque<Option<u16>>>,
    bodies: Mutex<Vec<(String, serde_json::Value)>>,
    keys: Mutex<Vec<String>>,
}

impl Post for Receiver {
    fn post<'a>(&'a self, message: Message<'a>, tenant: &'a TenantId, _: Duration) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let (url, body, key) = match &message {
                Message::Alerts { url, body } => (*url, body, ""),
                Message::Webhook { url, body, key } => (*url, body, *key),
                Message::Mail { .. } => panic!("{message:?}"),
            };
            self.keys.lock().unwrap().push(key.to_owned());
            let body = serde_json::from_slice(body).unwrap();
            self.bodies.lock().unwrap().push((url.to_owned(), body));
            if url.contains("dead") {
                return Err(NotSent::Failed("connection refused".to_owned()));
            }
            if tenant.as_str() == "unknown" {
                return message.outcome(404);
            }
            let next = self.answers.lock().unwrap().pop_front();
            match next {
                Some(None) => std::future::pending().await,
                Some(Some(status)) => message.outcome(status),
                None => Ok(()),
            }
        })
    }
}

fn promql(text: &str) -> Expression<'_> {
    Expression::new(crate::Language::Promql, text)
}

fn alert(name: &str, resolved: bool) -> Alert {
    let at = Instant::of_seconds(1_700_000_000);
    Alert {
        labels: Arc::new(Labels::from_pairs([("alertname", name), ("cluster", "own")])),
        annotations: Arc::new(vec![("summary".to_owned(), "it \"burns\"".to_owned())]),
        value: 1.0,
        state: if resolved { State::Inactive } else { State::Firing },
        active_at: at,
        fired_at: Some(at),
        resolved_at: resolved.then(|| at.plus(Duration::from_secs(60))),
        keep_firing_since: None,
        last_sent_at: Some(at),
        valid_until: Some(at.plus(Duration::from_secs(240))),
    }
}

fn notifier(env: &Env, urls: &[&str], receiver: &Arc<Receiver>) -> (Notifier, RuleMetrics) {
    let labels = vec![("cluster".to_owned(), "one".to_owned()), ("zone".to_owned(), "z".to_owned())];
    let external = Arc::new(External { labels, url: "http://s:3100".to_owned() });
    let metrics = RuleMetrics::default();
    let notifier = Notifier::new(NotifierParts {
        env: env.clone(),
        alertmanagers: urls.iter().map(|url| (*url).to_owned()).collect(),
        receivers: Vec::new(),
        grouping: Grouping::default(),
        external,
        silences: None,
        post: Arc::<Receiver>::clone(receiver),
        metrics: metrics.clone(),
    });
    (notifier, metrics)
}

fn of(tenant: &TenantId) -> Origin<'_> {
    Origin { tenant, are_stored: false, file: "f", group: "g", shard: None }
}

async fn names_after(env: &Env, receiver: &Receiver, seconds: u64) -> Vec<String> {
    env.sleep(Duration::from_secs(seconds)).await;
    let bodies = receiver.bodies.lock().unwrap();
    let name = |alert: &serde_json::Value| alert["labels"]["alertname"].as_str().unwrap().to_owned();
    let names =
        |body: &serde_json::Value| body.as_array().unwrap().iter().map(name).collect::<Vec<_>>().join("+");
    bodies.iter().map(|(_, body)| names(body)).collect()
}

#[tokio::test(start_paused = true)]
async fn alerts_have_the_form_of_alertmanagers_api() {
    let (env, receiver) = (Env::simulated(1, 0), Arc::new(Receiver::default()));
    let (notifier, metrics) = notifier(&env, &["http://am:9093/x/"], &receiver);
    notifier.send(
        of(&TenantId::default_tenant()),
        promql("up == 0"),
        vec![alert("a", false), alert("b", true)],
    );
    env.sleep(Duration::from_millis(1)).await;
    let bodies = receiver.bodies.lock().unwrap();
    let (url, body) = &bodies[0];
    assert_eq!(url, "http://am:9093/x/api/v2/alerts");
    assert_eq!(
        body[0],
        serde_json::json!({
            "labels": {"alertname": "a", "cluster": "own", "zone": "z"},
            "annotations": {"summary": "it \"burns\""},
            "startsAt": "2023-11-14T22:13:20Z",
            "endsAt": "2023-11-14T22:17:20Z",
            "generatorURL": "http://s:3100/graph?g0.expr=up+%3D%3D+0&g0.tab=1",
        })
    );
    assert_eq!(body[1]["endsAt"], "2023-11-14T22:14:20Z", "the time of its end");
    assert_eq!((metrics.notified.get(), bodies.len()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_repeated_with_what_is_newest() {
    let (env, receiver) = (Env::simulated(1, 0), Arc::new(Receiver::default()));
    receiver.answers.lock().unwrap().extend([Some(503), Some(500), None]);
    let (notifier, metrics) = notifier(&env, &["http://am"], &receiver);
    notifier.send(of(&TenantId::default_tenant()), promql("up"), vec![alert("a", false)]);
    env.sleep(Duration::from_millis(1)).await;
    notifier.send(of(&TenantId::default_tenant()), promql("up"), vec![alert("a", true), alert("b", false)]);
    // Half a second, a second, the timeout of the one that hangs, two seconds.
    assert_eq!(names_after(&env, &receiver, 30).await, ["a", "a+b", "a+b", "a+b"]);
    assert_eq!((metrics.notification_failures.get(), metrics.notified.get()), (3, 2));
    assert_eq!(metrics.queued.get(), 0);
    assert!(notifier.is_idle() && notifier.targets()[0].last_error.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_is_lost_and_counted() {
    let (env, receiver) = (Env::simulated(1, 0), Arc::new(Receiver::default()));
    receiver.answers.lock().unwrap().push_back(Some(400));
    let (notifier, metrics) = notifier(&env, &["http://am"], &receiver);
    notifier.send(of(&TenantId::default_tenant()), promql("up"), vec![alert("a", false)]);
    assert_eq!(names_after(&env, &receiver, 60).await, ["a"]);
    assert_eq!((metrics.lost("refused"), metrics.notified.get()), (1, 0));
    assert!(notifier.targets()[0].last_error.as_ref().unwrap().contains("400"));
}

#[tokio::test(start_paused = true)]
async fn a_dead_receiver_delays_no_other_and_its_queue_is_bounded() {
    let (env, receiver) = (Env::simulated(1, 0), Arc::new(Receiver::default()));
    let (notifier, metrics) = notifier(&env, &["http://dead", "http://user:secret@am"], &receiver);
    for n in 0..QUEUED_MAX + 300 {
        notifier.send(of(&TenantId::default_tenant()), promql("up"), vec![alert(&format!("a{n}"), false)]);
        if n % 1_000 == 0 {
            env.sleep(Duration::from_millis(1)).await;
        }
    }
    env.sleep(Duration::from_secs(60)).await;
    assert_eq!(metrics.notified.get(), QUEUED_MAX as u64 + 300, "the living one got all");
    let [dead, living] = &notifier.targets()[..] else { panic!() };
    assert!(dead.queued <= QUEUED_MAX && dead.queued + BATCH >= QUEUED_MAX, "{}", dead.queued);
    assert!(metrics.lost("queue_full") >= 44, "{}", metrics.lost("queue_full"));
    assert_eq!((dead.last_error.as_deref(), living.queued), (Some("connection refused"), 0));
    assert_eq!(living.url, "http://am/api/v2/alerts", "without the password");
    assert!(metrics.notification_failures.get() < 20, "it backs off");
}

/// The pauses after failed requests of one tenant delayed the alerts of all.
#[tokio::test(start_paused = true)]
async fn a_tenant_whose_requests_fail_delays_no_other() {
    let (env, receiver) = (Env::simulated(1, 0), Arc::new(Receiver::default()));
    let (notifier, metrics) = notifier(&env, &["http://am"], &receiver);
    let (unknown, known) = (TenantId::new("unknown").unwrap(), TenantId::new("known").unwrap());
    notifier.send(of(&unknown), promql("up"), vec![alert("a", false)]);
    env.sleep(Duration::from_secs(120)).await;
    assert!((6..15).contains(&metrics.notification_failures.get()), "it backs off");
    for n in 0..5 {
        notifier.send(of(&unknown), promql("up"), vec![alert(&format!("u{n}"), false)]);
        notifier.send(of(&known), promql("up"), vec![alert(&format!("k{n}"), false)]);
    }
    let sent = names_after(&env, &receiver, 1).await;
    assert_eq!(sent.last().unwrap(), "k0+k1+k2+k3+k4", "at once, in one request");
    assert_eq!((metrics.notified.get(), metrics.queued.get()), (5, 6));
}

#[tokio::test(start_paused = true)]
async fn rules_of_a_file_change_and_drop_alerts_and_alertmanagers_come_and_go() {
    let (env, receiver) = (Env::simulated(1, 0), Arc::new(Receiver::default()));
    let (notifier, metrics) = notifier(&env, &["http://option"], &receiver);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alerting.yml");
    let text = "alerting:\n  alert_relabel_configs:\n  - {action: labeldrop, regex: zone}\n  \
                - {source_labels: [alertname], regex: secret, action: drop}\n  alertmanagers:\n  \
                - static_configs: [{targets: ['dead:1', 'file:1']}]\n";
    std::fs::write(&path, text).unwrap();
    let stop = sandur_runtime::Shutdown::default();
    let urls = vec!["http://option".to_owned()];
    let file = AlertingFile::open(path.clone()).unwrap();
    let _task = env.spawn("follow", notifier.clone().follow(file, urls, stop.signal()));
    env.sleep(Duration::from_secs(1)).await;
    let tenant = TenantId::default_tenant();
    notifier.send(of(&tenant), promql("up"), vec![alert("a", false), alert("secret", false)]);
    env.sleep(Duration::from_secs(1)).await;
    let mut sent: Vec<String> = {
        let bodies = receiver.bodies.lock().unwrap();
        bodies.iter().map(|(url, body)| format!("{url} {}", body[0]["labels"])).collect()
    };
    sent.sort();
    sent.dedup();
    let labels = r#"{"alertname":"a","cluster":"own"}"#;
    let url = |host: &str| format!("http://{host}/api/v2/alerts {labels}");
    assert_eq!(sent, [url("dead:1"), url("file:1"), url("option")]);
    assert_eq!((metrics.queued.get(), notifier.targets().len()), (1, 3), "one waits for the dead one");

    std::fs::write(&path, text.replace("'dead:1', ", "")).unwrap();
    env.sleep(Duration::from_secs(20)).await;
    assert_eq!((metrics.lost("removed"), metrics.queued.get(), notifier.targets().len()), (1, 0, 2));
    std::fs::write(&path, "alerting: [").unwrap();
    env.sleep(Duration::from_secs(20)).await;
    assert_eq!((metrics.alerting_broken.get(), notifier.targets().len()), (1, 2));
}
