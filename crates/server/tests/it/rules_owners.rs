//! Goal: of two servers with the same rules each group is evaluated by one, and by the other one after a
//! kill, without a gap in recorded series and with the same start of alerts. With a secret each of them shows
//! the states of all groups, and says which ones it does not know.
//!
//! Method: the real binary twice on a bucket, and a receiver in this test.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::notifications::{Requests, accepting_webhook, header};
use super::rules::{Received, receiver, soon};
use crate::process::{Server, Setup, encode, request, s3_store};

const GROUPS: usize = 8;
const INTERVAL_MS: i64 = 5_000;

fn rules() -> String {
    let group = |n: usize| {
        format!(
            "- name: g{n}\n  interval: 5s\n  rules:\n  - {{record: 'r{n}', expr: 'vector({n})'}}\n  \
             - {{alert: X{n}, expr: 'r{n} >= 0', for: 10s}}\n"
        )
    };
    format!("groups:\n{}", (0..GROUPS).map(group).collect::<String>())
}

fn start(store: &str, folder: &Path, name: &str, more: &[&str]) -> Server {
    let own = folder.join(name);
    std::fs::create_dir_all(&own).unwrap();
    let rules = folder.join("rules.yml").display().to_string();
    let arguments = [
        "--rules",
        &rules,
        "--cluster-node-id",
        name,
        "--cluster-heartbeat-interval",
        "2s",
        "--cluster-dead-after",
        "10s",
    ];
    Setup::new(store, &own).with(&arguments).with(more).start()
}

/// The groups by name.
fn groups(server: &Server) -> BTreeMap<String, Value> {
    let shown = server.get_json("/api/v1/rules");
    let groups = shown["data"]["groups"].as_array().unwrap().clone();
    groups.into_iter().map(|group| (group["name"].as_str().unwrap().to_owned(), group)).collect()
}

fn evaluators(server: &Server) -> Vec<String> {
    let evaluator = |group: &Value| group["evaluator"].as_str().unwrap_or("none").to_owned();
    groups(server).values().map(evaluator).collect()
}

/// Whether each of two servers evaluates some groups.
fn is_divided(server: &Server) -> bool {
    let evaluators = evaluators(server);
    let has = |name: &str| evaluators.iter().any(|evaluator| evaluator == name);
    has("one") && has("two") && !has("none")
}

fn warnings(server: &Server, path: &str) -> Vec<String> {
    let answer = server.get_json(path);
    let warnings = answer["warnings"].as_array().cloned().unwrap_or_default();
    warnings.into_iter().map(|warning| warning.as_str().unwrap().to_owned()).collect()
}

/// The times of the samples of a series, in milliseconds.
fn times(server: &Server, series: &str) -> Vec<i64> {
    let answer = server.get_json(&format!("/api/v1/query?query={}", encode(&format!("{series}[10m]"))));
    let Some(values) = answer["data"]["result"][0]["values"].as_array() else { return Vec::new() };
    values.iter().map(|pair| (pair[0].as_f64().unwrap() * 1_000.0).round() as i64).collect()
}

/// The starts of an alert, as they were sent.
fn starts(received: &Received, alert: &str) -> Vec<String> {
    let received = received.lock().unwrap();
    let of = received.iter().filter(|sent| sent["labels"]["alertname"] == alert);
    let mut starts: Vec<String> = of.map(|sent| sent["startsAt"].as_str().unwrap().to_owned()).collect();
    starts.dedup();
    starts
}

