//! Goal: a webhook is told about groups of alerts whatever it answers.
//!
//! Method: the real binary, and webhooks in this test that fail first, that answer for ever, and that never
//! answer.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::rules::{read_request, silent, soon};
use crate::process::{Server, Setup};

/// The heads and bodies of requests.
pub(crate) type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A webhook: the function answers its requests by their number.
fn webhook(answer: fn(usize, &mut TcpStream)) -> (SocketAddr, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Requests::default());
    let kept = Arc::clone(&requests);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let (head, body) = read_request(&mut stream);
            if let Ok(body) = serde_json::from_slice(&body) {
                kept.lock().unwrap().push((head, body));
            }
            answer(number, &mut stream);
        }
    });
    (address, requests)
}

/// Fails its first two requests.
fn fails_first(number: usize, stream: &mut TcpStream) {
    let status = if number < 2 { "503 Service Unavailable" } else { "200 OK" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes());
}

/// A webhook that accepts everything.
pub(crate) fn accepting_webhook() -> (SocketAddr, Requests) {
    webhook(|_, stream| fails_first(2, stream))
}

/// Says that all is well, and does not end.
fn answers_for_ever(_: usize, stream: &mut TcpStream) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while stream.write_all(b"1000\r\n").and_then(|()| stream.write_all(&[b'x'; 4098])).is_ok() {}
}

const RULES: &str = "groups:\n- name: g\n  interval: 1s\n  rules:\n  \
                     - {alert: Burns, expr: vector(1), labels: {severity: page}, \
                     annotations: {summary: hot}}\n  \
                     - {alert: Smokes, expr: vector(1)}\n";

fn start(folder: &Path, arguments: &[&str]) -> Server {
    let store = format!("file://{}", folder.join("data").display());
    std::fs::write(folder.join("rules.yml"), RULES).unwrap();
    let rules = folder.join("rules.yml").display().to_string();
    let common = ["--rules", &rules, "--memory-limit", "192MiB"];
    Setup::new(store, folder).with(&[&common, arguments].concat()).start()
}

pub(crate) fn header(head: &str, name: &str) -> String {
    let line = head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
    line.unwrap_or_default().to_owned()
}

#[test]
fn webhooks_are_told_about_groups_whatever_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "hidden-word\n").unwrap();
    let (living, requests) = webhook(fails_first);
    let (endless, of_endless) = webhook(answers_for_ever);
    let (hanging, _held) = silent();
    let urls = format!("http://{hanging}/,http://{endless}/,http://{living}/secret-path");
    let token = token.to_str().unwrap();
    let arguments =
        ["--notify-webhook", &urls, "--notify-webhook-token-file", token, "--notify-group-wait", "1s"];
    let server = start(folder.path(), &arguments);
    // Two groups, and two attempts that failed.
    soon(&server, "the notifications", || (requests.lock().unwrap().len() >= 4).then_some(()));
    let got = requests.lock().unwrap().clone();
    let (head, body) = got.iter().find(|(_, body)| body["groupLabels"]["alertname"] == "Burns").unwrap();
    assert!(head.starts_with("post /secret-path "), "{head}");
    assert_eq!(header(head, "authorization"), "bearer hidden-word");
    assert_eq!(
        (&body["version"], &body["status"], &body["receiver"]),
        (&json!("4"), &json!("firing"), &json!("webhook"))
    );
    assert_eq!(body["commonLabels"], json!({"alertname": "Burns", "severity": "page"}));
    assert_eq!(body["commonAnnotations"], json!({"summary": "hot"}));
    assert_eq!(body["alerts"][0]["endsAt"], "0001-01-01T00:00:00Z");
    for name in ["Burns", "Smokes"] {
        let of_group = got.iter().filter(|(_, body)| body["groupLabels"]["alertname"] == name);
        let mut keys: Vec<String> = of_group.map(|(head, _)| header(head, "idempotency-key")).collect();
        keys.dedup();
        assert!(keys.len() == 1 && keys[0].len() > 30, "{name}: {keys:?}");
    }
    soon(&server, "the endless answer", || (of_endless.lock().unwrap().len() >= 2).then_some(()));
    let shown = server.get_json("/api/v1/alertmanagers")["data"]["receivers"].clone();
    let shown = shown.as_array().unwrap();
    assert_eq!(
        shown[2],
        json!({"kind": "webhook", "name": format!("http://{living}"), "alerts": 2, "lastError": null})
    );
    soon(&server, "the error of the one that hangs", || {
        let shown = server.get_json("/api/v1/alertmanagers")["data"]["receivers"][0].clone();
        shown["lastError"].as_str()?.contains("no answer within 10s").then_some(())
    });
    assert_eq!(of_endless.lock().unwrap().len(), 2, "an answer that never ends is an answer");
    let config = String::from_utf8(server.get("/config").1).unwrap();
    let log = server.log_text();
    assert!(!config.contains("secret-path") && !log.contains("secret-path") && !log.contains("hidden-word"));

    std::fs::write(folder.path().join("rules.yml"), "groups: []\n").unwrap();
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn options_of_notifications_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (["--notify-webhook", "hook"], "notify.webhook: 'hook' is not a URL"),
        (["--notify-group-interval", "0s"], "notify.group_interval: 0ns, and it is at least 1s"),
        (["--notify-webhook-token-file", "/none"], "notify.webhook_token_file: cannot read /none"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sandur"))
            .args(["serve", "--check-config", "--store"])
            .arg(folder.path())
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(expected), "{text}");
    }
}

