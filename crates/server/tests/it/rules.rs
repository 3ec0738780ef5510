//! Goal: rules of files are evaluated over stored data, survive a restart, and alerts reach an Alertmanager
//! whatever others do.
//!
//! Method: the real binary, a receiver in this test, a receiver that never answers, and one that is not
//! there.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Server, Setup, encode, now_ns, request, s3_store};

/// Far longer than an evaluation takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The alerts that a receiver got.
pub(crate) type Received = Arc<Mutex<Vec<Value>>>;

/// Reads a request; returns its head in lower case and its body.
pub(crate) fn read_request(stream: &mut TcpStream) -> (String, Vec<u8>) {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
        if let Some(head) = head {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let length = text.split("content-length:").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if bytes.len() >= head + length {
                return (text, bytes[head..head + length].to_vec());
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return Default::default(),
            Ok(n) => bytes.extend_from_slice(&piece[..n]),
        }
    }
}

/// A receiver that fails its first two requests.
pub(crate) fn receiver() -> (SocketAddr, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, received) = (listener.local_addr().unwrap(), Received::default());
    let kept = Arc::clone(&received);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let (head, body) = read_request(&mut stream);
            let tenant = head.lines().find_map(|line| line.strip_prefix("x-scope-orgid: "));
            let status = if number < 2 { "503 Service Unavailable" } else { "200 OK" };
            if number >= 2
                && let Ok(Value::Array(mut alerts)) = serde_json::from_slice(&body)
            {
                alerts.iter_mut().for_each(|alert| alert["tenant"] = json!(tenant));
                kept.lock().unwrap().extend(alerts);
            }
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (address, received)
}

/// A receiver that accepts connections and never answers.
pub(crate) fn silent() -> (SocketAddr, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    (listener.local_addr().unwrap(), listener)
}

pub(crate) fn soon<T>(server: &Server, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}\n{}", server.log_text());
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    }
}

fn value(server: &Server, query: &str) -> Option<String> {
    let answer = server.get_json(&format!("/api/v1/query?query={}", encode(query)));
    Some(answer["data"]["result"].get(0)?["value"][1].as_str()?.to_owned())
}

const RULES: &str = r#"
groups:
  - name: quick
    interval: 1s
    rules:
      - {record: two, expr: vector(2)}
      - {record: four, expr: two * 2, labels: {source: rules}}
      - {record: doubled, language: graphite, expr: "scale(seriesByTag('name=two'), 2)"}
      - record: errors:count1h
        language: logql
        expr: sum by (app) (count_over_time({app="api"} |= "error" [1h]))
      - alert: Errors
        expr: errors:count1h > 1
        labels: {severity: page, count: '{{ $value }}'}
        annotations:
          summary: '{{ $labels.app }}: {{ with query "four" }}{{ . | first | value | humanize }}{{ end }}'
      - {alert: Waiting, expr: vector(1), for: 1h}
      - {alert: Broken, expr: 'label_replace(vector(1), "a", "$1", "b", "(") > 0'}
"#;

fn start(folder: &Path, rules: &Path, urls: &str) -> Server {
    let store = format!("file://{}", folder.join("data").display());
    let rules = rules.to_str().unwrap();
    let arguments = [
        "--rules",
        rules,
        "--alertmanager-url",
        urls,
        "--ruler-external-labels",
        "cluster=test",
        "--memory-limit",
        "192MiB",
    ];
    Setup::new(store, folder).with(&arguments).start()
}