#[test]
fn the_other_server_takes_groups_over_without_a_gap() {
    let Some(store) = s3_store("rules-owners") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), rules()).unwrap();
    let (address, received) = receiver();
    let (hook, told) = accepting_webhook();
    let (alertmanager, webhook) = (format!("http://{address}"), format!("http://{hook}"));
    let receivers = ["--alertmanager-url", &alertmanager, "--notify-webhook", &webhook];
    let receivers = [&receivers[..], &["--notify-group-wait", "1s"]].concat();
    let one = start(&store, folder.path(), "one", &receivers);
    let two = start(&store, folder.path(), "two", &receivers);
    soon(&one, "the groups are divided", || (is_divided(&one) && is_divided(&two)).then_some(()));
    let of_one: Vec<usize> = (0..GROUPS).filter(|n| evaluators(&one)[*n] == "one").collect();
    soon(&one, "all alerts were sent", || {
        (0..GROUPS).all(|n| !starts(&received, &format!("X{n}")).is_empty()).then_some(())
    });
    // Without a secret a process knows the states of its own groups only, and says so.
    assert_eq!(warnings(&two, "/api/v1/rules").len(), 1);
    assert!(
        warnings(&two, "/api/v1/alerts")[0].contains("node one are not known: this process has no secret")
    );
    for (n, evaluator) in evaluators(&two).iter().enumerate() {
        let alerts = groups(&two)[&format!("g{n}")]["rules"][1]["alerts"].as_array().unwrap().len();
        assert_eq!(alerts, usize::from(evaluator == "two"), "g{n}");
    }

    // An owner waits for `group_wait` before it tells a webhook.
    soon(&one, "groups are told", || of_one.iter().all(|n| !keys(&told, n).is_empty()).then_some(()));
    one.kill();
    let killed = Instant::now();
    soon(&two, "all groups are taken over", || {
        evaluators(&two).iter().all(|evaluator| evaluator == "two").then_some(())
    });
    println!("taken over after {:?}", killed.elapsed());
    soon(&two, "alerts are sent again", || {
        let shown = groups(&two);
        let is_firing = |n: &usize| shown[&format!("g{n}")]["rules"][1]["state"] == "firing";
        of_one.iter().all(is_firing).then_some(())
    });
    std::thread::sleep(Duration::from_millis(2 * INTERVAL_MS as u64)); // two evaluations of another process
    let shown = groups(&two);
    for n in 0..GROUPS {
        let times = times(&two, &format!("r{n}"));
        let gaps: i64 = times.windows(2).map(|pair| (pair[1] - pair[0]) / INTERVAL_MS - 1).sum();
        let missed = shown[&format!("g{n}")]["missedEvaluations"].as_i64().unwrap();
        assert!(gaps <= missed, "{gaps} gaps in r{n}, {missed} missed: {times:?}\n{}", two.log_text());
        assert!(times.windows(2).all(|pair| (pair[1] - pair[0]) % INTERVAL_MS == 0), "{times:?}");
        let starts = starts(&received, &format!("X{n}"));
        assert_eq!(starts.len(), 1, "X{n}: {starts:?}\n{}", two.log_text());
    }
    soon(&two, "groups are told again", || of_one.iter().all(|n| keys(&told, n).len() >= 2).then_some(()));
    for n in 0..GROUPS {
        let keys = keys(&told, &n);
        // The first owner, the one after the groups were divided, and the one after the kill.
        assert!(keys.len() <= 3 && keys.iter().all(|key| *key == keys[0]), "X{n}: {keys:?}");
    }
    assert_eq!(two.terminate(), Some(0));
}

/// The keys of the notifications of a webhook about an alert.
fn keys(told: &Requests, n: &usize) -> Vec<String> {
    let told = told.lock().unwrap();
    let of = told.iter().filter(|(_, body)| body["groupLabels"]["alertname"] == format!("X{n}"));
    of.map(|(head, _)| header(head, "idempotency-key")).collect()
}

/// The names of the alerts that a server shows in each of its answers about alerts.
fn shown_alerts(server: &Server) -> [Vec<String>; 3] {
    let name = |alert: &Value| alert["labels"]["alertname"].as_str().unwrap().to_owned();
    let names = |alerts: &Value| {
        let mut names: Vec<String> = alerts.as_array().unwrap().iter().map(name).collect();
        names.sort();
        names
    };
    let of_groups = groups(server).into_values().map(|group| group["rules"][1]["alerts"].clone());
    let of_groups = of_groups.flat_map(|alerts| alerts.as_array().unwrap().clone()).collect();
    let firing = server.get_json("/alertmanager/api/v2/alerts");
    [names(&server.get_json("/api/v1/alerts")["data"]["alerts"]), names(&firing), names(&of_groups)]
}

