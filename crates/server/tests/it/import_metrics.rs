//! Goal: blocks of Prometheus and exports of VictoriaMetrics are imported completely and only once, even if
//! an import is interrupted; what cannot be read is reported, and a comparison finds differences.
//!
//! Method: the real binary against a real server, with the blocks of the tests of `sandur-tsdb`, in a folder
//! and in a bucket of the S3 server of the test run.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sandur_runtime::Env;
use sandur_store::{Intent, Store, StoreOptions};

use crate::process::{Random, Server, Setup, encode, now_ns, s3_store};
use crate::retention::until;

/// 2026-11-20 00:00 UTC, when the samples of the blocks begin.
const START_S: i64 = 1_795_132_800;
/// Samples of the block "floats" that are not stale markers, of "deleted" and of "histograms".
const FLOATS: u64 = 12 * 300 + 1 + 60;
const DELETED: u64 = 360;

fn blocks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tsdb/tests/fixtures/blocks")
}

/// A folder with a copy of some of the blocks.
fn copy(to: &Path, names: &[&str]) {
    for name in names {
        for file in ["meta.json", "index", "tombstones", "chunks/000001"] {
            let target = to.join(name).join(file);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(blocks().join(name).join(file), target).unwrap();
        }
    }
}

fn run(server: &Server, kind: &str, path: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(["import", kind, "--addr", &format!("http://{}", server.address)]);
    outcome_of(&command.arg(path).args(arguments).output().unwrap())
}

fn outcome_of(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).replace(',', ""))
}

fn stored(server: &Server, selector: &str) -> u64 {
    let query = encode(&format!("sum(count_over_time({selector}[30d]))"));
    let time = START_S + 10 * 86_400;
    let answer = server.get_json(&format!("/api/v1/query?query={query}&time={time}"));
    answer["data"]["result"][0]["value"][1].as_str().map_or(0, |text| text.parse().unwrap())
}

#[test]
fn blocks_are_stored_once_even_if_the_import_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (tree, state) = (folder.path().join("prometheus"), folder.path().join("state"));
    copy(&tree, &["floats", "histograms", "deleted"]);
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let (code, text) = run(&server, "prometheus", &tree, &["--dry-run"]);
    assert!(code == Some(0) && text.contains("sent nothing of 4993 samples"), "{text}");
    assert_eq!(stored(&server, r#"{__name__=~".+"}"#), 0);

    let resumed = ["--resume", state.to_str().unwrap()];
    let (code, text) = run(&server, "prometheus", &tree, &resumed);
    assert!(code == Some(0) && text.contains("stored 4993 samples"), "{text}");
    let floats = r#"{__name__=~"requests_total|one_sample|irregular"}"#;
    // One in seven of the samples of a series is a stale marker, which a count leaves out.
    let all = FLOATS + DELETED - 43;
    assert_eq!(stored(&server, floats), all);
    let histograms = stored(&server, r#"{__name__=~"latency_seconds|custom_seconds|mixed"}"#);
    assert_eq!(histograms, 6 * 150 + 40 + 30);
    let (code, text) = run(&server, "prometheus", &tree, &["--verify", "--seed", "7"]);
    assert!(code == Some(0) && text.contains(": 0 differ"), "{text}");

    let (lines, mut random) = (fs::read(&state).unwrap(), Random(19));
    for _ in 0..3 {
        fs::write(&state, &lines[..60 + random.below(lines.len() as u64 - 60) as usize]).unwrap();
        let (code, text) = run(&server, "prometheus", &tree, &resumed);
        assert!(code == Some(0), "{text}");
        assert_eq!(stored(&server, floats), all);
    }
    let (code, text) = run(&server, "prometheus", &tree, &resumed);
    assert!(code == Some(0) && text.contains("stored 0 samples") && text.contains("stored before"), "{text}");

    // Another import, with a label, of some of the time.
    let label = ["--label", "cluster=b", "--from", "2026-11-20T00:10:00Z", "--to", "2026-11-20T00:20:00Z"];
    let (code, text) = run(&server, "prometheus", &tree.join("floats"), &label);
    assert!(code == Some(0), "{text}");
    let query = r#"requests_total{cluster="b", instance="host-00:9100"}"#;
    assert_eq!(stored(&server, query), 40, "{text}");
    assert_eq!(server.terminate(), Some(0));
}

/// Copies some of the blocks to a bucket, below a prefix as that of a tenant.
fn upload(url: &str, names: &[&str]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(url, Env::system(1), StoreOptions::default()).await.unwrap();
        for name in names {
            for file in ["meta.json", "index", "tombstones", "chunks/000001"] {
                let bytes = fs::read(blocks().join(name).join(file)).unwrap();
                store.put(&format!("tenant/{name}/{file}"), bytes.into(), Intent::block()).await.unwrap();
            }
        }
        let mark = "tenant/deleted/deletion-mark.json";
        store.put(mark, "{}".into(), Intent::block()).await.unwrap();
    });
}

