//! The HTTP API with rows in memory: formats, statuses and texts that Loki's clients rely on.
//!
//! Method: requests go directly to the router; responses are compared with those of Loki 3.7 for the same
//! rows, except statistics.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use sandur_base::ErrorKind;
use sandur_config::Settings;
use sandur_model::{Labels, Level, LogBatch};
use sandur_query::{MemoryRow, MemorySource};
use sandur_service::Failure;

use crate::harness::{NOW, Server};

/// The rows are from the first second and those before it.
fn rows() -> Vec<MemoryRow> {
    let row =
        |seconds_ago: i64, labels: &[(&str, &str)], line: &str, metadata: &[(&str, &str)], level| MemoryRow {
            labels: Arc::new(Labels::from_pairs(labels.iter().copied())),
            timestamp: (NOW - seconds_ago) * 1_000_000_000,
            line: line.to_owned().into(),
            metadata: metadata.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            level,
        };
    let api = [("app", "api"), ("env", "prod")];
    vec![
        row(10, &api, "hello <b>", &[("trace_id", "abc")], Level::Unknown),
        row(20, &api, "level=error msg=\"boom\" status=500", &[], Level::Error),
        row(30, &[("app", "web")], "{\"a\":1,\"level\":\"warn\"}", &[], Level::Warn),
    ]
}

fn server_with(change: impl FnOnce(&mut Settings)) -> Server {
    Server::over(Arc::new(MemorySource::new(rows())), change)
}

fn server() -> Server {
    server_with(|_| ())
}

const RANGE: &str = "/loki/api/v1/query_range";

