//! Statistics of answers, one log line per query, and the server's own log in its own store, queried with
//! published queries for tuning Loki.
//!
//! Method: the real binary. Results of queries over the log are compared with the raw lines.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::collections::BTreeMap;

use crate::process::{Server, Setup, encode, now_ns, request};
use serde_json::{Value, json};

const MINUTE: i64 = 60_000_000_000;
/// Requests of the test have this user agent, to distinguish them from its queries of the log.
const AGENT: &str = "explain-test";

/// Pushes rows of one stream: seconds after `start`, line, structured metadata.
fn push(server: &Server, labels: &Value, start: i64, rows: &[(i64, &str, Value)]) {
    let value = |(after, line, metadata): &(i64, &str, Value)| {
        json!([(start + after * 1_000_000_000).to_string(), line, metadata])
    };
    let values: Vec<Value> = rows.iter().map(value).collect();
    let body = json!({"streams": [{"stream": labels, "values": values}]}).to_string();
    let headers = [("Content-Type", "application/json")];
    let (status, text) =
        request(server.address, "POST", "/loki/api/v1/push", &headers, body.as_bytes()).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&text));
}

fn flush(server: &Server) {
    let (status, _) = request(server.address, "POST", "/flush", &[], b"").unwrap();
    assert_eq!(status, 204);
}

/// A GET with the user agent of the test.
fn ask(server: &Server, path: &str) -> u16 {
    let headers = [
        ("User-Agent", AGENT),
        ("X-Query-Tags", "Source=grafana,Feature=beta"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ];
    request(server.address, "GET", path, &headers, b"").unwrap().0
}

/// The series of a metric answer: labels as text, values as text.
fn series(answer: &Value) -> BTreeMap<String, Vec<(String, String)>> {
    let point = |p: &Value| (p[0].to_string(), p[1].as_str().unwrap().to_owned());
    let one = |s: &Value| {
        let values = match s["values"].as_array() {
            Some(values) => values.iter().map(point).collect(),
            None => vec![point(&s["value"])],
        };
        (s["metric"].to_string(), values)
    };
    answer["data"]["result"].as_array().unwrap().iter().map(one).collect()
}

fn range(server: &Server, query: &str, (start, end): (i64, i64)) -> Value {
    let path = format!("/loki/api/v1/query_range?query={}&start={start}&end={end}&step=60", encode(query));
    server.get_json(&path)
}

/// Goal: Grafana's log volume is computed from footers, with the same result as from rows.
#[test]
fn volume_by_level_reads_no_page_where_metadata_permits() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(folder.path().join("store").display().to_string(), folder.path());
    let server = setup.with(&["--compaction-block-max", "0"]).start();
    let start = (now_ns() / MINUTE - 40) * MINUTE;
    let none = || json!({});
    let web = ["level=error e", "level=info e", "nothing detected e", "level=error e"];
    let rows: Vec<_> = (0..200).map(|n| (n * 7, web[n as usize % 4], none())).collect();
    push(&server, &json!({"app": "web"}), start, &rows);
    let rows: Vec<_> = (0..100).map(|n| (n * 5, "a line e", none())).collect();
    push(&server, &json!({"app": "api", "level": "warn"}), start, &rows);
    let rows: Vec<_> = (0..100).map(|n| (n * 5, "a line e", json!({"trace_id": format!("t{n}")}))).collect();
    push(&server, &json!({"app": "otel"}), start, &rows);
    let levels = [json!({"level": "debug"}), none()];
    let rows: Vec<_> = (0..100).map(|n| (n * 5, "a line e", levels[n as usize % 2].clone())).collect();
    push(&server, &json!({"app": "meta"}), start, &rows);
    flush(&server);

    let bounds = (start, start + 30 * MINUTE);
    let both = |selector: &str, by: &str, stages: &str| {
        let counted =
            range(&server, &format!("sum by ({by}) (count_over_time({selector}{stages}[1m]))"), bounds);
        let read = range(
            &server,
            &format!("sum by ({by}) (count_over_time({selector} |= `e`{stages}[1m]))"),
            bounds,
        );
        assert_eq!(series(&counted), series(&read), "{selector} by {by}");
        assert!(!series(&counted).is_empty(), "{selector} by {by}");
        let pages =
            |answer: &Value| answer["data"]["stats"]["querier"]["store"]["totalChunksDownloaded"].clone();
        assert!(pages(&read).as_u64().unwrap() > 0, "the filter reads pages");
        let heads = counted["data"]["stats"]["ingester"]["totalLinesSent"].clone();
        assert_eq!(heads, 0, "all rows were flushed");
        pages(&counted).as_u64().unwrap()
    };
    let known = r#"{app=~"web|api|otel"}"#;
    for by in ["level", "level, detected_level", "detected_level", "app", "app, level, missing"] {
        assert_eq!(both(known, by, ""), 0, "{by}");
    }
    assert_eq!(both(known, "level, detected_level", " | drop __error__"), 0);
    let meta = r#"{app=~".+"}"#;
    assert_eq!(both(meta, "app", ""), 0, "a label of every stream");
    let pages = both(meta, "level, detected_level", "");
    assert!(pages > 0, "rows of one stream have different levels");
    assert_eq!(both(r#"{app="otel"}"#, "trace_id", "").min(1), 1, "a key of rows");
}

/// The pairs of a logfmt line.
fn pairs(line: &str) -> BTreeMap<String, String> {
    let (mut pairs, mut rest) = (BTreeMap::new(), line);
    while let Some((key, after)) = rest.trim_start().split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            None => after.split_once(' ').unwrap_or((after, "")),
            Some(quoted) => {
                let bytes = quoted.as_bytes();
                let escaped =
                    |at: usize| bytes[..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1;
                let end = (0..bytes.len()).find(|&n| bytes[n] == b'"' && !escaped(n)).unwrap();
                (&quoted[..end], &quoted[end + 1..])
            }
        };
        pairs.insert(key.to_owned(), value.replace("\\\"", "\"").replace("\\\\", "\\"));
        rest = left;
    }
    pairs
}

/// Seconds of a Go duration.
fn seconds(text: &str) -> f64 {
    let units = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("h", 3_600.0), ("m", 60.0), ("s", 1.0)];
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap();
        let number: f64 = rest[..digits].parse().unwrap();
        rest = &rest[digits..];
        let (unit, factor) = units.iter().find(|(unit, _)| rest.starts_with(unit)).unwrap();
        sum += number * factor;
        rest = &rest[unit.len()..];
    }
    sum
}