#[test]
fn silences_are_set_by_the_command_line_and_apply_to_webhooks() {
    let folder = tempfile::tempdir().unwrap();
    let (address, requests) = webhook(fails_first);
    let url = format!("http://{address}/");
    let server = start(folder.path(), &["--notify-webhook", &url, "--notify-group-wait", "4s"]);
    let run = |arguments: &[&str]| {
        let address = format!("http://{}", server.address);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
        let output = command.arg("silences").args(arguments).args(["--addr", &address]).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let added = ["add", "alertname=~Burn.*", "severity=page", "--comment", "planned", "--author", "ops"];
    let (code, id, error) = run(&added);
    assert_eq!(code, Some(0), "{error}");
    let id = id.trim();
    let (_, listed, _) = run(&["list"]);
    assert!(listed.contains(id) && listed.contains("active"), "{listed}");
    assert!(
        listed.contains("alertname=~\"Burn.*\" severity=\"page\"") && listed.contains("ops: planned"),
        "{listed}"
    );
    let alerts = |query: &str| {
        let alerts = server.get_json(&format!("/alertmanager/api/v2/alerts{query}"));
        let name = |alert: &Value| {
            format!(
                "{} {}",
                alert["labels"]["alertname"],
                alert["status"]["silencedBy"].as_array().unwrap().len()
            )
        };
        let mut names: Vec<String> = alerts.as_array().unwrap().iter().map(name).collect();
        names.sort();
        names.join(", ")
    };
    soon(&server, "the alerts", || (alerts("") == "\"Burns\" 1, \"Smokes\" 0").then_some(()));
    assert_eq!(alerts("?silenced=false"), "\"Smokes\" 0");
    let groups = server.get_json("/alertmanager/api/v2/alerts/groups?active=false");
    assert_eq!(groups[0]["labels"], json!({"alertname": "Burns"}));
    assert_eq!(groups[0]["receiver"]["name"], "webhook");

    let told = || {
        requests
            .lock()
            .unwrap()
            .iter()
            .map(|(_, body)| body["groupLabels"]["alertname"].clone())
            .collect::<Vec<_>>()
    };
    soon(&server, "the other alert is told", || (told().len() >= 3).then_some(()));
    assert!(told().iter().all(|name| name == "Smokes"), "{:?}", told());
    let (code, _, error) = run(&["expire", id]);
    assert!(code == Some(0) && error.contains("is over"), "{error}");
    assert!(run(&["list"]).1.is_empty() && run(&["list", "--expired"]).1.contains(id));
    let (code, _, error) = run(&["expire", "none/such"]);
    assert!(code == Some(1) && error.contains("silence does not exist"), "{error}");
    let (code, _, error) = run(&["add", "alertname", "--comment", "x"]);
    assert!(code == Some(1) && error.contains("there is no operator"), "{error}");
    // It is stored: a server that starts anew knows it.
    let (_, id, _) = run(&added);
    assert_eq!(server.terminate(), Some(0));
    let server = start(folder.path(), &[]);
    soon(&server, "the silence", || {
        let silence = server.get_json(&format!("/alertmanager/api/v2/silence/{}", id.trim()));
        (silence["status"]["state"] == "active").then_some(())
    });
    assert_eq!(server.terminate(), Some(0));
}
