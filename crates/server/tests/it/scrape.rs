//! Goal: scraped samples are under the limits of their tenant, and more series than one push may contain
//! are stored.
//!
//! Method: the real binary with little memory, and a target in this test.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::process::{Server, Setup, encode};

/// Far longer than a scrape takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Twice as many new series as fit into a push with at most 16 MiB of memory.
const SERIES: usize = 9_000;

/// Answers every request with this text; returns the address.
fn target(text: String) -> std::net::SocketAddr {
    answering(move |_| ("200 OK", text.clone()))
}

/// Answers requests by their heads with a status and a text; returns the address.
fn answering(answer: impl Fn(&str) -> (&'static str, String) + Send + 'static) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let (status, text) = answer(&String::from_utf8_lossy(&head[..length]));
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length:"
            );
            let _ = stream.write_all(format!("{head} {}\r\n\r\n{text}", text.len()).as_bytes());
        }
    });
    address
}

fn value(server: &Server, query: &str) -> Option<String> {
    let answer = server.get_json(&format!("/api/v1/query?query={}", encode(query)));
    Some(answer["data"]["result"].get(0)?["value"][1].as_str()?.to_owned())
}

fn expect_soon(server: &Server, query: &str, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    let mut found = value(server, query);
    while found.as_deref() != Some(expected) {
        assert!(Instant::now() < deadline, "{query}: {found:?}, not {expected}\n{}", server.log_text());
        std::thread::sleep(Duration::from_millis(50)); // polling another process
        found = value(server, query);
    }
}

#[test]
fn a_target_has_the_limits_of_its_tenant_but_any_number_of_series() {
    let many: String = (0..SERIES).map(|n| format!("many{{n=\"{n}\"}} 1\n")).collect();
    let labels: Vec<String> = (0..40).map(|n| format!("l{n}=\"v\"")).collect();
    let hostile = format!("wide{{{}}} 1\nlong{{l=\"{}\"}} 1\nfine 1\n", labels.join(","), "x".repeat(9_000));
    let addresses = [target(many), target(hostile)];
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("scrapes.yml");
    let jobs: String = ["many", "hostile"]
        .iter()
        .zip(addresses)
        .map(|(job, at)| format!("- job_name: {job}\n  static_configs: [{{targets: ['{at}']}}]\n"))
        .collect();
    let text = format!("global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}");
    std::fs::write(&config, text).unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let arguments = ["--scrape-config", config.to_str().unwrap(), "--memory-limit", "192MiB"];
    let server = Setup::new(store, folder.path()).with(&arguments).start();

    expect_soon(&server, "count(many)", &SERIES.to_string());
    expect_soon(&server, r#"up{job="hostile"}"#, "1");
    assert_eq!(value(&server, "fine").as_deref(), Some("1"));
    assert_eq!(value(&server, "count(wide or long)"), None);
    let metrics = String::from_utf8(server.get("/metrics").1).unwrap();
    for reason in ["max_label_names_per_series", "label_value_too_long"] {
        let line = metrics.lines().find(|line| line.contains("refused") && line.contains(reason));
        let count: f64 =
            line.unwrap_or_else(|| panic!("{reason}")).rsplit(' ').next().unwrap().parse().unwrap();
        assert!(count >= 1.0);
    }
}

#[test]
fn pods_of_a_cluster_are_scraped_and_a_cluster_that_fails_is_shown() {
    let pod = target("made 7\n".to_owned());
    let api = answering(move |head| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let is_granted = head.to_lowercase().contains("authorization: bearer secret\r\n");
        match path {
            _ if !is_granted => ("401 Unauthorized", String::new()),
            "/api/v1/namespaces/shop/pods?limit=100&labelSelector=app%3Dweb" => {
                let pod = serde_json::json!({
                    "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "ports": [{"containerPort": pod.port()}]}]},
                    "status": {"podIP": "127.0.0.1", "phase": "Running"},
                });
                ("200 OK", serde_json::json!({"kind": "PodList", "items": [pod]}).to_string())
            }
            _ => ("403 Forbidden", String::new()),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let (config, token) = (folder.path().join("scrapes.yml"), folder.path().join("token"));
    std::fs::write(&token, "secret\n").unwrap();
    let access = format!("api_server: 'http://{api}', bearer_token_file: '{}'", token.display());
    let text = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: pods
  kubernetes_sd_configs:
  - {{role: pod, {access}, namespaces: {{names: [shop]}}, selectors: [{{role: pod, label: app=web}}]}}
  relabel_configs:
  - {{source_labels: [__meta_kubernetes_pod_label_app], regex: web, action: keep}}
  - {{source_labels: [__meta_kubernetes_pod_name], target_label: pod}}
- job_name: nodes
  kubernetes_sd_configs: [{{role: node, {access}}}]
"
    );
    std::fs::write(&config, text).unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let arguments = ["--scrape-config", config.to_str().unwrap()];
    let server = Setup::new(store, folder.path()).with(&arguments).start();

    expect_soon(&server, r#"made{job="pods",pod="web-1"}"#, "7");
    let deadline = Instant::now() + PATIENCE;
    let discoveries = loop {
        let answer = server.get_json("/api/v1/targets?scrapePool=nodes");
        let discoveries = answer["data"]["discoveries"].clone();
        if discoveries[0]["failures"].as_u64() >= Some(1) {
            break discoveries;
        }
        assert!(Instant::now() < deadline, "{answer}\n{}", server.log_text());
        std::thread::sleep(Duration::from_millis(50)); // polling another process
    };
    let error = "GET /api/v1/nodes: server returned HTTP status 403 Forbidden";
    assert_eq!((&discoveries[0]["lastError"], discoveries.as_array().unwrap().len()), (&error.into(), 1));
    let metrics = String::from_utf8(server.get("/metrics").1).unwrap();
    let failures = r#"sandur_scrape_discovery_failures_total{kind="kubernetes"}"#;
    let line = metrics.lines().find(|line| line.starts_with(failures));
    assert!(line.is_some_and(|line| !line.ends_with(" 0")), "{metrics}");
}