/// The states of all rules that do not change from one evaluation to the next.
fn rule_states(server: &Server) -> Vec<Value> {
    let of_rule =
        |rule: &Value| serde_json::json!([rule["health"], rule["state"], rule["alerts"][0]["activeAt"]]);
    let of_group = |group: Value| group["rules"].as_array().unwrap().iter().map(of_rule).collect::<Vec<_>>();
    groups(server).into_values().flat_map(of_group).collect()
}

#[test]
fn each_server_shows_the_states_of_all_groups_and_says_which_it_does_not_know() {
    let Some(store) = s3_store("rules-states") else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.yml"), rules()).unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s".repeat(32)).unwrap();
    let secret = ["--cluster-secret-file", secret.to_str().unwrap()];
    let one = start(&store, folder.path(), "one", &secret);
    let two = start(&store, folder.path(), "two", &secret);
    let all: Vec<String> = (0..GROUPS).map(|n| format!("X{n}")).collect();
    let is_complete = |server: &Server| {
        let has_all = shown_alerts(server).iter().all(|names| *names == all);
        has_all
            && warnings(server, "/api/v1/rules").is_empty()
            && warnings(server, "/api/v1/alerts").is_empty()
    };
    soon(&one, "the groups are divided", || (is_divided(&one) && is_divided(&two)).then_some(()));
    for server in [&one, &two] {
        soon(server, "each shows all alerts", || is_complete(server).then_some(()));
    }
    soon(&one, "both show the same", || (rule_states(&one) == rule_states(&two)).then_some(()));
    // Groups are asked for one by one, too, and a tenant without rules sees none of another one's.
    for n in 0..GROUPS {
        let group = &one.get_json(&format!("/api/v1/rules?rule_group[]=g{n}"))["data"]["groups"][0];
        assert_eq!(group["rules"][1]["state"], "firing", "{group}");
        let path = format!("/api/v1/rules?rule_group[]=g{n}&exclude_alerts=true");
        let answer = one.get_json(&path);
        assert_eq!(answer["data"]["groups"][0]["rules"][1]["state"], "firing", "{answer}");
        assert!(answer["warnings"].is_null(), "{answer}");
    }
    let tenant = [("x-scope-orgid", "other")];
    let (status, body) = request(one.address, "GET", "/api/v1/alerts", &tenant, b"").unwrap();
    assert_eq!((status, String::from_utf8_lossy(&body).contains("alertname")), (200, false));

    // A process that hangs delays the answer for a moment, and is named.
    one.signal("STOP");
    // The signal is delivered a moment after it was sent, and the process may answer until then.
    let late = soon(&two, "a process that hangs is named", || {
        let began = Instant::now();
        let late = warnings(&two, "/api/v1/alerts");
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        (!late.is_empty()).then_some(late)
    });
    assert!(late.len() == 1 && late[0].contains("node one are not known"), "{late:?}");
    one.signal("CONT");
    soon(&two, "it answers again", || is_complete(&two).then_some(()));

    one.kill();
    let mut warned = 0;
    soon(&two, "all groups are taken over", || {
        let (warnings, answer) = (warnings(&two, "/api/v1/alerts"), shown_alerts(&two));
        if warnings.iter().any(|warning| warning.contains("the node one are not known")) {
            warned += 1;
            // The alerts of own groups are still shown.
            assert!(!answer[0].is_empty());
        }
        (warnings.is_empty() && is_complete(&two)).then_some(())
    });
    assert!(warned > 0, "nothing was said while nobody evaluated the groups");
    // The name of the evaluator follows a moment after the take-over.
    soon(&two, "its groups", || evaluators(&two).iter().all(|evaluator| evaluator == "two").then_some(()));
    assert_eq!(two.terminate(), Some(0));
}