#[test]
fn blocks_in_a_bucket_are_stored_once_even_if_the_import_is_killed() {
    let Some(url) = s3_store("import-metrics") else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    upload(&url, &["floats", "histograms", "deleted"]);
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let (bucket, query) = url.split_once('?').unwrap();
    let tenant = format!("{bucket}/tenant?{query}");
    let (url, tenant) = (Path::new(&url), Path::new(&tenant));
    let resumed = ["--resume", state.to_str().unwrap()];

    let mut slow = Command::new(env!("CARGO_BIN_EXE_sandur"));
    slow.args(["import", "prometheus", "--addr", &format!("http://{}", server.address), "--rate", "300"]);
    let slow = slow.arg(url).args(resumed).stderr(Stdio::null()).spawn();
    let mut slow = slow.unwrap();
    // The first line is that of the file itself.
    let lines = || fs::read_to_string(&state).map_or(0, |text| text.lines().count());
    until("a part is stored", &server, || lines() >= 2);
    slow.kill().unwrap();
    slow.wait().unwrap();
    let (code, text) = run(&server, "prometheus", url, &resumed);
    assert!(code == Some(0) && text.contains("1 blocks were skipped"), "{text}");
    assert!(text.contains("tenant/deleted: is marked for deletion"), "{text}");
    let floats = r#"{__name__=~"requests_total|one_sample|irregular"}"#;
    assert_eq!(stored(&server, floats), FLOATS - 43, "{text}");
    let histograms = stored(&server, r#"{__name__=~"latency_seconds|custom_seconds|mixed"}"#);
    assert_eq!(histograms, 6 * 150 + 40 + 30);
    let (code, text) = run(&server, "prometheus", tenant, &["--verify", "--seed", "7"]);
    assert!(code == Some(0) && text.contains(": 0 differ"), "{text}");
    let (code, text) = run(&server, "prometheus", tenant, &resumed);
    assert!(code == Some(0) && text.contains("stored 0 samples"), "the prefix is no part of a name: {text}");

    let all = [&resumed[..], &["--marked-blocks"]].concat();
    let (code, text) = run(&server, "prometheus", tenant, &all);
    assert!(code == Some(0) && text.contains("stored 360 samples"), "{text}");
    assert_eq!(stored(&server, floats), FLOATS + DELETED - 43);
    let nowhere = format!("{bucket}/nowhere?{query}");
    let (code, text) = run(&server, "prometheus", Path::new(&nowhere), &[]);
    assert!(code == Some(1) && text.contains("no samples were found"), "{text}");
    let (code, text) = run(&server, "prometheus", Path::new("s3://bucket?regoin=x"), &[]);
    assert!(code == Some(2) && text.contains("unknown setting 'regoin'"), "{text}");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn damage_is_named_and_the_rest_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("prometheus");
    copy(&tree, &["floats", "deleted"]);
    let chunks = tree.join("floats/chunks/000001");
    let mut bytes = fs::read(&chunks).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&chunks, bytes).unwrap();
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let (code, text) = run(&server, "prometheus", &tree, &[]);
    assert!(code == Some(1) && text.contains("a chunk at byte") && text.contains("is damaged"), "{text}");
    assert!(text.contains("stored 360 samples"), "{text}");
    let (code, text) = run(&server, "prometheus", &tree.join("deleted"), &["--verify"]);
    assert!(code == Some(0), "{text}");
    let (code, text) = run(&server, "prometheus", &tree, &["--verify"]);
    assert!(code == Some(1) && text.contains("is damaged"), "{text}");
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let (code, text) = run(&server, "prometheus", &empty, &[]);
    assert!(code == Some(1) && text.contains("no samples were found"), "{text}");
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn exports_of_victoria_metrics_are_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let (export, state) = (folder.path().join("export.jsonl"), folder.path().join("state"));
    let now_ms = now_ns() / 1_000_000 - 3_600_000;
    let mut text = String::new();
    for series in 0..5 {
        let values: Vec<String> = (0..100).map(|n| format!("{}.5", n * series)).collect();
        let times: Vec<String> = (0..100).map(|n| (now_ms + n * 1_000).to_string()).collect();
        text.push_str(&format!(
            "{{\"metric\":{{\"__name__\":\"vm\",\"n\":\"{series}\"}},\"values\":[{}],\"timestamps\":[{}]}}\n",
            values.join(","),
            times.join(",")
        ));
    }
    text.push_str(&format!(
        "{{\"metric\":{{\"__name__\":\"odd\"}},\"values\":[null,\"Infinity\",\"-Infinity\",1e300],\
         \"timestamps\":[{},{},{},{}]}}\n",
        now_ms,
        now_ms + 1,
        now_ms + 2,
        now_ms + 3
    ));
    fs::write(&export, &text).unwrap();
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let resumed = ["--resume", state.to_str().unwrap()];
    for (run_of, expected) in ["stored 504 samples", "stored 0 samples"].iter().enumerate() {
        let (code, text) = run(&server, "victoria-metrics", &export, &resumed);
        assert!(code == Some(0) && text.contains(expected), "run {run_of}: {text}");
    }
    let count = |selector: &str| {
        let query = encode(&format!("sum(count_over_time({selector}[1d]))"));
        let answer = server.get_json(&format!("/api/v1/query?query={query}"));
        answer["data"]["result"][0]["value"][1].as_str().map_or(0, |text| text.parse().unwrap())
    };
    assert_eq!((count("vm"), count("odd")), (500, 4));
    let (code, output) = run(&server, "victoria-metrics", &export, &["--verify"]);
    assert!(code == Some(0) && output.contains(": 0 differ"), "{output}");

    text.push_str("{\"metric\":{\"__name__\":\"x\"},\"values\":[1],\"timestamps\":[1,2]}\nnot JSON\n");
    text.push_str(&format!(
        "{{\"metric\":{{\"__name__\":\"y\"}},\"values\":[1],\"timestamps\":[{now_ms}]}}\n"
    ));
    fs::write(&export, &text).unwrap();
    let (code, output) = run(&server, "victoria-metrics", &export, &[]);
    assert!(code == Some(1) && output.contains("line 7: has 1 values and 2 timestamps"), "{output}");
    assert!(output.contains("line 8:") && count("y") == 1, "the other lines are stored: {output}");
    assert_eq!(server.terminate(), Some(0));
}

