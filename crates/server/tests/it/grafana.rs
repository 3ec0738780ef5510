//! Goal: requests of Grafana and Logs Drilldown are answered in the expected format with the expected
//! numbers.
//!
//! Method: `grafana/requests.json` contains requests as these programs send them (health check, Explore,
//! a dashboard, Drilldown's sequence) with the expected parts of the answers. They are replayed against
//! the real binary with two services whose lines are known, once with the rows in memory and once in
//! blocks. In paths and parameters `{start}`, `{middle}` and `{end}` are replaced by times in
//! nanoseconds.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::process::{Setup, now_ns};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    about: String,
    path: String,
    parameters: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    method: Option<String>,
    status: u16,
    #[serde(default)]
    expect: Vec<Expected>,
    /// A part of the body of an error.
    #[serde(default)]
    text: Option<String>,
}

/// The expected value at a JSON pointer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    at: String,
    is: Option<Value>,
    /// Number of elements of an array.
    length: Option<usize>,
    /// Elements that an array contains; objects may have further fields.
    includes: Option<Vec<Value>>,
    /// The elements of an array in any order.
    members: Option<Vec<Value>>,
    /// Sum of all values of a matrix.
    sum: Option<f64>,
    /// Number of entries of all streams.
    entries: Option<usize>,
    /// Name of the JSON type.
    kind: Option<String>,
}

impl Expected {
    fn problem(&self, body: &Value) -> Option<String> {
        let found = body.pointer(&self.at).cloned().unwrap_or(Value::Null);
        let list = found.as_array().cloned().unwrap_or_default();
        let values = || list.iter().flat_map(|row| row["values"].as_array().into_iter().flatten());
        let sum = || values().filter_map(|v| v[1].as_str()?.parse::<f64>().ok()).sum::<f64>();
        let kind = match &found {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let holds = self.is.as_ref().is_none_or(|is| *is == found)
            && self.length.is_none_or(|length| list.len() == length)
            && self.includes.iter().flatten().all(|one| list.iter().any(|found| covers(found, one)))
            && self
                .members
                .as_ref()
                .is_none_or(|all| all.len() == list.len() && all.iter().all(|m| list.contains(m)))
            && self.sum.is_none_or(|wanted| wanted == sum())
            && self.entries.is_none_or(|wanted| wanted == values().count())
            && self.kind.as_deref().is_none_or(|wanted| wanted == kind);
        let shown: String = found.to_string().chars().take(1500).collect();
        (!holds).then(|| format!("at {} there is {shown}", self.at))
    }
}

/// Whether `found` contains all of `wanted`.
fn covers(found: &Value, wanted: &Value) -> bool {
    match wanted.as_object() {
        Some(fields) => fields.iter().all(|(name, value)| found.get(name) == Some(value)),
        None => found == wanted,
    }
}

/// 60 lines of each of two services, ten seconds apart, the first one at `start`.
fn push(server: &crate::process::Server, start: i64) {
    let at = |n: i64| start + n * 10_000_000_000;
    let checkout = |n: i64| {
        let (level, status) = if n % 5 == 0 { ("error", 500) } else { ("info", 200) };
        let line = json!({"level": level, "status": status, "duration": format!("{n}ms"),
            "msg": format!("order {n} placed")});
        json!([at(n).to_string(), line.to_string(), {"trace_id": format!("t-{}", n % 4)}])
    };
    let web = |n: i64| {
        let (level, status) = if n % 10 == 0 { ("warn", 503) } else { ("info", 200) };
        json!([
            at(n).to_string(),
            format!("level={level} method=GET path=/cart/{n} status={status} bytes=1234")
        ])
    };
    let body = json!({"streams": [
        {"stream": {"app": "checkout", "env": "prod"}, "values": (0..60).map(checkout).collect::<Vec<_>>()},
        {"stream": {"app": "web", "env": "prod"}, "values": (0..60).map(web).collect::<Vec<_>>()},
    ]});
    let headers = [("Content-Type", "application/json")];
    let body = body.to_string();
    let pushed =
        crate::process::request(server.address, "POST", "/loki/api/v1/push", &headers, body.as_bytes());
    assert_eq!(pushed.unwrap().0, 204);
}

fn replay(address: SocketAddr, start: i64, state: &str) -> Vec<String> {
    let requests: Vec<Asked> = serde_json::from_str(include_str!("grafana/requests.json")).unwrap();
    assert!(requests.len() > 25);
    let end = start + 600_000_000_000;
    let places = |text: &str| {
        let text = text.replace("{start}", &start.to_string()).replace("{end}", &end.to_string());
        text.replace("{middle}", &(start + 300_000_000_000).to_string())
    };
    let mut problems = Vec::new();
    for asked in &requests {
        let pair = |(name, value): (&String, &String)| {
            format!("{}={}", crate::process::encode(name), crate::process::encode(&places(value)))
        };
        let parameters = asked.parameters.iter().map(pair).collect::<Vec<_>>().join("&");
        let mut headers: Vec<(&str, &str)> =
            asked.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let (status, body) = if asked.method.as_deref() == Some("POST") {
            headers.push(("Content-Type", "application/x-www-form-urlencoded"));
            crate::process::request(address, "POST", &asked.path, &headers, parameters.as_bytes()).unwrap()
        } else {
            let path = format!("{}?{parameters}", asked.path);
            crate::process::request(address, "GET", &path, &headers, b"").unwrap()
        };
        let text = String::from_utf8_lossy(&body).into_owned();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        let mut wrong: Vec<String> = asked.expect.iter().filter_map(|e| e.problem(&json)).collect();
        if status != asked.status {
            wrong.push(format!("status {status}: {text}"));
        }
        if asked.text.as_ref().is_some_and(|wanted| wanted != text.trim()) {
            wrong.push(format!("the text is: {text}"));
        }
        problems.extend(wrong.iter().map(|wrong| format!("{state}: {}: {wrong}", asked.about)));
    }
    problems
}

#[test]
fn requests_of_grafana_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path()).start();
    // steps of ten seconds must be aligned with the lines
    let start = (now_ns() / 600_000_000_000 - 2) * 600_000_000_000;
    push(&server, start);
    let mut problems = replay(server.address, start, "in memory");
    assert_eq!(crate::process::request(server.address, "POST", "/flush", &[], b"").unwrap().0, 204);
    problems.extend(replay(server.address, start, "in blocks"));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(server.terminate(), Some(0));
}