#[test]
fn rules_are_evaluated_stored_shown_and_sent() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.yml");
    std::fs::write(&rules, RULES).unwrap();
    let ((living, received), (hanging, _held)) = (receiver(), silent());
    // Port 9 refuses connections.
    let urls = format!("http://127.0.0.1:9,http://{hanging},http://user:hidden-word@{living}/prefix/");
    let server = start(folder.path(), &rules, &urls);
    let lines: Vec<(i64, String)> = (0..3).map(|n| (now_ns() - n, format!("error {n}"))).collect();
    assert_eq!(server.push(&json!({"app": "api"}), &lines).unwrap().0, 204);

    soon(&server, "four", || value(&server, "four{source=\"rules\"}").filter(|four| four == "4"));
    soon(&server, "doubled", || value(&server, "doubled").filter(|doubled| doubled == "4"));
    soon(&server, "errors", || value(&server, "errors:count1h").filter(|errors| errors == "3"));
    let alert = soon(&server, "the notification", || received.lock().unwrap().first().cloned());
    assert_eq!(
        alert["labels"],
        json!({"alertname": "Errors", "app": "api", "cluster": "test", "count": "3", "severity": "page"})
    );
    assert_eq!(alert["annotations"]["summary"], "api: 4");
    assert!(alert["generatorURL"].as_str().unwrap().contains("/graph?g0.expr=errors%3Acount1h+%3E+1"));
    soon(&server, "ALERTS", || value(&server, "ALERTS{alertstate=\"firing\", alertname=\"Errors\"}"));

    let shown = server.get_json("/api/v1/rules?type=alert&rule_group[]=quick");
    let of = |name: &str| {
        let all = shown["data"]["groups"][0]["rules"].as_array().unwrap();
        all.iter().find(|rule| rule["name"] == name).unwrap().clone()
    };
    assert_eq!((&of("Errors")["state"], &of("Errors")["health"]), (&json!("firing"), &json!("ok")));
    assert_eq!((&of("Waiting")["state"], &of("Waiting")["duration"]), (&json!("pending"), &json!(3600)));
    assert_eq!(of("Broken")["health"], "err");
    let alerts = server.get_json("/prometheus/api/v1/alerts");
    assert_eq!(alerts["data"]["alerts"].as_array().unwrap().len(), 2, "{alerts}");
    let targets = server.get_json("/api/v1/alertmanagers").to_string();
    assert!(targets.contains("/prefix/api/v2/alerts") && !targets.contains("hidden-word"), "{targets}");
    assert_eq!(server.get("/loki/api/v1/rules").0, 404, "rules of files are not stored rules");
    assert!(!String::from_utf8(server.get("/config").1).unwrap().contains("hidden-word"));
    let metrics = String::from_utf8(server.get("/metrics").1).unwrap();
    let failures = "sandur_rules_evaluation_failures_total{reason=\"query\"} ";
    let failed = metrics.lines().find_map(|line| line.strip_prefix(failures)).unwrap();
    assert_ne!(failed, "0", "{metrics}");
    assert!(metrics.contains("sandur_rules_notifications_lost_total{reason=\"queue_full\"} 0\n"));

    // A broken file keeps what held before, and says so.
    std::fs::write(&rules, RULES.replace("vector(2)", "vector(")).unwrap();
    let warning = soon(&server, "the warning", || {
        let shown = server.get_json("/api/v1/rules");
        Some(shown["warnings"].get(0)?.as_str()?.to_owned())
    });
    assert!(warning.contains("rules.yml: line 6: could not parse expression"), "{warning}");
    assert_eq!(value(&server, "four{source=\"rules\"}").as_deref(), Some("4"));
    let list = Command::new(env!("CARGO_BIN_EXE_sandur"))
        .args(["rules", "list", "--addr", &format!("http://{}", server.address)])
        .output()
        .unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(list.contains("firing    Errors") && list.contains("failed    Broken"), "{list}");

    // A restart goes on; a changed rule ends its series.
    std::fs::write(&rules, RULES.replace("record: four", "record: eight")).unwrap();
    server.kill();
    let server = start(folder.path(), &rules, &urls);
    soon(&server, "eight", || value(&server, "eight").filter(|eight| eight == "4"));
    std::fs::write(&rules, RULES).unwrap();
    soon(&server, "the end of eight", || value(&server, "eight").is_none().then_some(()));
    assert_eq!(server.terminate(), Some(0));
}