/// The first of two requests of a part has a sample that the server refuses.
#[test]
fn the_rest_of_a_part_is_sent_after_a_refused_request() {
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("export.jsonl");
    let now_ms = now_ns() / 1_000_000 - 3_600_000;
    let line = |name: &str, value: &str, count: i64| {
        let values = vec!["1"; count as usize].join(",");
        let times: Vec<String> = (0..count).map(|n| (now_ms + n * 10).to_string()).collect();
        let labels = format!("{{\"__name__\":\"{name}\",\"label\":\"{value}\"}}");
        format!("{{\"metric\":{labels},\"values\":[{values}],\"timestamps\":[{}]}}\n", times.join(","))
    };
    fs::write(&export, line("refused", &"x".repeat(3_000), 1) + &line("good", "a", 60_000)).unwrap();
    let server = Setup::new(folder.path().join("store").to_str().unwrap(), folder.path()).start();
    let (code, text) = run(&server, "victoria-metrics", &export, &[]);
    assert!(code == Some(1) && text.contains("the server refused some of its samples"), "{text}");
    let answer = server.get_json("/api/v1/query?query=count_over_time(good%5B1d%5D)");
    assert_eq!(answer["data"]["result"][0]["value"][1], "60000", "{text}");
    assert_eq!(server.terminate(), Some(0));
}
