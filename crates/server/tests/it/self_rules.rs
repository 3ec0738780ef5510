//! Goal: with `self_rules` a server without any other configuration watches itself: its metrics are stored,
//! and its built-in alerts are evaluated.
//!
//! Method: the real binary under an address at which nobody answers, so that a request would fail.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use crate::process::{Server, Setup};

/// Waits until a path answers with an object for which `is_there` holds.
fn wait_for(server: &Server, path: &str, is_there: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    loop {
        let answer = server.get_json(path);
        if is_there(&answer) {
            return answer;
        }
        std::thread::sleep(std::time::Duration::from_millis(100)); // another process works
    }
}

#[test]
fn a_server_stores_its_metrics_and_evaluates_alerts_about_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let setup = Setup::new(store.to_str().unwrap(), folder.path());
    let options = [
        "--self-rules",
        "--scrape-interval=1s",
        "--ruler-evaluation-interval=1s",
        "--cluster-advertise-address=db.example:3100",
    ];
    let server = setup.with(&options).start();
    let answer = wait_for(&server, "/api/v1/targets", |answer| {
        answer["data"]["activeTargets"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["health"] == "up"))
    });
    let [target] = &answer["data"]["activeTargets"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!(target["labels"], serde_json::json!({"instance": "db.example:3100", "job": "sandur"}));
    let query = "/api/v1/query?query=sandur_engine_writable";
    let answer = wait_for(&server, query, |answer| answer["data"]["result"][0].is_object());
    assert_eq!(answer["data"]["result"][0]["metric"]["instance"], "db.example:3100");
    let answer = server.get_json("/api/v1/rules");
    let [group, recorded] = &answer["data"]["groups"].as_array().unwrap()[..] else { panic!("{answer}") };
    let rules = group["rules"].as_array().unwrap();
    assert!(group["file"] == "sandur.yml" && rules.len() > 15, "{answer}");
    assert!(rules.iter().any(|rule| rule["name"] == "SandurNotWritable"));
    for rule in recorded["rules"].as_array().unwrap() {
        let name = rule["name"].as_str().unwrap();
        // No point of carbon was received, nothing was read from a store by the cache, and nothing failed.
        let has_a_value = !["carbon", "cache", "errors"].iter().any(|part| name.contains(part));
        if has_a_value {
            wait_for(&server, &format!("/api/v1/query?query={name}"), |answer| {
                answer["data"]["result"][0].is_object()
            });
        }
    }
}

#[test]
fn jobs_of_options_and_files_have_different_names() {
    let folder = tempfile::tempdir().unwrap();
    let (store, file) = (folder.path().join("store"), folder.path().join("scrape.yml"));
    let setup = || Setup::new(store.to_str().unwrap(), folder.path());
    let config = format!("--scrape-config={}", file.display());
    for (job, option) in [("scrape", "--scrape=127.0.0.1:1"), ("sandur", "--self-rules")] {
        std::fs::write(&file, format!("scrape_configs:\n- job_name: {job}\n")).unwrap();
        let log = setup().with(&[&config, option]).try_start().err().unwrap();
        let named = option[2..].split('=').next().unwrap().replace('-', "_");
        let told = format!("the job_name '{job}' is the one of the option {named}");
        assert!(log.contains(&told), "{log}");
    }
}

#[test]
fn tenants_of_rules_and_scrapes_must_be_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let setup = Setup::new(store.to_str().unwrap(), folder.path());
    let log = setup.with(&["--self-rules", "--ruler-tenant", "ops"]).try_start().err().unwrap();
    assert!(log.contains("ruler.tenant and scrape_tenant are different"), "{log}");
}
