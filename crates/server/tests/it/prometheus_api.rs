//! Prometheus's HTTP API with series in memory: formats, statuses and texts that its clients rely on.
//!
//! Method: requests go directly to the router; expectations follow Prometheus's sources.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use sandur_config::Settings;
use sandur_model::histogram::{Buckets, Span};
use sandur_model::{FloatHistogram, Labels};
use sandur_query::MemorySeries;

use crate::harness::{Answer, NOW, Server};

const QUERY: &str = "/api/v1/query";
const RANGE: &str = "/api/v1/query_range";

/// `up` and `requests_total` of two instances, every 15 s of the last ten minutes.
fn series() -> MemorySeries {
    let mut series = MemorySeries::default();
    for (n, instance) in ["a", "b"].into_iter().enumerate() {
        for name in ["up", "requests_total"] {
            let labels = Labels::from_pairs([("__name__", name), ("instance", instance), ("job", "<api>")]);
            series.edit(&labels, |samples| {
                for step in 0..=40 {
                    samples.times.push((NOW - 600 + step * 15) * 1_000);
                    let count = step as f64 * 15.0 * (n + 1) as f64;
                    samples.values.push(if name == "up" { 1.0 } else { count });
                }
            });
        }
    }
    series.edit(&Labels::from_pairs([("__name__", "size"), ("a.b", "c")]), |samples| {
        let spans = [Span { offset: 0, length: 2 }];
        let histogram = FloatHistogram {
            zero_threshold: 0.5,
            zero_count: 1.0,
            count: 6.5,
            sum: 1e30,
            positive: Buckets::from_spans(&spans, vec![2.0, 3.5]).unwrap(),
            ..FloatHistogram::default()
        };
        samples.histogram_times.push(NOW * 1_000);
        samples.histograms.push(Arc::new(histogram));
    });
    series
}

fn server() -> Server {
    server_with(|_| ())
}

fn server_with(change: impl FnOnce(&mut Settings)) -> Server {
    Server::over_samples(Arc::new(series()), change)
}

#[track_caller]
fn is(answer: &Answer, status: u16, body: &str) {
    assert_eq!((answer.status, answer.body.as_str()), (status, body));
    assert_eq!(answer.kind, "application/json");
}

#[tokio::test(start_paused = true)]
async fn instant_queries_return_every_type() {
    let server = server();
    let at = NOW.to_string();
    let get = |query: &'static str| {
        let (server, at) = (&server, at.clone());
        async move { server.get(QUERY, &[("query", query), ("time", &at)]).await }
    };
    is(
        &get("sum by (instance) (increase(requests_total[30s]) / 30 + up - 1)").await,
        200,
        concat!(
            r#"{"status":"success","data":{"resultType":"vector","result":["#,
            r#"{"metric":{"instance":"a"},"value":[1795240900,"1"]},"#,
            r#"{"metric":{"instance":"b"},"value":[1795240900,"2"]}]}}"#
        ),
    );
    is(
        &get("1e21").await,
        200,
        r#"{"status":"success","data":{"resultType":"scalar","result":[1795240900,"1e+21"]}}"#,
    );
    is(
        &get("\"x\"").await,
        200,
        r#"{"status":"success","data":{"resultType":"string","result":[1795240900,"x"]}}"#,
    );
    is(
        &get("up{instance=\"a\"}[20s]").await,
        200,
        concat!(
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","#,
            r#""instance":"a","job":"\u003capi\u003e"},"values":[[1795240885,"1"],[1795240900,"1"]]}]}}"#
        ),
    );
    is(
        &get("size").await,
        200,
        concat!(
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"size","#,
            r#""a.b":"c"},"histogram":[1795240900,{"count":"6.5","sum":"1e+30","buckets":["#,
            r#"[3,"-0.5","0.5","1"],[0,"0.5","1","2"],[0,"1","2","3.5"]]}]}]}}"#
        ),
    );
    is(&get("none").await, 200, r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#);
}