/// A group of Mimir's API: what it records shows whose data it reads.
const STORED: &str = r#"
name: quick
interval: 1s
rules:
- {record: own:marker, expr: 'sum by (of) (last_over_time(marker[1d]))'}
- alert: Marked
  expr: own:marker > 0
  annotations: {summary: '{{ with query "last_over_time(marker[1d])" }}{{ len . }}{{ end }} {{ $labels.of }}'}
"#;

#[test]
fn stored_rules_belong_to_their_tenant_and_survive_restarts_and_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (receiver, received) = receiver();
    let store = format!("file://{}", folder.path().join("data").display());
    let alerting = folder.path().join("prometheus.yml");
    let text = format!(
        "global: {{}}\nalerting:\n  alert_relabel_configs: [{{target_label: sent_by, replacement: file}}]\n  \
         alertmanagers: [{{static_configs: [{{targets: ['{receiver}']}}]}}]\n"
    );
    std::fs::write(&alerting, text).unwrap();
    let alerting = alerting.display().to_string();
    let arguments = ["--ruler-alerting-config-file", &alerting, "--memory-limit", "192MiB"];
    let server = Setup::new(store.clone(), folder.path()).with(&arguments).start();
    let of = |server: &Server, tenant: &str, method: &str, path: &str, body: &str| {
        let headers = [("x-scope-orgid", tenant)];
        let (status, body) = request(server.address, method, path, &headers, body.as_bytes()).unwrap();
        (status, String::from_utf8(body).unwrap())
    };
    for tenant in ["a", "b"] {
        let text = format!("marker{{of=\"{tenant}\"}} 1\n");
        assert_eq!(of(&server, tenant, "POST", "/api/v1/import/prometheus", &text).0 / 100, 2);
        let stored = of(&server, tenant, "POST", "/prometheus/config/v1/rules/team%2Fx", STORED);
        assert_eq!(stored.0, 202, "{}", stored.1);
    }
    let shown = |server: &Server, tenant: &str| -> Value {
        serde_json::from_str(&of(server, tenant, "GET", "/api/v1/rules", "").1).unwrap()
    };
    let firing = |server: &Server, tenant: &str| {
        let group = shown(server, tenant)["data"]["groups"][0].clone();
        assert!(group.is_null() || group["file"] == "team/x", "{group}");
        let alert = group["rules"][1]["alerts"][0].clone();
        (alert["state"] == "firing").then_some(alert)
    };
    for tenant in ["a", "b"] {
        let alert = soon(&server, "the alert", || firing(&server, tenant));
        assert_eq!(
            (&alert["labels"]["of"], &alert["annotations"]["summary"]),
            (&json!(tenant), &json!(format!("1 {tenant}")))
        );
        soon(&server, "the notification", || {
            received.lock().unwrap().iter().find(|alert| alert["tenant"] == tenant).cloned()
        });
    }
    let all = received.lock().unwrap().clone();
    assert!(all.iter().all(|alert| alert["labels"]["of"] == alert["tenant"]), "{all:?}");
    assert!(all.iter().all(|alert| alert["labels"]["sent_by"] == "file"), "{all:?}");

    server.kill();
    let server = Setup::new(store.clone(), folder.path()).with(&arguments).start();
    soon(&server, "the alert after a restart", || firing(&server, "a"));
    let wider = STORED.replace("own:marker > 0", "own:marker > 1");
    assert_eq!(of(&server, "a", "POST", "/config/v1/rules/team%2Fx", &wider).0, 202);
    soon(&server, "no alert", || firing(&server, "a").is_none().then_some(()));
    server.kill();

    // The newest object of tenant a is cut: the rules of before are used, and the answer says so.
    let newest = |tenant: &str| {
        let objects = std::fs::read_dir(folder.path().join("data/rules").join(tenant)).unwrap();
        objects.map(|entry| entry.unwrap().path()).max().unwrap()
    };
    let path = newest("a");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let server =
        Setup::new(store, folder.path()).with(&arguments).with(&["--ruler-poll-interval", "1s"]).start();
    soon(&server, "the alert of the rules of before", || firing(&server, "a"));
    let warning = shown(&server, "a")["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.contains("rules/a/") && warning.contains("bytes instead of"), "{warning}");
    assert!(shown(&server, "b")["warnings"].is_null(), "another tenant is not concerned");
    let refused = of(&server, "a", "DELETE", "/config/v1/rules/team%2Fx", "");
    assert!(refused.0 == 500 && refused.1.contains("?base=previous"), "{}", refused.1);
    let metrics = String::from_utf8(server.get("/metrics").1).unwrap();
    assert!(metrics.contains("sandur_rules_stored_broken 1"), "{metrics}");
    std::fs::write(&path, &whole).unwrap();
    soon(&server, "the restored rules", || firing(&server, "a").is_none().then_some(()));
    assert_eq!(of(&server, "a", "DELETE", "/config/v1/rules/team%2Fx", "").0, 202);
    soon(&server, "no rules", || shown(&server, "a")["data"]["groups"].as_array()?.is_empty().then_some(()));
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn two_processes_of_a_bucket_that_store_rules_at_once_lose_nothing() {
    let Some(store) = s3_store("stored-rules") else { return };
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let arguments = ["--ruler-poll-interval", "1s", "--memory-limit", "192MiB"];
    let servers = folders.each_ref().map(|folder| Setup::new(&store, folder.path()).with(&arguments).start());
    let group =
        |n: usize| format!("name: g{n}\ninterval: 1h\nrules: [{{record: r{n}, expr: vector({n})}}]\n");
    std::thread::scope(|scope| {
        for (number, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                for n in (number..20).step_by(2) {
                    let path = format!("/config/v1/rules/ns{}", n % 3);
                    let (status, body) =
                        request(server.address, "POST", &path, &[], group(n).as_bytes()).unwrap();
                    assert_eq!(status, 202, "{}", String::from_utf8_lossy(&body));
                }
            });
        }
    });
    for server in &servers {
        let (status, listed) = server.get("/config/v1/rules");
        let listed = String::from_utf8(listed).unwrap();
        assert_eq!((status, listed.matches("- name: ").count()), (200, 20), "{listed}");
        // What a process evaluates follows within the interval.
        soon(server, "all groups", || {
            let groups = server.get_json("/api/v1/rules")["data"]["groups"].as_array()?.len();
            (groups == 20).then_some(())
        });
    }
}