/// As LogQL computes it: between the two nearest values.
fn quantile(mut values: Vec<f64>, q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = q * (values.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    values[low] + (values[high] - values[low]) * (rank - rank.floor())
}

const OWN: &str = r#"{service_name="sandur"} |= "metrics.go" | logfmt | user_agent="explain-test""#;

/// Raw lines of the test's requests, once all of them are stored.
fn own_lines(server: &Server, from: i64, expected: usize) -> Vec<String> {
    for _ in 0..2_000 {
        let answer = server.query_range(OWN, from, now_ns() + MINUTE, 1_000);
        let streams = answer["data"]["result"].as_array().unwrap().iter();
        let values = streams.flat_map(|s| s["values"].as_array().unwrap());
        let text = |v: &Value| v.as_str().unwrap().to_owned();
        // Parsed labels make every line a separate stream: they are sorted by time.
        let mut lines: Vec<(String, String)> = values.map(|v| (text(&v[0]), text(&v[1]))).collect();
        if lines.len() >= expected {
            lines.sort();
            return lines.into_iter().map(|(_, line)| line).collect();
        }
        std::thread::sleep(std::time::Duration::from_millis(20)); // polling another process
    }
    panic!("lines of the own log did not arrive:\n{}", server.log_text());
}

/// The phases of slow queries in percent, as published for tuning Loki.
const PHASES: &str = r#"{component="querier", service_name="sandur"} |= "metrics.go" | logfmt
  | latency="slow" | query_type="metric" or query_type="filter" or query_type="limited"
  | user_agent="explain-test" | status="200"
  | label_format duration_s=`{{.duration | duration}}`, queue_time_s=`{{.queue_time | duration}}`,
      chunk_refs_s=`{{.chunk_refs_fetch_time | duration}}`,
      chunk_total_s=`{{.store_chunks_download_time | duration}}`,
      cache_download_chunk_s=`{{.cache_chunk_download_time | duration}}`
  | label_format total_time_s=`{{addf .queue_time_s .duration_s}}`
  | label_format queue_pct=`{{mulf (divf .queue_time_s .total_time_s) 100 }}`,
      index_pct=`{{mulf (divf (.chunk_refs_fetch_time | duration) .total_time_s) 100 }}`,
      chunks_pct=`{{mulf (divf .chunk_total_s .total_time_s) 100}}`,
      execution_pct=`{{mulf (divf (subf .duration_s .chunk_refs_s .chunk_total_s) .total_time_s) 100}}`,
      cache_download_pct=`{{mulf (divf .cache_download_chunk_s .chunk_total_s) 100}}`,
      avg_chunk_size=`{{divf (divf (bytes .total_bytes) .cache_chunk_req 1000)}}`"#;

/// [`PHASES`] with whole percents after the hash of the query.
fn phases_query() -> String {
    let percent = |key| format!(r#"{{{{printf "%3.0f" (.{key}_pct | float64)}}}}"#);
    let percents = ["queue", "index", "chunks", "execution", "cache_download"].map(percent).join(" ");
    format!("{PHASES}\n  | line_format `{{{{.query_hash}}}} {percents}`")
}

/// Goal: published queries over Loki's log work with ours, and their results agree with the lines.
#[test]
fn the_log_of_queries_can_be_queried() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(folder.path().join("store").display().to_string(), folder.path());
    let setup = setup.with(&["--compaction-block-max", "0", "--log-format", "logfmt"]);
    let server = setup.clone().with(&["--self-logs", "--query-slow-threshold", "0s"]).start();
    let began = now_ns();
    let start = (began / MINUTE - 20) * MINUTE;
    let rows: Vec<_> = (0..500).map(|n| (n, "level=info msg=\"a request was served\"", json!({}))).collect();
    push(&server, &json!({"app": "api"}), start, &rows);
    flush(&server);

    let over = format!("&start={start}&end={}", start + 10 * MINUTE);
    let query = |text: &str| format!("/loki/api/v1/query_range?query={}{over}&step=60", encode(text));
    let selector = encode(r#"{app="api"}"#);
    let asked = [
        ("filter", query(r#"{app="api"} |= "served""#), 200),
        ("filter", query(r#"{app="api"} | logfmt | msg!="x""#), 200),
        ("limited", query(r#"{app="api"}"#), 200),
        ("metric", query(r#"sum(count_over_time({app="api"} |= "served" [1m]))"#), 200),
        ("", query(r#"{app="#), 400),
        ("labels", format!("/loki/api/v1/labels?{over}"), 200),
        ("labels", format!("/loki/api/v1/label/app/values?{over}"), 200),
        ("series", format!("/loki/api/v1/series?match[]={selector}{over}"), 200),
        ("stats", format!("/loki/api/v1/index/stats?query={selector}{over}"), 200),
        ("volume", format!("/loki/api/v1/index/volume?query={selector}{over}"), 200),
    ];
    for (_, path, status) in &asked {
        assert_eq!(ask(&server, path), *status, "{path}");
    }
    let lines: Vec<_> = own_lines(&server, began, asked.len()).iter().map(|l| pairs(l)).collect();
    assert_eq!(lines.len(), asked.len(), "one line per request");
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for ((kind, path, status), line) in asked.iter().zip(&lines) {
        assert_eq!(
            (line["query_type"].as_str(), line["status"].clone()),
            (*kind, status.to_string()),
            "{path}"
        );
        assert_eq!((line["caller"].as_str(), line["org_id"].as_str()), ("metrics.go", "fake"));
        assert_eq!((line["source"].as_str(), line["feature"].as_str()), ("grafana", "beta"));
        assert_eq!(line["traceID"], "4bf92f3577b34da6a3ce929d0e0e4736");
        *kinds.entry(kind).or_default() += 1;
    }
    assert_eq!(lines[0]["returned_lines"], "100");
    assert_eq!(lines[0]["length"], "10m0s");
    assert_eq!(lines[3]["post_filter_lines"], "500");
    assert!(lines[3]["total_lines"] == "500" && seconds(&lines[3]["duration"]) > 0.0);

    let now = now_ns();
    let instant = |text: &str| {
        series(&server.get_json(&format!("/loki/api/v1/query?query={}&time={now}", encode(text))))
    };
    let counts = instant(&format!("sum by (query_type) (count_over_time({OWN} [1h]))"));
    let expected: BTreeMap<String, String> = kinds
        .iter()
        .map(|(kind, n)| {
            let labels = if kind.is_empty() { json!({}) } else { json!({"query_type": kind}) };
            (labels.to_string(), n.to_string())
        })
        .collect();
    let found: BTreeMap<String, String> = counts.into_iter().map(|(k, v)| (k, v[0].1.clone())).collect();
    assert_eq!(found, expected);

    let p99 =
        format!("quantile_over_time(0.99, {OWN} | unwrap duration_seconds(duration) [1h]) by (query_type)");
    for (labels, value) in instant(&p99) {
        let kind = serde_json::from_str::<Value>(&labels).unwrap();
        let kind = kind["query_type"].as_str().unwrap_or("").to_owned();
        let durations = lines.iter().filter(|l| l["query_type"] == kind).map(|l| seconds(&l["duration"]));
        let (found, expected) = (value[0].1.parse::<f64>().unwrap(), quantile(durations.collect(), 0.99));
        assert!((found - expected).abs() <= expected * 1e-6, "{kind}: {found} is not {expected}");
    }
    let slow = server.lines(&format!("{OWN} | duration > 1ns | query_type=`metric`"), began, now, 100);
    assert_eq!(slow.len(), 1);

    let phases = server.lines(&phases_query(), began, now, 100);
    assert_eq!(phases.len(), 4, "{phases:?}");
    for phase in &phases {
        let words: Vec<&str> = phase.split_whitespace().collect();
        let line = lines.iter().find(|l| l["query_hash"] == words[0]).unwrap();
        let time = |key: &str| seconds(&line[key]);
        let total = time("queue_time") + time("duration");
        let (index, chunks) = (time("chunk_refs_fetch_time"), time("store_chunks_download_time"));
        let parts = [time("queue_time"), index, chunks, time("duration") - index - chunks];
        for (found, part) in words[1..].iter().zip(parts) {
            let difference = (found.parse::<f64>().unwrap() - part / total * 100.0).abs();
            assert!(difference < 0.51, "{phase}: {line:?}");
        }
        assert_eq!(words.len(), 6, "{phase}");
    }
    stored_to_the_end(server, &setup, began);
}

/// Lines logged until the stop are found after the next start, once, and storing them logged nothing.
fn stored_to_the_end(server: Server, setup: &Setup, began: i64) {
    assert_eq!(server.terminate(), Some(0));
    let log = std::fs::read_to_string(&setup.log).unwrap();
    let again = setup.start();
    let stored = again.lines(r#"{service_name="sandur"}"#, began - MINUTE, now_ns(), 5_000);
    assert_eq!(stored.iter().filter(|l| l.contains("stopping:")).count(), 1, "{stored:#?}");
    let mut unique = stored.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), stored.len(), "a line is stored once");
    let mut on_stderr = 0;
    for line in &stored {
        // The clock is read separately for stderr and the store.
        let text = &line[line.find(" level=").unwrap()..];
        // Stderr has a selection of the lines of queries.
        on_stderr += usize::from(log.contains(text));
        assert!(log.contains(text) || line.contains("caller=metrics.go"), "stderr lacks {line}");
    }
    assert!(on_stderr > 20, "{on_stderr} of {} stored lines are on stderr", stored.len());
    let others: Vec<_> = stored.iter().filter(|l| !l.contains("caller=metrics.go")).collect();
    assert!(others.len() < 20, "storing lines must not create lines: {others:#?}");
    let labels =
        again.get_json(&format!("/loki/api/v1/series?match[]={}", encode(r#"{service_name="sandur"}"#)));
    let components: Vec<_> =
        labels["data"].as_array().unwrap().iter().map(|s| s["component"].as_str().unwrap()).collect();
    for expected in ["querier", "frontend", "engine", "server"] {
        assert!(components.contains(&expected), "{components:?}");
    }
}