#[tokio::test(start_paused = true)]
async fn log_queries_are_answered_in_both_encodings() {
    let server = server();
    let pairs = [("query", "{app=~\".+\"}")];
    let merged = server.get(RANGE, &pairs).await;
    assert_eq!((merged.status, merged.kind.as_str()), (200, "application/json; charset=UTF-8"));
    assert_eq!(
        merged.data(),
        concat!(
            r#"{"status":"success","data":{"resultType":"streams","result":["#,
            r#"{"stream":{"app":"api","detected_level":"error","env":"prod"},"#,
            r#""values":[["1795240880000000000","level=error msg=\"boom\" status=500"]]},"#,
            r#"{"stream":{"app":"api","detected_level":"unknown","env":"prod","trace_id":"abc"},"#,
            r#""values":[["1795240890000000000","hello \u003cb\u003e"]]},"#,
            r#"{"stream":{"app":"web","detected_level":"warn"},"#,
            r#""values":[["1795240870000000000","{\"a\":1,\"level\":\"warn\"}"]]}]"#,
        )
    );
    let flags = [("x-loki-response-encoding-flags", "categorize-labels")];
    let apart = server.get_with(RANGE, &pairs, &flags).await;
    assert_eq!(
        apart.data(),
        concat!(
            r#"{"status":"success","data":{"resultType":"streams","#,
            r#""encodingFlags":["categorize-labels"],"result":["#,
            r#"{"stream":{"app":"api","env":"prod"},"values":["#,
            r#"["1795240890000000000","hello \u003cb\u003e","#,
            r#"{"structuredMetadata":{"detected_level":"unknown","trace_id":"abc"}}],"#,
            r#"["1795240880000000000","level=error msg=\"boom\" status=500","#,
            r#"{"structuredMetadata":{"detected_level":"error"}}]]},"#,
            r#"{"stream":{"app":"web"},"values":[["1795240870000000000","#,
            r#""{\"a\":1,\"level\":\"warn\"}",{"structuredMetadata":{"detected_level":"warn"}}]]}]"#,
        )
    );
    let parsed = [("query", "{app=\"api\"} | logfmt | status>=500 | keep status")];
    let parsed = server.get_with(RANGE, &parsed, &flags).await;
    assert!(parsed.data().contains(r#"{"parsed":{"status":"500"}}"#), "{}", parsed.body);
}

#[tokio::test(start_paused = true)]
async fn with_too_many_series_drilldown_gets_some_and_others_an_error() {
    let server = server_with(|settings| settings.limits.max_query_series = 1);
    let pairs = [("query", "count_over_time({app=~\".+\"}[1h])"), ("step", "60")];
    let refused = server.get_with(RANGE, &pairs, &[("x-query-tags", "Source=grafana")]).await;
    let reached = "maximum number of series (1) reached for a single query; ";
    assert_eq!(refused.status, 400);
    assert!(refused.body.starts_with(&format!("{reached}consider")), "{}", refused.body);
    let tags = [("x-query-tags", "Feature=x,Source=grafana-lokiexplore-app")];
    let part = server.get_with(RANGE, &pairs, &tags).await;
    assert_eq!(part.status, 200, "{}", part.body);
    let start = format!(r#"{{"status":"success","warnings":["{reached}returning partial results"],"data""#);
    assert!(part.body.starts_with(&start), "{}", part.body);
    let answer: serde_json::Value = serde_json::from_str(&part.body).unwrap();
    assert_eq!(answer["data"]["result"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn limit_and_direction_apply_and_forms_are_accepted() {
    let server = server();
    let newest = server.get(RANGE, &[("query", "{app=~\".+\"}"), ("limit", "1")]).await;
    assert!(newest.data().contains("1795240890000000000") && !newest.data().contains("1795240880000000000"));
    let form = "query=%7Bapp%3D~%22.%2B%22%7D&limit=1&direction=FORWARD";
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let oldest = server.post(RANGE, &headers, form).await;
    assert!(oldest.data().contains("1795240870000000000"), "{}", oldest.body);
    let tag = [("x-query-tags", "Source=grafana-lokiexplore-app")];
    assert_eq!(server.get_with(RANGE, &[("query", "{app=\"api\"}")], &tag).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn metric_queries_are_answered_as_in_prometheus() {
    let server = server();
    let health = server.get("/loki/api/v1/query", &[("query", "vector(1)+vector(1)"), ("time", "5")]).await;
    assert_eq!(
        health.data(),
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[5,"2"]}]"#
    );
    let query = "sum by (app) (count_over_time({app=~\".+\"}[5m]))";
    let vector = server.get("/loki/api/v1/query", &[("query", query), ("time", "1795240900")]).await;
    assert_eq!(
        vector.data(),
        concat!(
            r#"{"status":"success","data":{"resultType":"vector","result":["#,
            r#"{"metric":{"app":"api"},"value":[1795240900,"2"]},"#,
            r#"{"metric":{"app":"web"},"value":[1795240900,"1"]}]"#
        )
    );
    let times = [("query", query), ("start", "1795240860"), ("end", "1795240920"), ("step", "60")];
    let matrix = server.get(RANGE, &times).await;
    assert!(matrix.data().contains(r#""resultType":"matrix""#), "{}", matrix.body);
    assert!(
        matrix.data().contains(r#"{"metric":{"app":"api"},"values":[[1795240920,"2"]]}"#),
        "{}",
        matrix.body
    );
    let stats: serde_json::Value = serde_json::from_str(&matrix.body).unwrap();
    assert!(stats["data"]["stats"]["summary"]["execTime"].is_number());
}

#[tokio::test(start_paused = true)]
async fn failed_queries_are_plain_text() {
    let server = server_with(|s| s.limits.max_entries_limit_per_query = 200);
    for (path, pairs, status, text) in [
        (
            RANGE,
            &[("query", "{app=\"api\"")][..],
            400,
            "parse error at line 1, col 11: syntax error: unexpected $end, expecting } or ,",
        ),
        (RANGE, &[], 400, "parse error : syntax error: unexpected $end"),
        (
            "/loki/api/v1/query",
            &[("query", "{app=\"api\"}")],
            400,
            "log queries are not supported as an instant query type, \
             please change your query to a range query type",
        ),
        (
            RANGE,
            &[("query", "{app=\"a\"}"), ("limit", "201")],
            400,
            "max entries limit per query exceeded, limit > max_entries_limit_per_query (201 > 200)",
        ),
        (RANGE, &[("query", "{app=\"a\"}"), ("direction", "x")], 400, "invalid direction 'x'"),
        ("/loki/api/v1/index/stats", &[], 400, "parse error : syntax error: unexpected $end"),
        (
            "/loki/api/v1/series",
            &[("match", "bad")],
            400,
            "parse error at line 1, col 1: syntax error: unexpected IDENTIFIER",
        ),
        (
            "/loki/api/v1/detected_fields",
            &[("query", "rate({a=\"b\"}[1m])")],
            400,
            "only log selector is supported",
        ),
        ("/nothing", &[], 404, "404 page not found\n"),
    ] {
        let answer = server.get(path, pairs).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, text), "{path} {pairs:?}");
        assert_eq!(answer.kind, "text/plain; charset=utf-8", "{path}");
    }
    let method = server.post("/loki/api/v1/status/buildinfo", &[], "").await;
    assert_eq!((method.status, method.body.as_str()), (405, ""));
}

#[tokio::test(start_paused = true)]
async fn labels_series_and_sizes_come_from_the_index() {
    let server = server();
    for (path, pairs, body) in [
        ("/loki/api/v1/labels", &[][..], r#"{"status":"success","data":["app","env"]}"#),
        ("/loki/api/v1/label", &[("query", "{app=\"web\"}")], r#"{"status":"success","data":["app"]}"#),
        ("/loki/api/v1/labels", &[("query", "{app=\"none\"}")], r#"{"status":"success"}"#),
        ("/loki/api/v1/label/app/values", &[], r#"{"status":"success","data":["api","web"]}"#),
        ("/loki/api/v1/label/none/values", &[], r#"{"status":"success"}"#),
        (
            "/loki/api/v1/series",
            &[("match[]", "{app=\"api\"}")],
            r#"{"status":"success","data":[{"app":"api","env":"prod"}]}"#,
        ),
        ("/loki/api/v1/series", &[("match[]", "{app=\"none\"}")], r#"{"status":"success","data":[]}"#),
        (
            "/loki/api/v1/index/stats",
            &[("query", "{app=\"api\"}")],
            r#"{"streams":1,"chunks":1,"bytes":42,"entries":2}"#,
        ),
        (
            "/loki/api/v1/detected_labels",
            &[],
            r#"{"detectedLabels":[{"label":"app","cardinality":2},{"label":"env","cardinality":1}]}"#,
        ),
        ("/loki/api/v1/detected_labels", &[("query", "{app=\"none\"}")], "{}"),
        (
            "/loki/api/v1/format_query",
            &[("query", "{app=\"a\"}|=\"b\"")],
            r#"{"status":"success","data":"{app=\"a\"} |= \"b\""}"#,
        ),
    ] {
        let answer = server.get(path, pairs).await;
        assert_eq!((answer.status, answer.body.trim_end()), (200, body), "{path} {pairs:?}");
    }
    let bad = server.get("/loki/api/v1/format_query", &[("query", "{app=\"a\"")]).await;
    let reason = "parse error at line 1, col 9: syntax error: unexpected $end, expecting } or ,";
    let text = format!(r#"{{"status":"invalid-query","error":"{reason}"}}"#);
    assert_eq!((bad.status, bad.body.trim_end()), (400, text.as_str()));
}

#[tokio::test(start_paused = true)]
async fn volumes_are_grouped_by_the_requested_labels() {
    let server = server();
    let volume = async |pairs: &[(&str, &str)]| {
        let answer = server.get("/loki/api/v1/index/volume", pairs).await;
        let value: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let series = value["data"]["result"].as_array().unwrap();
        series
            .iter()
            .map(|s| format!("{} {}", s["metric"], s["value"][1].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    let all = ("query", "{app=~\".+\"}");
    assert_eq!(volume(&[all]).await, [r#"{"app":"api"} 42"#, r#"{"app":"web"} 22"#]);
    assert_eq!(volume(&[all, ("targetLabels", "env")]).await, [r#"{"env":"prod"} 42"#]);
    assert_eq!(volume(&[all, ("limit", "1")]).await, [r#"{"app":"api"} 42"#]);
    assert_eq!(volume(&[("query", "{}")]).await, [r#"{"app":"api","env":"prod"} 42"#, r#"{"app":"web"} 22"#]);
    let by_label = volume(&[all, ("aggregateBy", "labels"), ("targetLabels", "app,env")]).await;
    assert_eq!(by_label, [r#"{"app":""} 42"#, r#"{"env":""} 42"#]);
    let by_both = volume(&[all, ("targetLabels", "app,env")]).await;
    assert_eq!(
        by_both,
        [r#"{"app":"api","env":"prod"} 42"#],
        "streams without one of the labels do not count"
    );
    let pairs = [all, ("start", "1795240840"), ("end", "1795240900"), ("step", "60")];
    let range = server.get("/loki/api/v1/index/volume_range", &pairs).await;
    assert!(
        range.data().contains(r#"{"metric":{"app":"api"},"values":[[1795240900,"42"]]}"#),
        "{}",
        range.body
    );
    // Rows at 880 and 890 seconds; the one at 870 belongs to another app.
    let pairs = [("query", "{}"), ("start", "1795240871"), ("end", "1795240900"), ("step", "10")];
    let range = server.get("/loki/api/v1/index/volume_range", &pairs).await;
    let samples = r#"[[1795240879.999,"33"],[1795240889.999,"9"]]"#;
    let only = format!(r#"[{{"metric":{{"app":"api","env":"prod"}},"values":{samples}}}]"#);
    assert!(range.data().ends_with(&only), "{}", range.body);
    let by_label = [all, ("start", "1795240840"), ("aggregateBy", "labels"), ("targetLabels", "app,env")];
    let range = server.get("/loki/api/v1/index/volume_range", &by_label).await;
    let range: serde_json::Value = serde_json::from_str(&range.body).unwrap();
    let sum_of = |n: usize| {
        let samples = range["data"]["result"][n]["values"].as_array().unwrap();
        samples.iter().map(|sample| sample[1].as_str().unwrap().parse::<u64>().unwrap()).sum::<u64>()
    };
    assert_eq!((sum_of(0), sum_of(1)), (42, 42));
}

/// Only the row of ten seconds ago is visible.
#[tokio::test(start_paused = true)]
async fn rows_before_the_lookback_are_invisible_everywhere() {
    let server = server_with(|s| s.limits.max_query_lookback = 15_000_000_000);
    let all = ("query", "{app=~\".+\"}");
    for (path, pairs, body) in [
        ("label/app/values", &[][..], r#"{"status":"success","data":["api"]}"#),
        ("series", &[], r#"{"status":"success","data":[{"app":"api","env":"prod"}]}"#),
        ("index/stats", &[all], r#"{"streams":1,"chunks":1,"bytes":9,"entries":1}"#),
        (
            "detected_labels",
            &[],
            r#"{"detectedLabels":[{"label":"app","cardinality":1},{"label":"env","cardinality":1}]}"#,
        ),
        ("labels", &[("end", "1795240880")], r#"{"status":"success"}"#),
        ("index/stats", &[all, ("end", "1795240880")], r#"{"streams":0,"chunks":0,"bytes":0,"entries":0}"#),
        ("patterns", &[all, ("end", "1795240880")], r#"{"status":"success","data":[]}"#),
    ] {
        let answer = server.get(&format!("/loki/api/v1/{path}"), pairs).await;
        assert_eq!((answer.status, answer.body.trim_end()), (200, body), "{path} {pairs:?}");
    }
    let patterns = server.get("/loki/api/v1/patterns", &[all]).await;
    assert_eq!(patterns.body.matches("\"pattern\":").count(), 1, "{}", patterns.body);
    for (path, value) in [
        ("index/volume", r#""value":[1795240900,"9"]}]"#),
        ("index/volume_range", r#""values":[[1795240900,"9"]]}]"#),
    ] {
        let volume = server.get(&format!("/loki/api/v1/{path}"), &[all]).await;
        let series = format!(r#"{{"metric":{{"app":"api"}},{value}"#);
        assert!(volume.data().contains(&series), "{path}: {}", volume.body);
    }
}

#[tokio::test(start_paused = true)]
async fn the_maximum_time_range_applies_to_all_requests() {
    let server = server_with(|s| s.limits.max_query_length = 3_600_000_000_000);
    let query = ("query", "{app=\"api\"}");
    let times = [query, ("start", "1795230000"), ("end", "1795240900"), ("step", "600")];
    let text = "the query time range exceeds the limit (query length: 3h1m40s, limit: 1h)";
    for path in [
        "labels",
        "label/app/values",
        "series",
        "index/stats",
        "index/volume",
        "index/volume_range",
        "detected_labels",
        "detected_fields",
        "patterns",
        "query_range",
    ] {
        let answer = server.get(&format!("/loki/api/v1/{path}"), &times).await;
        assert_eq!((answer.status, answer.body.as_str()), (400, text), "{path}");
        assert_eq!(server.get(&format!("/loki/api/v1/{path}"), &[query]).await.status, 200, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn detected_fields_have_type_parser_and_path() {
    let server = server();
    let path = "/loki/api/v1/detected_fields";
    let answer = server.get(path, &[("query", "{app=~\".+\"}")]).await;
    assert_eq!(
        answer.body,
        concat!(
            r#"{"fields":[{"label":"a","type":"int","cardinality":1,"parsers":["json"],"jsonPath":["a"]},"#,
            r#"{"label":"detected_level","type":"string","cardinality":3,"parsers":null},"#,
            r#"{"label":"level","type":"string","cardinality":2,"parsers":["json","logfmt"],"#,
            r#""jsonPath":["level"]},"#,
            r#"{"label":"msg","type":"string","cardinality":1,"parsers":["logfmt"]},"#,
            r#"{"label":"status","type":"int","cardinality":1,"parsers":["logfmt"]},"#,
            r#"{"label":"trace_id","type":"string","cardinality":1,"parsers":null}],"limit":1000}"#,
            "\n"
        )
    );
    let few = [("query", "{app=~\".+\"}"), ("field_limit", "1"), ("line_limit", "1")];
    let few = server.get(path, &few).await;
    let newest =
        r#"{"fields":[{"label":"detected_level","type":"string","cardinality":1,"parsers":null}],"limit":1}"#;
    assert_eq!(few.body.trim_end(), newest);
    let values = "/loki/api/v1/detected_field/level/values";
    for (path, pairs, body) in [
        (path, &[("query", "{app=\"none\"}")][..], "{}"),
        (values, &[("query", "{app=~\".+\"}")], r#"{"limit":1000,"values":["error","warn"]}"#),
        (values, &[("query", "{app=~\".+\"}"), ("limit", "1")], r#"{"limit":1,"values":["error"]}"#),
        ("/loki/api/v1/detected_field/none/values", &[("query", "{app=~\".+\"}")], "{}"),
        // Fields created by the query itself are included.
        (
            "/loki/api/v1/detected_field/code/values",
            &[("query", "{app=\"api\"} | logfmt code=\"status\" | code != \"\"")],
            r#"{"limit":1000,"values":["500"]}"#,
        ),
    ] {
        let answer = server.get(path, pairs).await;
        assert_eq!((answer.status, answer.body.trim_end()), (200, body), "{path} {pairs:?}");
    }
    let bad = server.get(path, &[("query", "{app=\"api\"}"), ("line_limit", "0")]).await;
    assert_eq!((bad.status, bad.body.as_str()), (400, "limit must be a positive value"));
}

#[tokio::test(start_paused = true)]
async fn patterns_can_be_used_in_a_filter() {
    let server = server();
    let path = "/loki/api/v1/patterns";
    let times = [("start", "1795240840"), ("end", "1795240900"), ("step", "20")];
    let ask = async |query: &str| {
        let mut pairs = vec![("query", query)];
        pairs.extend(times);
        server.get(path, &pairs).await
    };
    let answer = ask("{app=\"api\"}").await;
    assert_eq!(
        answer.body,
        concat!(
            r#"{"status":"success","data":["#,
            r#"{"pattern":"hello \u003cb\u003e","level":"unknown","samples":[[1795240880,1]]},"#,
            r#"{"pattern":"level=error msg=\"boom\" status=\u003c_\u003e","level":"error","#,
            r#""samples":[[1795240880,1]]}]}"#,
            "\n"
        )
        .replace("hello \\u003cb\\u003e", "hello \\u003c\\u003c_\\u003e\\u003e")
    );
    for pattern in ["hello <<_>>", r#"level=error msg=\"boom\" status=<_>"#] {
        let query = format!("{{app=\"api\"}} |> \"{pattern}\"");
        let mut pairs = vec![("query", query.as_str())];
        pairs.extend(times);
        let lines = server.get(RANGE, &pairs).await;
        assert_eq!(lines.body.matches("\"values\":[[").count(), 1, "{query}: {}", lines.body);
    }
    assert_eq!(ask("{app=\"none\"}").await.body, "{\"status\":\"success\",\"data\":[]}\n");
    let small = [("query", "{app=\"api\"}"), ("start", "1"), ("end", "20000"), ("step", "1")];
    let small = server.get(path, &small).await;
    let text = "exceeded maximum resolution of 11,000 points per time series. \
                Try increasing the value of the step parameter";
    assert_eq!((small.status, small.body.as_str()), (400, text));
    let metric = ask("rate({app=\"api\"}[1m])").await;
    assert_eq!((metric.status, metric.body.as_str()), (400, "only label matchers are supported"));
}

#[tokio::test(start_paused = true)]
async fn rules_are_answered_as_for_a_tenant_without_rules() {
    let server = server();
    for (method, path, status, body) in [
        ("GET", "/loki/api/v1/rules", 404, "no rule groups found\n"),
        ("GET", "/api/prom/rules/team", 404, "no rule groups found\n"),
        ("GET", "/loki/api/v1/rules/team/group", 404, "group does not exist\n"),
        ("DELETE", "/loki/api/v1/rules/team", 404, "group namespace does not exist\n"),
        ("DELETE", "/api/prom/rules/team/group", 404, "group does not exist\n"),
        ("GET", "/prometheus/api/v1/rules?type=alert", 200, r#"{"status":"success","data":{"groups":[]}}"#),
        (
            "GET",
            "/prometheus/api/v1/rules?type=x",
            400,
            r#"{"status":"error","errorType":"bad_data","error":"not supported value \"x\""}"#,
        ),
        ("GET", "/prometheus/api/v1/alerts", 200, r#"{"status":"success","data":{"alerts":[]}}"#),
        ("PUT", "/loki/api/v1/rules/team", 405, ""),
    ] {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let answer = server.send(request).await;
        assert_eq!((answer.status, answer.body.as_str()), (status, body), "{method} {path}");
    }
}

/// Requests and answers of the rulers of Loki and Mimir, as their command-line tools and Grafana send them.
#[tokio::test(start_paused = true)]
async fn rules_are_stored_by_the_apis_of_loki_and_mimir() {
    let server = server();
    let send = async |method: Method, path: &str, tenant: &str, body: &str| {
        let answer = server.carry(method, path, &[("x-scope-orgid", tenant)], body.to_owned()).await;
        (answer.status, answer.body)
    };
    let accepted = (202, r#"{"status":"success","data":null,"errorType":"","error":""}"#.to_owned());
    // As yaml.v3 writes a group.
    let group = "name: g\ninterval: 1m\nrules:\n    - alert: Down\n      expr: up == 0\n      for: 5m\n      \
                 labels:\n        severity: page\n";
    let shown = "name: \"g\"\ninterval: \"1m\"\nrules:\n    - alert: \"Down\"\n      expr: \"up == 0\"\n  \
                 \x20   for: \"5m\"\n      labels:\n          \"severity\": \"page\"\n";
    for (n, base) in ["/prometheus/config/v1/rules", "/config/v1/rules", "/api/v1/rules"].iter().enumerate() {
        let namespace = format!("{base}/a%2Fb%20{n}");
        assert_eq!(send(Method::GET, &format!("{namespace}/g"), "t", "").await.0, 404);
        assert_eq!(send(Method::POST, &namespace, "t", group).await, accepted);
        assert_eq!(send(Method::GET, &format!("{namespace}/g"), "t", "").await, (200, shown.to_owned()));
        assert_eq!(send(Method::GET, &format!("{namespace}/g"), "other", "").await.0, 404);
    }
    let listed = server.get_with("/prometheus/config/v1/rules", &[], &[("x-scope-orgid", "t")]).await;
    assert_eq!((listed.status, listed.kind.as_str()), (200, "application/yaml"));
    let names: Vec<&str> = listed.body.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(names, ["\"a/b 0\":", "\"a/b 1\":", "\"a/b 2\":"]);
    let one = send(Method::GET, "/config/v1/rules/a%2Fb%201", "t", "").await.1;
    assert!(one.starts_with("\"a/b 1\":\n    - name: \"g\"\n      interval: \"1m\"\n"), "{one}");

    // Loki's API has its own groups, in LogQL.
    let logql = "name: l\nrules:\n- {record: r, expr: 'sum(rate({app=\"a\"} |= \"x\" [5m]))'}\n";
    assert_eq!(send(Method::GET, "/loki/api/v1/rules", "t", "").await.1, "no rule groups found\n");
    assert_eq!(send(Method::POST, "/loki/api/v1/rules/logs", "t", logql).await, accepted);
    assert!(send(Method::GET, "/api/prom/rules", "t", "").await.1.starts_with("\"logs\":\n"));
    let refused = send(Method::POST, "/config/v1/rules/logs", "t", logql).await;
    assert!(refused.0 == 400 && refused.1.contains("it is valid LogQL"), "{}", refused.1);
    let missing = send(Method::DELETE, "/config/v1/rules/logs/l", "t", "").await;
    assert_eq!(missing, (404, "group does not exist\n".to_owned()), "the other API's group");

    for (body, expected) in [
        ("name: x", "rules: a group needs at least one rule\n"),
        ("", "line 1: Groupname must not be empty: add a key `name`"),
        ("rules: [", "while parsing a node"),
    ] {
        let (status, text) = send(Method::POST, "/config/v1/rules/n", "t", body).await;
        assert!(status == 400 && text.contains(expected), "{status} {text}");
    }
    assert_eq!(send(Method::POST, "/config/v1/rules/n", "a|b", group).await.0, 400);
    let large = "x".repeat((1 << 20) + 1);
    let (status, text) = send(Method::POST, "/config/v1/rules/n", "t", &large).await;
    assert!(status == 413 && text.contains("limits.ruler_max_rule_group_size"), "{text}");

    assert_eq!(send(Method::DELETE, "/api/v1/rules/a%2Fb%200/g", "t", "").await, accepted);
    assert_eq!(send(Method::DELETE, "/config/v1/rules/a%2Fb%201", "t", "").await, accepted);
    let missing = send(Method::DELETE, "/config/v1/rules/a%2Fb%201", "t", "").await;
    assert_eq!(missing, (404, "group namespace does not exist\n".to_owned()));
    assert_eq!(send(Method::DELETE, "/loki/api/v1/rules/logs", "t", "").await, accepted);
}

#[tokio::test(start_paused = true)]
async fn the_paths_before_version_1_have_their_own_format() {
    let server = server();
    let lines = server.get("/api/prom/query", &[("query", "{app=\"api\"}"), ("regexp", "bo+m")]).await;
    let streams = lines.body.split(r#","streams":"#).nth(1).unwrap();
    assert_eq!(
        streams,
        concat!(
            r#"[{"labels":"{app=\"api\", detected_level=\"error\", env=\"prod\"}","#,
            r#""entries":[{"ts":"2026-11-21T06:01:20Z","line":"level=error msg=\"boom\" status=500"}]}]}"#,
            "\n"
        )
    );
    assert!(lines.body.starts_with(r#"{"stats":{"#), "{}", lines.body);
    // Combining marks are letters of the expression, not escapes.
    for expression in ["bo\u{301}*om", "\u{7}|\"boom\"|\\bboom\\b"] {
        let pairs = [("query", "{app=\"api\"}"), ("regexp", expression)];
        let lines = server.get("/api/prom/query", &pairs).await;
        assert!(lines.body.contains("status=500"), "{expression}: {}", lines.body);
    }
    let metric = server.get("/api/prom/query", &[("query", "rate({app=\"api\"}[1m])")]).await;
    assert_eq!((metric.status, metric.body.as_str()), (400, "only log selector is supported"));
    for (path, pairs, body) in [
        ("/api/prom/label", &[][..], r#"{"values":["app","env"]}"#),
        ("/api/prom/label/app/values", &[], r#"{"values":["api","web"]}"#),
        ("/api/prom/label/none/values", &[], "{}"),
        (
            "/api/prom/series",
            &[("match[]", "{app=\"web\"}")],
            r#"{"status":"success","data":[{"app":"web"}]}"#,
        ),
    ] {
        let answer = server.get(path, pairs).await;
        assert_eq!((answer.status, answer.body.trim_end()), (200, body), "{path}");
    }
}

/// Agents drop a push that is refused with 408.
#[tokio::test(start_paused = true)]
async fn a_push_that_is_sent_too_slowly_can_be_retried() {
    let server = Server::over(Arc::new(MemorySource::new(Vec::new())), |_| {});
    for (path, status) in [("/loki/api/v1/push", 503), ("/api/v1/write", 503), ("/api/v1/read", 408)] {
        let drops = futures_util::stream::unfold(server.app.env.clone(), async |env| {
            env.sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>("x"), env))
        });
        let request = Request::post(path).body(Body::from_stream(drops)).unwrap();
        let answer = server.send(request).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let names = ["16KiB", "send it again", "http.min_client_rate"];
        assert!(names.iter().all(|name| answer.body.contains(name)), "{path}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_can_be_prepared_and_shut_down_by_requests() {
    let server = server();
    let prepare = "/ingester/prepare_shutdown";
    assert_eq!(server.get(prepare, &[]).await.body, "unset");
    assert_eq!(server.post(prepare, &[], "").await.status, 204);
    assert_eq!(server.get(prepare, &[]).await.body, "set");
    let undo = Request::builder().method(Method::DELETE).uri(prepare).body(Body::empty()).unwrap();
    assert_eq!(server.send(undo).await.status, 204);
    assert_eq!(server.get(prepare, &[]).await.body, "unset");
    assert!(!server.shutdown.signal().is_triggered());
    assert_eq!(server.post("/ingester/shutdown", &[], "").await.status, 204);
    assert!(server.shutdown.signal().is_triggered());
    let again = server.post("/ingester/shutdown", &[], "").await;
    assert_eq!((again.status, again.body.as_str()), (503, "Ingester is stopping or already stopped."));
    assert_eq!(server.get("/ready", &[]).await.status, 503);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_continues_when_its_client_disconnects() {
    for path in ["/ingester/shutdown", "/ingester/shutdown?terminate=false"] {
        let server = server();
        server.intake.slow.store(true, Ordering::SeqCst);
        let patience = Duration::from_secs(5);
        let left = server.app.env.timeout(patience, server.post(path, &[], "")).await;
        assert!(left.is_none(), "the client disconnected before the response");
        assert_eq!(server.post(path, &[], "").await.status, 503, "it is stopping");
        server.intake.go_on.notify_one();
        server.app.env.sleep(patience).await;
        assert_eq!(server.intake.ended.load(Ordering::SeqCst), 1, "{path}");
        let stops = !path.ends_with("terminate=false");
        assert_eq!(server.shutdown.signal().is_triggered(), stops, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_shutdown_can_be_repeated() {
    for path in ["/ingester/shutdown", "/ingester/shutdown?terminate=false"] {
        let server = server();
        *server.intake.failure.lock().unwrap() = Some(Failure::new(ErrorKind::Unavailable, "no store"));
        for _ in 0..2 {
            let failed = server.post(path, &[], "").await;
            assert_eq!((failed.status, failed.body.as_str()), (503, "no store"), "{path}");
        }
        assert!(!server.shutdown.signal().is_triggered());
        *server.intake.failure.lock().unwrap() = None;
        assert_eq!(server.post(path, &[], "").await.status, 204, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn operators_need_no_tenant() {
    let server = server_with(|s| s.auth.require_tenant = true);
    assert_eq!(server.get("/config", &[]).await.status, 200);
    assert_eq!(server.get("/log_level", &[]).await.status, 200);
    assert_eq!(server.post("/flush/tenant?streams=bad", &[], "").await.status, 400, "parameters are checked");
    assert_eq!(server.post("/flush/tenant", &[], "").await.status, 204);
    assert_eq!(server.post("/ingester/shutdown", &[], "").await.status, 204);
    let limits = server.get("/config/tenant/v1/limits", &[]).await;
    assert_eq!((limits.status, limits.body.as_str()), (401, "no org id"), "the tenant is missing");
}

#[tokio::test(start_paused = true)]
async fn forms_of_puts_are_accepted_and_endless_times_refused() {
    let server = server();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = "query=%7Bapp%3D%22api%22%7D&start=1795240800&end=1795240850";
    let put = server.carry(Method::PUT, "/loki/api/v1/delete", &form, body).await;
    assert_eq!((put.status, put.body.as_str()), (204, ""));
    let asked = ("{app=\"api\"}".to_owned(), 1_795_240_800_000, 1_795_240_850_000);
    assert_eq!(*server.intake.deletes.0.lock().unwrap(), [asked]);
    let endless = "query=%7Bapp%3D%22api%22%7D+%7C%3D+%22x%22&start=-1e9999999&max_interval=1h";
    let put = server.carry(Method::PUT, "/loki/api/v1/delete", &form, endless).await;
    let text = "invalid start time: require unix seconds or RFC3339 format\n";
    assert_eq!((put.status, put.body.as_str()), (400, text));
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_shown_and_changed() {
    let server = server();
    let set = server.post("/log_level?log_level=debug", &[], "").await;
    let changed = "{\"status\":\"success\",\"message\":\"Log level set to debug\"}\n";
    assert_eq!((set.status, set.body.as_str()), (200, changed));
    let shown = server.get("/log_level", &[]).await;
    assert_eq!(shown.body, "{\"message\":\"Current log level is debug\"}\n");
    let bad = server.post("/log_level?log_level=loud", &[], "").await;
    let refused = "{\"status\":\"failed\",\"message\":\"unrecognized log level \\\"loud\\\"\"}\n";
    assert_eq!((bad.status, bad.body.as_str()), (400, refused));
}

#[tokio::test(start_paused = true)]
async fn a_push_has_an_empty_response_and_is_applied_partially_on_refusal() {
    let server = server();
    let now = NOW * 1_000_000_000;
    let whole = format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[["{now}","one"]]}}]}}"#);
    let answer = server.push_json(&whole).await;
    assert_eq!((answer.status, answer.body.as_str()), (204, ""));
    let mixed =
        format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[["{now}","two"],["1000","old"]]}}]}}"#);
    let answer = server.push_json(&mixed).await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("timestamp"), "{}", answer.body);
    let lines: Vec<usize> = server.intake.batches.lock().unwrap().iter().map(LogBatch::rows).collect();
    assert_eq!(lines, [1, 1], "the valid entry of the second push was stored");
    for (body, status) in [("{\"streams\":[", 400), ("{\"streams\":[]}", 422), ("", 400)] {
        assert_eq!(server.push_json(body).await.status, status, "{body}");
    }
    *server.intake.failure.lock().unwrap() = Some(Failure::new(ErrorKind::Busy, "the heads are full"));
    let busy = server.push_json(&whole).await;
    assert_eq!((busy.status, busy.body.as_str()), (503, "the heads are full"));
}

#[tokio::test(start_paused = true)]
async fn limits_of_size_and_rate_have_different_statuses() {
    let server = server_with(|s| {
        s.limits.max_body_size = 400;
        s.limits.ingestion_rate = 10;
        s.limits.ingestion_burst = 10;
    });
    let now = NOW * 1_000_000_000;
    let push =
        |line: &str| format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[["{now}","{line}"]]}}]}}"#);
    assert_eq!(server.push_json(&push("123456789")).await.status, 204);
    let fast = server.push_json(&push("123456789")).await;
    assert_eq!(fast.status, 429, "{}", fast.body);
    assert!(fast.body.contains("ingestion rate limit exceeded"), "{}", fast.body);
    let large = server.push_json(&push(&"x".repeat(500))).await;
    assert_eq!(large.status, 413);
    assert!(large.body.contains("max_body_size"), "{}", large.body);
}

#[tokio::test(start_paused = true)]
async fn otlp_responses_have_the_format_of_the_request() {
    let server = server();
    let path = "/otlp/v1/logs";
    let now = NOW * 1_000_000_000;
    let resource = r#"{"attributes":[{"key":"service.name","value":{"stringValue":"svc"}}]}"#;
    let record = format!(r#"{{"timeUnixNano":"{now}","body":{{"stringValue":"hi"}}}}"#);
    let scopes = format!(r#"[{{"logRecords":[{record}]}}]"#);
    let body = format!(r#"{{"resourceLogs":[{{"resource":{resource},"scopeLogs":{scopes}}}]}}"#);
    let json = [("content-type", "application/json")];
    let answer = server.post(path, &json, body).await;
    assert_eq!((answer.status, answer.body.as_str(), answer.kind.as_str()), (200, "{}", "application/json"));
    assert_eq!(server.intake.batches.lock().unwrap().len(), 1);
    let bad = server.post(path, &json, "{\"resourceLogs\":[").await;
    assert_eq!((bad.status, bad.kind.as_str()), (400, "application/json"));
    assert!(bad.body.starts_with("{\"message\":\""), "{}", bad.body);
    let protobuf = [("content-type", "application/x-protobuf")];
    let bad = server.post(path, &protobuf, "xxx").await;
    assert_eq!((bad.status, bad.kind.as_str()), (400, "application/x-protobuf"));
    assert!(bad.body.starts_with('\u{12}'), "a google.rpc.Status: {:?}", bad.body);
}

#[tokio::test(start_paused = true)]
async fn the_tenant_comes_from_the_header() {
    let open = server();
    let path = "/loki/api/v1/labels";
    assert_eq!(open.get(path, &[]).await.status, 200);
    let bad = open.get_with(path, &[], &[("x-scope-orgid", "a/b")]).await;
    assert_eq!(bad.status, 400);
    let strict = server_with(|s| s.auth.require_tenant = true);
    let missing = strict.get(path, &[]).await;
    assert_eq!((missing.status, missing.body.as_str()), (401, "no org id"));
    assert_eq!(strict.get_with(path, &[], &[("x-scope-orgid", "team-a")]).await.status, 200);
    let now = NOW * 1_000_000_000;
    let body = format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[["{now}","one"]]}}]}}"#);
    let headers = [("content-type", "application/json"), ("x-scope-orgid", "team-a")];
    assert_eq!(strict.post("/loki/api/v1/push", &headers, body).await.status, 204);
    assert_eq!(strict.intake.batches.lock().unwrap()[0].tenant.as_str(), "team-a");
}

#[tokio::test(start_paused = true)]
async fn a_push_in_the_format_before_version_1_needs_its_own_path() {
    let server = server();
    let time = jiff::Timestamp::from_second(NOW).unwrap();
    let labels = r#""labels":"{app=\"x\"}""#;
    let body = format!(r#"{{"streams":[{{{labels},"entries":[{{"ts":"{time}","line":"one"}}]}}]}}"#);
    let headers = [("content-type", "application/json")];
    let elsewhere = server.post("/loki/api/v1/push", &headers, body.clone()).await;
    assert_eq!(
        (elsewhere.status, elsewhere.body.contains("/api/prom/push")),
        (400, true),
        "{}",
        elsewhere.body
    );
    assert!(server.intake.batches.lock().unwrap().is_empty());
    let stored = server.post("/api/prom/push", &headers, body.clone()).await;
    assert_eq!((stored.status, stored.body.as_str()), (204, ""));
    let batch = server.intake.batches.lock().unwrap()[0].clone();
    let stream = &batch.streams[0];
    assert_eq!(stream.labels.get("app"), Some("x"));
    assert_eq!(stream.entries[0].timestamp, NOW * 1_000_000_000);
    assert_eq!(stream.entries[0].line.of(&batch.arena.bytes), b"one");
    let bad = server.post("/api/prom/push", &headers, body.replace("{app=", "app=")).await;
    assert_eq!((bad.status, bad.body.contains("error parsing labels")), (400, true), "{}", bad.body);
}

#[tokio::test(start_paused = true)]
async fn a_push_can_report_which_entries_it_refused() {
    let server = server_with(|s| {
        s.limits.max_line_size = 10;
        s.limits.max_label_name_length = 12; // `service_name`
    });
    let (now, old) = (NOW * 1_000_000_000, (NOW - 30 * 86_400) * 1_000_000_000);
    let values = |lines: &[(i64, &str)]| {
        let all: Vec<String> = lines.iter().map(|(ts, line)| format!(r#"["{ts}","{line}"]"#)).collect();
        all.join(",")
    };
    let long = "x".repeat(11);
    let body = format!(
        r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[{}]}},
        {{"stream":{{"much_too_long":"x"}},"values":[{}]}},
        {{"stream":{{"a b":"x"}},"values":[{}]}},
        {{"stream":{{"app":"y"}},"values":[{}]}}]}}"#,
        values(&[(now, "0"), (old, "1"), (old, "2"), (now, &long), (now, "4")]),
        values(&[(now, "5"), (now, "6")]),
        values(&[(now, "7")]),
        values(&[(now, "8"), (old, "9")]),
    );
    let asked = [("content-type", "application/json"), ("x-sandur-refused", "entries")];
    let answer = server.post("/loki/api/v1/push", &asked, body.clone()).await;
    assert_eq!(answer.status, 400);
    let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
    let expected = serde_json::json!([
        [1, 2, "greater_than_max_sample_age"],
        [3, 1, "line_too_long"],
        [5, 2, "label_name_too_long"],
        [7, 1, "invalid_labels"],
        [9, 1, "greater_than_max_sample_age"],
    ]);
    assert_eq!(json["refused"], expected);
    let text = server.post("/loki/api/v1/push", &asked[..1], body).await;
    assert_eq!((text.status, text.kind.as_str()), (400, "text/plain; charset=utf-8"));
    assert_eq!(json["message"], text.body.as_str(), "other clients get Loki's text");
    let stored: usize = server.intake.batches.lock().unwrap().iter().map(|batch| batch.rows()).sum();
    assert_eq!(stored, 6, "three of ten entries in each of two pushes");
}

#[tokio::test(start_paused = true)]
async fn operations_are_answered() {
    let server = server();
    for (path, expected) in [
        ("/ready", "ready\n"),
        ("/-/ready", "ready\n"),
        ("/-/healthy", "healthy\n"),
        ("/loki/api/v1/status/buildinfo", "{\"version\":\""),
        ("/services", "ingester => Running\n"),
        ("/config", "\nlisten: 127.0.0.1:3100\n"),
        ("/config", "\nflush:\n  max_age: 5m\n"),
        ("/config/tenant/v1/limits", "\nmax_line_size: 256KiB\n"),
        ("/config/tenant/v1/limits", "\nreject_old_samples: true\n"),
        ("/config/tenant/v1/limits", "\ndiscover_service_name:\n  - service\n  - app\n"),
        ("/loki/api/v1/drilldown-limits", "\"volume_enabled\":true"),
        ("/loki/api/v1/drilldown-limits", "\"log.level\",\"severity\""),
        ("/loki/api/v1/drilldown-limits", "\"pattern_ingester_enabled\":true"),
        ("/ring", "127.0.0.1:3100 ACTIVE\n"),
        ("/distributor/ring", "127.0.0.1:3100 ACTIVE\n"),
    ] {
        let answer = server.get(path, &[]).await;
        assert!(answer.status == 200 && answer.body.contains(expected), "{path}: {}", answer.body);
    }
    let ring = server.get_with("/ring", &[], &[("accept", "application/json")]).await;
    let ring: serde_json::Value = serde_json::from_str(&ring.body).unwrap();
    assert_eq!(ring["shards"][0]["state"], "ACTIVE");
    let changed = server_with(|s| s.flush.max_age = std::time::Duration::from_secs(60));
    let diff = changed.get("/config", &[("mode", "diff")]).await;
    assert_eq!(diff.body, "flush:\n  max_age: 1m\n");
    for path in ["/flush", "/ingester/flush", "/flush/tenant"] {
        assert_eq!(server.post(path, &[], "").await.status, 204, "{path}");
    }
    assert_eq!(server.post("/flush/tenant?streams=bad", &[], "").await.status, 400);
    let page = server.get("/metrics", &[]).await;
    assert_eq!(page.kind, "text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    let accept = [("accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")];
    let open = server.get_with("/metrics", &[], &accept).await;
    assert!(open.kind.starts_with("application/openmetrics-text") && open.body.ends_with("# EOF\n"));
    let counted = r#"sandur_http_requests_total{route="/ready",method="GET",scope="open",status="200"} 1"#;
    assert!(page.body.contains(counted), "{}", page.body);
    assert!(page.body.contains(r#"sandur_memory_budget_limit_bytes{budget="all queries"} 67108864"#));
}

#[tokio::test(start_paused = true)]
async fn the_front_page_shows_the_version_and_paths() {
    let server = server();
    let text = server.get("/", &[]).await;
    assert_eq!((text.status, text.kind.as_str()), (200, "text/plain; charset=utf-8"));
    let version = concat!("Sandur ", env!("CARGO_PKG_VERSION"));
    assert!(text.body.starts_with(version) && text.body.contains("/loki/api/v1/push"), "{}", text.body);
    assert_eq!(server.get("/nothing", &[]).await.status, 404);
}

/// Once the expressions of too many matchers were compiled before the matchers were counted. Method: the
/// last expression is invalid, which must not be noticed.
#[tokio::test(start_paused = true)]
async fn matchers_are_counted_before_one_is_compiled() {
    let server = server_with(|s| s.limits.max_streams_matchers_per_query = 3);
    let selector = |most| {
        let good = (1..most).map(|n| format!("l{n}=~\"x.*\"")).collect::<Vec<_>>().join(",");
        format!("{{{good},last=~\"(\"}}")
    };
    let index = "/loki/api/v1/index";
    let of_query = ["/loki/api/v1/query_range", "/loki/api/v1/labels", "/loki/api/v1/label/app/values"];
    let more = ["/loki/api/v1/patterns", "/loki/api/v1/detected_labels", "/loki/api/v1/detected_fields"];
    let of_index = ["stats", "volume", "volume_range"].map(|name| format!("{index}/{name}"));
    for path in of_query.into_iter().chain(more).chain(of_index.iter().map(String::as_str)) {
        let few = server.get(path, &[("query", &selector(3))]).await;
        assert!(few.status == 400 && few.body.contains("missing closing )"), "{path}: {}", few.body);
        let many = server.get(path, &[("query", &selector(4))]).await;
        assert!(
            many.status == 400 && many.body.contains("matchers-count > limit (4 > 3)"),
            "{path}: {}",
            many.body
        );
    }
    let series = "/loki/api/v1/series";
    let (two, wrong) = ("{a=\"b\",c=\"d\"}", "{last=~\"(\"}");
    let all = server.get(series, &[("match[]", two), ("match[]", "{}"), ("match[]", wrong)]).await;
    assert!(all.status == 400 && all.body.contains("matchers-count > limit (4 > 3)"), "{}", all.body);
    let all = server.get(series, &[("match[]", two), ("match[]", wrong)]).await;
    assert!(all.status == 400 && all.body.contains("missing closing )"), "{}", all.body);
    let volume = format!("{index}/volume");
    let targets = server.get(&volume, &[("query", "{a=\"b\"}"), ("targetLabels", "c,d,e")]).await;
    assert!(targets.status == 400 && targets.body.contains("(4 > 3)"), "{}", targets.body);
}