#[tokio::test(start_paused = true)]
async fn range_queries_return_matrices_with_notes_and_statistics() {
    let server = server();
    let (start, end) = ((NOW - 30).to_string(), NOW.to_string());
    let pairs =
        [("query", "rate(up{instance=\"a\"}[1m])"), ("start", &start), ("end", &end), ("step", "15s")];
    let form: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let (got, posted) = (server.get(RANGE, &pairs).await, server.post(RANGE, &headers, form).await);
    assert_eq!(got.body, posted.body);
    is(
        &got,
        200,
        concat!(
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"instance":"a","#,
            r#""job":"\u003capi\u003e"},"values":[[1795240870,"0"],[1795240885,"0"],[1795240900,"0"]]}]},"#,
            r#""infos":["PromQL info: metric might not be a counter, name does not end in "#,
            r#"_total/_sum/_count/_bucket: \"up\" (1:6)"]}"#
        ),
    );
    let histograms = [("query", "size"), ("start", &start), ("end", &end), ("step", "15")];
    let body = server.get("/prometheus/api/v1/query_range", &histograms).await.body;
    assert!(
        body.contains(r#""metric":{"__name__":"size","a.b":"c"},"histograms":[[1795240900,{"count""#),
        "{body}"
    );
    let mut all = vec![("query", "sum(up)"), ("start", &start), ("end", &end), ("step", "15")];
    all.extend([("stats", "all"), ("limit", "1")]);
    let answer: serde_json::Value = serde_json::from_str(&server.get(RANGE, &all).await.body).unwrap();
    let samples = &answer["data"]["stats"]["samples"]["totalQueryableSamples"];
    assert!(samples.as_u64().unwrap() > 0 && answer.get("warnings").is_none(), "{answer}");
    let cut = server.get(QUERY, &[("query", "up"), ("limit", "1"), ("stats", "yes")]).await;
    assert!(
        cut.body.contains(r#""warnings":["results truncated due to limit","value \"yes\" for"#),
        "{}",
        cut.body
    );
    let answer: serde_json::Value = serde_json::from_str(&cut.body).unwrap();
    assert_eq!(answer["data"]["result"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_refused_with_prometheus_texts() {
    let server = server_with(|settings| settings.query.max_samples = 50);
    for (path, pairs, status, kind, text) in [
        (QUERY, &[("query", "up{")][..], 400, "bad_data", "invalid parameter \"query\": 1:4: parse error: "),
        (
            QUERY,
            &[],
            400,
            "bad_data",
            "invalid parameter \"query\": unknown position: parse error: no expression",
        ),
        (
            QUERY,
            &[("query", "1"), ("time", "x")],
            400,
            "bad_data",
            "invalid parameter \"time\": invalid time value",
        ),
        (
            QUERY,
            &[("query", "1"), ("limit", "-1")],
            400,
            "bad_data",
            "invalid parameter \"limit\": limit must be",
        ),
        (
            QUERY,
            &[("query", "1"), ("timeout", "x")],
            400,
            "bad_data",
            "invalid parameter \"timeout\": cannot parse",
        ),
        (
            QUERY,
            &[("query", "up"), ("timeout", "0")],
            400,
            "bad_data",
            "invalid parameter \"timeout\": timeout must be positive, got 0s",
        ),
        (
            QUERY,
            &[("query", "requests_total[10m]")],
            422,
            "execution",
            "query processing would load too many",
        ),
        (
            QUERY,
            &[("query", "up + on (job) up")],
            422,
            "execution",
            "found duplicate series for the match group",
        ),
        (RANGE, &[("query", "1"), ("start", "1")], 400, "bad_data", "invalid parameter \"end\""),
        ("/api/v1/series", &[], 400, "bad_data", "no match[] parameter provided"),
        (
            "/api/v1/labels",
            &[("match[]", "{}")],
            400,
            "bad_data",
            "match[] must contain at least one non-empty",
        ),
        ("/api/v1/labels", &[("match[]", "{")], 400, "bad_data", "1:2: parse error: "),
        ("/api/v1/format_query", &[("query", "sum(")], 400, "bad_data", "invalid parameter \"query\": "),
    ] {
        let answer = server.get(path, pairs).await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let error = body["error"].as_str().unwrap();
        assert_eq!(
            (answer.status, body["errorType"].as_str().unwrap()),
            (status, kind),
            "{path} {pairs:?} {body}"
        );
        assert!(error.starts_with(text) && body["status"] == "error", "{path} {pairs:?} {error}");
    }
}

/// A query whose type or computed durations are invalid is an error of the request: it is refused before
/// any evaluation.
#[tokio::test(start_paused = true)]
async fn invalid_range_vectors_and_durations_are_bad_data() {
    let server = server();
    let at = [("time", "100")];
    let range = [("start", "0"), ("end", "100"), ("step", "10")];
    for (path, query, times, error) in [
        (
            RANGE,
            "up[5m]",
            &range[..],
            "invalid expression type \"range vector\" for range query, must be Scalar or instant Vector",
        ),
        (
            RANGE,
            "'a'",
            &range,
            "invalid expression type \"string\" for range query, must be Scalar or instant Vector",
        ),
        (QUERY, "rate(up[step()])", &at, "8:14: duration must be greater than 0"),
        (RANGE, "sum(rate(up[step() - 10s]))", &range, "12:24: duration must be greater than 0"),
        (RANGE, "up offset (1m / (step() - 10))", &range, "11:28: division by zero"),
    ] {
        let pairs = [&[("query", query)], times].concat();
        let answer = server.get(path, &pairs).await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!((answer.status, &body["errorType"]), (400, &"bad_data".into()), "{query} {body}");
        assert_eq!(body["error"], format!("invalid parameter \"query\": {error}"), "{query}");
    }
    for (path, query, times) in [(QUERY, "up[5m]", &at[..]), (RANGE, "rate(up[step()])", &range)] {
        assert_eq!(server.get(path, &[&[("query", query)], times].concat()).await.status, 200, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn labels_values_and_series_are_listed() {
    let server = server();
    let list = |data: &str| format!(r#"{{"status":"success","data":{data}}}"#);
    let labels = server.get("/api/v1/labels", &[]).await;
    is(&labels, 200, &list(r#"["__name__","a.b","instance","job"]"#));
    let labels =
        server.get("/api/v1/labels", &[("match[]", "up"), ("match[]", "size"), ("limit", "3")]).await;
    let cut = r#"["__name__","a.b","instance"],"warnings":["results truncated due to limit"]"#;
    is(&labels, 200, &list(cut));
    let values = server.get("/api/v1/label/__name__/values", &[("match[]", "{job=~\".+\"}")]).await;
    is(&values, 200, &list(r#"["requests_total","up"]"#));
    let values = server.get("/prometheus/api/v1/label/U__a_2e_b/values", &[("start", "0")]).await;
    is(&values, 200, &list(r#"["c"]"#));
    let old = server.get("/api/v1/label/job/values", &[("end", "1000")]).await;
    is(&old, 200, &list("[]"));
    let series = server.get("/api/v1/series", &[("match[]", "size"), ("match[]", "{\"a.b\"=\"c\"}")]).await;
    is(&series, 200, &list(r#"[{"__name__":"size","a.b":"c"}]"#));
    let series = server.get("/api/v1/series", &[("match[]", "{instance=\"b\"}"), ("limit", "0")]).await;
    assert_eq!(series.body.matches("__name__").count(), 2, "{}", series.body);
    let formatted = server.get("/api/v1/format_query", &[("query", "sum( up )")]).await;
    is(&formatted, 200, &list(r#""sum(up)""#));
    let tree = server.get("/api/v1/parse_query", &[("query", "-up")]).await;
    let tree: serde_json::Value = serde_json::from_str(&tree.body).unwrap();
    assert_eq!(tree["data"]["type"], "unaryExpr");
}

#[tokio::test(start_paused = true)]
async fn several_tenants_can_be_queried_together_and_distinguished() {
    let server = server_with(|settings| settings.query.multi_tenant = true);
    let headers = [("x-scope-orgid", "one|two")];
    let pairs = [("query", "count by (__tenant_id__) (up)")];
    let answer = server.get_with(QUERY, &pairs, &headers).await;
    assert!(answer.body.contains(r#"{"__tenant_id__":"one"}"#), "{}", answer.body);
    assert!(answer.body.contains(r#"{"__tenant_id__":"two"}"#), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn samples_before_the_lookback_of_a_tenant_are_invisible() {
    let server = server_with(|settings| settings.limits.max_query_lookback = 60 * 1_000_000_000);
    let answer = server.get(QUERY, &[("query", "count_over_time(up{instance=\"a\"}[10m])")]).await;
    assert!(answer.body.contains(r#"[1795240900,"5"]"#), "{}", answer.body);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_arrives_completely_in_parts() {
    let mut series = MemorySeries::default();
    for n in 0..300 {
        let labels = Labels::from_pairs([("__name__", "long".to_owned()), ("n", format!("{n:03}"))]);
        series.edit(&labels, |samples| {
            for step in 0..100 {
                samples.times.push((NOW - 100 + step) * 1_000);
                samples.values.push(step as f64);
            }
        });
    }
    let server = Server::over_samples(Arc::new(series), |_| ());
    for query in ["long[5m]", "sort(long)"] {
        let answer = server.get(QUERY, &[("query", query)]).await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let rows = body["data"]["result"].as_array().unwrap();
        let samples: usize = rows.iter().map(|row| row["values"].as_array().map_or(1, Vec::len)).sum();
        assert_eq!((rows.len(), samples), (300, if query == "long[5m]" { 30_000 } else { 300 }));
    }
}

/// `/api/v1/...` and the same below `/prometheus`.
const STATUS: [(&str, &str, &str); 17] = [
    ("targets", "/activeTargets", "[]"),
    ("targets/metadata", "", "[]"),
    ("scrape_pools", "/scrapePools", "[]"),
    ("status/buildinfo", "/version", "\"3.16.0\""),
    ("status/runtimeinfo", "/storageRetention", "\"unlimited\""),
    ("status/config", "/yaml", ""),
    ("status/flags", "/query.max-samples", "\"1000000000\""),
    ("status/walreplay", "/current", "0"),
    ("status/tsdb/blocks", "/blocks", "[]"),
    ("features", "/promql/smoothed", "true"),
    ("features", "/promql/fill_left", "true"),
    ("features", "/promql_functions/integral", "true"),
    ("alertmanagers", "/activeAlertmanagers", "[]"),
    ("rules", "/groups", "[]"),
    ("alerts", "/alerts", "[]"),
    ("metadata", "", "{}"),
    ("query_exemplars", "", "[]"),
];

#[tokio::test(start_paused = true)]
async fn probes_of_grafana_get_the_expected_format() {
    let server = server();
    for base in ["/api/v1", "/prometheus/api/v1"] {
        for (path, at, expected) in STATUS {
            let answer = server.get(&format!("{base}/{path}"), &[("query", "up")]).await;
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            let found = body["data"].pointer(at).unwrap_or_else(|| panic!("{path}: {body}")).to_string();
            assert!(answer.status == 200 && body["status"] == "success", "{path} {body}");
            assert!(expected.is_empty() || found == expected, "{path} {found}");
        }
    }
    let tsdb = server.get("/api/v1/status/tsdb", &[("limit", "1")]).await;
    let tsdb: serde_json::Value = serde_json::from_str(&tsdb.body).unwrap();
    assert_eq!(tsdb["data"]["headStats"]["numSeries"], 5);
    assert_eq!(tsdb["data"]["seriesCountByMetricName"][0]["value"], 2);
    assert_eq!(tsdb["data"]["seriesCountByLabelValuePair"][0]["name"], "job=<api>");
    assert_eq!(tsdb["data"]["labelValueCountByLabelName"][0]["name"], "__name__");
    assert_eq!(server.get("/api/v1/status/tsdb", &[("limit", "0")]).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn names_are_searched_line_by_line() {
    let server = server();
    let find = |path: &'static str, pairs: &'static [(&'static str, &'static str)]| {
        let server = &server;
        async move { server.get(&format!("/api/v1/search/{path}"), pairs).await }
    };
    let all = find("metric_names", &[]).await;
    assert_eq!((all.status, all.kind.as_str()), (200, "application/x-ndjson; charset=utf-8"));
    assert_eq!(
        all.body,
        "{\"results\":[{\"name\":\"requests_total\"},{\"name\":\"size\"},{\"name\":\"up\"}]}\n\
         {\"status\":\"success\",\"has_more\":false}\n"
    );
    let some = find("metric_names", &[("search[]", "rt"), ("include_score", "1"), ("limit", "1")]).await;
    assert!(
        some.body.starts_with("{\"results\":[{\"name\":\"requests_total\",\"score\":0."),
        "{}",
        some.body
    );
    let cut = find(
        "label_names",
        &[("limit", "2"), ("batch_size", "1"), ("sort_by", "alpha"), ("sort_dir", "dsc")],
    );
    assert_eq!(
        cut.await.body,
        "{\"results\":[{\"name\":\"job\"}]}\n{\"results\":[{\"name\":\"instance\"}]}\n\
         {\"status\":\"success\",\"has_more\":true}\n"
    );
    let values =
        find("label_values", &[("label", "instance"), ("search[]", "B"), ("case_sensitive", "false")]);
    assert!(values.await.body.starts_with("{\"results\":[{\"value\":\"b\"}]}\n"));
    for pairs in [
        &[][..],
        &[("label", "a"), ("fuzz_alg", "x")],
        &[("label", "a"), ("fuzz_threshold", "101")],
        &[("label", "a"), ("sort_by", "score")],
        &[("label", "a"), ("sort_dir", "asc")],
        &[("label", "a"), ("limit", "0")],
        &[("label", "a"), ("case_sensitive", "maybe")],
        &[("label", "a"), ("start", "5"), ("end", "4")],
    ] {
        let answer = server.get("/api/v1/search/label_values", pairs).await;
        assert!(answer.status == 400 && answer.body.contains("bad_data"), "{pairs:?} {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn names_in_utf8_are_escaped_for_scrapers_without_support() {
    let mut series = MemorySeries::default();
    let labels = Labels::from_pairs([("__name__", "http.size"), ("host.name", "a"), ("instance", "b")]);
    series.edit(&labels, |samples| {
        samples.times.push(NOW * 1_000);
        samples.values.push(1.0);
    });
    let server = Server::over_samples(Arc::new(series), |_| ());
    for (accept, kind, body) in [
        ("", "underscores", "# TYPE http_size untyped\nhttp_size{host_name=\"a\",instance=\"b\"} 1"),
        (
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "underscores",
            "# TYPE http_size untyped\nhttp_size{host_name=\"a\",instance=\"b\"} 1",
        ),
        (
            "text/plain;escaping=dots",
            "dots",
            "# TYPE http_dot_size untyped\nhttp_dot_size{host_dot_name=\"a\",instance=\"b\"} 1",
        ),
        (
            "text/plain;escaping=values",
            "values",
            "# TYPE U__http_2e_size untyped\nU__http_2e_size{U__host_2e_name=\"a\",instance=\"b\"} 1",
        ),
        (
            "text/plain;escaping=allow-utf-8",
            "allow-utf-8",
            "# TYPE \"http.size\" untyped\n{\"http.size\",\"host.name\"=\"a\",instance=\"b\"} 1",
        ),
    ] {
        let pairs = [("match[]", "{instance=\"b\"}")];
        let text = server.get_with("/federate", &pairs, &[("accept", accept)]).await;
        assert_eq!(text.body, format!("{body} 1795240900000\n"), "{accept}");
        let expected = format!("text/plain; version=0.0.4; charset=utf-8; escaping={kind}");
        assert_eq!(text.kind, expected, "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn times_of_all_years_are_accepted() {
    let server = server_with(|s| s.limits.max_query_length = 0);
    let (from, to) = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z");
    for (path, pairs) in [
        (QUERY, &[("query", "1"), ("time", to)][..]),
        (RANGE, &[("query", "up"), ("start", from), ("end", to), ("step", "100y")]),
        ("/api/v1/series", &[("match[]", "up"), ("start", from), ("end", to)]),
        ("/api/v1/labels", &[("start", from), ("end", to)]),
        ("/api/v1/label/job/values", &[("start", from), ("end", to)]),
        ("/api/v1/query_exemplars", &[("query", "up"), ("start", from), ("end", to)]),
        ("/loki/api/v1/labels", &[("start", from), ("end", to)]),
        ("/loki/api/v1/series", &[("match[]", "{a=\"b\"}"), ("start", from), ("end", to)]),
        ("/loki/api/v1/query_range", &[("query", "{a=\"b\"}"), ("start", from), ("end", to)]),
    ] {
        let answer = server.get(path, pairs).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    let up = server.get("/api/v1/series", &[("match[]", "up"), ("start", from), ("end", to)]).await;
    assert!(up.body.contains(r#""instance":"a""#), "{}", up.body);
    let pairs = [("query", "count_over_time({a=\"b\"}[1h])"), ("start", from), ("end", to), ("step", "290y")];
    let long = server.get("/loki/api/v1/query_range", &pairs).await;
    assert_eq!(long.status, 400);
    assert!(long.body.starts_with("the query time range exceeds the limit of 292 years"), "{}", long.body);
}

#[tokio::test(start_paused = true)]
async fn federation_returns_the_last_samples() {
    let server = server();
    let pairs = [("match[]", "up"), ("match[]", "{instance=\"a\"}"), ("match[]", "size")];
    let text = server.get("/federate", &pairs).await;
    assert_eq!(
        text.body,
        "# TYPE requests_total untyped\nrequests_total{instance=\"a\",job=\"<api>\"} 600 1795240900000\n\
         # TYPE up untyped\nup{instance=\"a\",job=\"<api>\"} 1 1795240900000\n\
         up{instance=\"b\",job=\"<api>\"} 1 1795240900000\n"
    );
    assert!(text.kind.starts_with("text/plain; version=0.0.4"), "{}", text.kind);
    let accept = [("accept", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")];
    let open = server.get_with("/federate", &[("match[]", "up")], &accept).await;
    assert!(open.body.starts_with("# TYPE up unknown\nup{instance=\"a\",") && open.body.ends_with("# EOF\n"));
    assert!(open.body.contains("} 1 1795240900\n"), "{}", open.body);
    assert_eq!(server.get("/federate", &[]).await.body, "");
    assert_eq!(server.get("/federate", &[("match[]", "up{")]).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn deletes_have_series_and_times() {
    let server = server();
    let path = "/api/v1/admin/tsdb/delete_series?match[]=up&match[]={job=\"a\"}&start=5&end=7.5";
    let path = path.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
    assert_eq!(server.post(&path, &[], "").await.status, 204);
    let all = server.intake.deletes.0.lock().unwrap().clone();
    let up = r#"{"__name__"="up"}"#.to_owned();
    assert_eq!(all, [(up, 5_000, 7_500), (r#"{"job"="a"}"#.to_owned(), 5_000, 7_500)]);
    let none = server.post("/api/v1/admin/tsdb/delete_series", &[], "").await;
    assert!(none.status == 400 && none.body.contains("no match[] parameter provided"));
    assert_eq!(server.post("/api/v1/admin/tsdb/clean_tombstones", &[], "").await.status, 204);
    assert_eq!(server.post("/api/v1/admin/tsdb/snapshot", &[], "").await.status, 503);
    assert_eq!(server.get("/api/v1/admin/tsdb/delete_series", &[("match[]", "up")]).await.status, 405);
}

#[tokio::test(start_paused = true)]
async fn remote_read_returns_samples_and_chunks() {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use sandur_protobuf::{Reader, Writer as _};
    use tower::ServiceExt;

    let server = server();
    // One query: __name__="up" over all times; field 2 contains the response types that the client
    // accepts.
    let mut request = Vec::new();
    request.message(1, |query| {
        query.number(2, 1 << 49); // the end
        query.message(3, |matcher| {
            matcher.text(2, "__name__");
            matcher.text(3, "up");
        });
    });
    let ask = |accepted: &[u8]| {
        let mut message = request.clone();
        message.extend(accepted);
        let body = snap::raw::Encoder::new().compress_vec(&message).unwrap();
        let request = Request::builder().method("POST").uri("/api/v1/read").body(Body::from(body)).unwrap();
        let router = server.router.clone();
        async move {
            let response = router.oneshot(request).await.unwrap();
            let kind = response.headers()["content-type"].to_str().unwrap().to_owned();
            let status = response.status().as_u16();
            (status, kind, response.into_body().collect().await.unwrap().to_bytes())
        }
    };
    let (status, kind, body) = ask(&[]).await;
    assert_eq!((status, kind.as_str()), (200, "application/x-protobuf"));
    let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    let times = plain.windows(2).filter(|pair| pair == b"up").count();
    assert_eq!(times, 2, "two series");
    let (status, kind, body) = ask(&[0x10, 0x01]).await;
    assert_eq!(status, 200);
    assert_eq!(kind, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse");
    // Frames: length, checksum, message.
    let (mut rest, mut frames) = (&body[..], 0);
    while !rest.is_empty() {
        let mut prefix = Reader::new(rest);
        let length = prefix.varint().unwrap() as usize;
        rest = prefix.rest();
        let checksum = u32::from_be_bytes(rest[..4].try_into().unwrap());
        assert_eq!(crc32c::crc32c(&rest[4..4 + length]), checksum);
        rest = &rest[4 + length..];
        frames += 1;
    }
    assert_eq!(frames, 2);
    let (status, _, body) = ask(&[0x10, 0x07]).await;
    let text = String::from_utf8_lossy(&body);
    assert!(status == 400 && text.contains("requested response types"), "{text}");
    let broken = server.post("/api/v1/read", &[], vec![0xFF, 0xFF, 0xFF, 0xFF, 0x7F]).await;
    assert_eq!(broken.status, 400, "{}", broken.body);
}

/// Requests of Grafana's data source: method, path, parameters, and the expected value at a pointer.
type Call = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str, &'static str);

const GRAFANA: &[Call] = &[
    // Save & test.
    ("POST", "query", &[("query", "1+1"), ("time", "1795240900")], "/data/result/1", "\"2\""),
    ("GET", "status/buildinfo", &[], "/data/version", ""),
    // The query builder.
    (
        "POST",
        "labels",
        &[("start", "1795237200"), ("end", "1795240900"), ("limit", "40000")],
        "/data/0",
        "\"__name__\"",
    ),
    (
        "GET",
        "label/__name__/values",
        &[("start", "1795237200"), ("end", "1795240900"), ("limit", "40000"), ("match[]", "{job=\"<api>\"}")],
        "/data/1",
        "\"up\"",
    ),
    (
        "POST",
        "series",
        &[("match[]", "up"), ("start", "1795237200"), ("end", "1795240900"), ("limit", "1000")],
        "/data/0/job",
        "",
    ),
    ("GET", "metadata", &[("limit_per_metric", "1"), ("limit", "10000")], "/data", "{}"),
    ("GET", "rules", &[], "/data/groups", "[]"),
    // A panel: steps are aligned, the range is in seconds with three decimals.
    (
        "POST",
        "query_range",
        &[
            ("query", "sum by(instance) (rate(requests_total{job=\"<api>\"}[1m0s]))"),
            ("start", "1795240605.000"),
            ("end", "1795240890.000"),
            ("step", "15.000"),
            ("timeout", "30s"),
        ],
        "/data/result/1/metric/instance",
        "\"b\"",
    ),
    (
        "POST",
        "query_exemplars",
        &[("query", "up"), ("start", "1795237200.000"), ("end", "1795240900.000")],
        "/data",
        "[]",
    ),
];

#[tokio::test(start_paused = true)]
async fn requests_of_grafana_get_the_expected_format() {
    let server = server();
    for (method, path, pairs, at, expected) in GRAFANA {
        let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(*pairs).finish();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let answer = match *method {
            "POST" => server.post(&format!("/api/v1/{path}"), &headers, form).await,
            _ => server.get(&format!("/api/v1/{path}"), pairs).await,
        };
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        assert!(answer.status == 200 && body["status"] == "success", "{path} {body}");
        let found = body.pointer(at).unwrap_or_else(|| panic!("{path}: {body}")).to_string();
        assert!(expected.is_empty() || found == *expected, "{path} {found}");
    }
}

#[tokio::test(start_paused = true)]
async fn parameters_at_the_edges_of_their_types_are_answered_or_refused() {
    let server = server();
    let numbers =
        ["0", "-1", "1e308", "-1e308", "NaN", "inf", "-inf", "9223372036854775807", "1e18", "x", "\u{0}"];
    for number in numbers {
        for pairs in [
            [("query", "up"), ("time", number), ("limit", "1")],
            [("query", "up"), ("time", "5"), ("limit", number)],
            [("query", "up"), ("timeout", number), ("stats", number)],
            [("query", "up"), ("lookback_delta", number), ("time", "5")],
        ] {
            let status = server.get(QUERY, &pairs).await.status;
            assert!([200, 400, 422, 503].contains(&status), "{pairs:?} {status}");
        }
        for name in ["start", "end", "step"] {
            let mut pairs = vec![("query", "up"), ("start", "0"), ("end", "5"), ("step", "1")];
            pairs.retain(|(key, _)| *key != name);
            pairs.push((name, number));
            let status = server.get(RANGE, &pairs).await.status;
            assert!([200, 400, 422].contains(&status), "{pairs:?} {status}");
        }
        for path in
            ["series", "labels", "label/job/values", "query_exemplars", "status/tsdb", "search/label_names"]
        {
            let pairs =
                [("match[]", "up"), ("query", "up"), ("start", number), ("end", number), ("limit", number)];
            let status = server.get(&format!("/api/v1/{path}"), &pairs).await.status;
            assert!([200, 400, 422].contains(&status), "{path} {number} {status}");
        }
    }
    let deep = format!("{}up{}", "(".repeat(50_000), ")".repeat(50_000));
    let long = format!("up{}", " + up".repeat(20_000));
    for query in [deep, long] {
        let form = url::form_urlencoded::Serializer::new(String::new()).append_pair("query", &query).finish();
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        for path in [QUERY, "/api/v1/format_query", "/api/v1/parse_query", "/api/v1/query_exemplars"] {
            let answer = server.post(path, &headers, form.clone()).await;
            assert!([400, 422].contains(&answer.status), "{path} {}", answer.status);
        }
    }
    let many: Vec<(&str, &str)> = vec![("match[]", "up"); 1_001];
    assert_eq!(server.get("/api/v1/labels", &many).await.status, 400);
}

/// A source whose scans return nothing and never end.
struct Endless {
    index: MemorySeries,
    /// Number of running scans.
    running: Arc<std::sync::atomic::AtomicUsize>,
}

struct EndlessScan(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for EndlessScan {
    fn drop(&mut self) {
        self.0.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
    }
}

impl sandur_query::Indexed for Endless {
    type Index = MemorySeries;

    fn index(&self) -> &MemorySeries {
        &self.index
    }
}

impl sandur_query::Versions for Endless {}

impl sandur_query::SampleScan for EndlessScan {
    fn next(
        &mut self,
    ) -> sandur_base::BoxFuture<'_, Result<Option<sandur_query::SeriesBatch>, sandur_query::Error>> {
        Box::pin(std::future::pending())
    }
}

impl sandur_query::SampleSource for Endless {
    fn select<'a>(
        &'a self,
        _: &'a sandur_query::QueryContext,
        _: sandur_query::SampleSelection,
    ) -> sandur_base::BoxFuture<'a, Result<Box<dyn sandur_query::SampleScan>, sandur_query::Error>> {
        self.running.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let scan = EndlessScan(Arc::clone(&self.running));
        Box::pin(async move { Ok(Box::new(scan) as Box<dyn sandur_query::SampleScan>) })
    }

    fn exemplars<'a>(
        &'a self,
        _: &'a sandur_query::QueryContext,
        _: sandur_query::SeriesRequest,
    ) -> sandur_base::BoxFuture<'a, Result<sandur_query::Exemplars, sandur_query::Error>> {
        Box::pin(std::future::pending())
    }

    fn metadata<'a>(
        &'a self,
        _: &'a sandur_query::QueryContext,
        _: sandur_query::MetadataSelection,
    ) -> sandur_base::BoxFuture<'a, Result<sandur_query::Metadata, sandur_query::Error>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_ends_at_its_deadline_and_when_its_client_disconnects() {
    use std::sync::atomic::Ordering;

    let running = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let endless = Endless { index: series(), running: Arc::clone(&running) };
    let server = Server::over_samples(Arc::new(endless), |settings| {
        settings.query.timeout = std::time::Duration::from_secs(5);
    });
    let range = [("query", "up"), ("start", "0"), ("end", "60"), ("step", "1")];
    for (path, pairs, waits) in [
        (QUERY, &[("query", "up")][..], 5_000),
        (QUERY, &[("query", "up"), ("timeout", "200ms")], 200),
        (QUERY, &[("query", "up"), ("timeout", "1h")], 5_000),
        (RANGE, &range, 5_000),
        ("/federate", &[("match[]", "up")], 5_000),
        ("/api/v1/query_exemplars", &[("query", "up")], 5_000),
        ("/api/v1/metadata", &[], 5_000),
    ] {
        let began = server.app.env.monotonic();
        let answer = server.get(path, pairs).await;
        assert!(answer.status == 503 && answer.body.contains("timed out"), "{path} {}", answer.body);
        assert_eq!((server.app.env.monotonic() - began).as_millis(), waits, "{path} {pairs:?}");
        assert_eq!(running.load(Ordering::SeqCst), 0, "{path}");
    }
    let cancelled = server.app.queries.metrics().cancelled.get();
    let left = server.get(QUERY, &[("query", "up")]);
    let brief = std::time::Duration::from_millis(20);
    assert!(tokio::time::timeout(brief, left).await.is_err());
    assert_eq!(running.load(Ordering::SeqCst), 0);
    assert_eq!(server.app.queries.metrics().cancelled.get(), cancelled + 1);
}