#[test]
fn files_are_checked_and_tested_by_commands() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("good.yml"), RULES).unwrap();
    std::fs::write(path("bad.yml"), RULES.replace("record: two", "recorded: two")).unwrap();
    let tests = "rule_files: [good.yml]\ntests:\n- promql_expr_test:\n  - expr: four\n    eval_time: 1m\n    \
                 exp_samples: [{labels: 'four{source=\"rules\"}', value: VALUE}]\n";
    let tests = tests.replace("good.yml", "only.yml");
    let only = RULES.replace("      - {alert: Broken", "      # {alert: Broken");
    std::fs::write(path("only.yml"), only).unwrap();
    std::fs::write(path("passes.yml"), tests.replace("VALUE", "4")).unwrap();
    std::fs::write(path("fails.yml"), tests.replace("VALUE", "5")).unwrap();
    let run = |command: &str, file: &str| {
        let file = path(file);
        let arguments = ["rules", command, file.to_str().unwrap()];
        let output = Command::new(env!("CARGO_BIN_EXE_sandur")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = run("check", "good.yml");
    assert!(code == Some(0) && text.ends_with("good.yml: valid, 7 rules in 1 group\n"), "{text}");
    let (code, text) = run("check", "bad.yml");
    assert!(
        code == Some(1) && text.contains("bad.yml:6: unknown key 'recorded'; did you mean 'record'?"),
        "{text}"
    );
    assert_eq!(run("test", "passes.yml").0, Some(0));
    let (code, text) = run("test", "fails.yml");
    assert!(code == Some(1) && text.contains("got:      {__name__=\"four\", source=\"rules\"} 4"), "{text}");
}
