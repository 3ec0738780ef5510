//! Graphite's HTTP API with series in memory: formats and statuses that Grafana, graphite-web and
//! carbonapi rely on.
//!
//! Method: requests go directly to the router. Results of the language itself are compared with recorded
//! ones elsewhere.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use sandur_model::{Labels, Level, graphite_path_labels, graphite_tagged_labels};
use sandur_query::{MemoryRow, MemorySeries, MemorySource};

use crate::harness::{Answer, NOW, Server};
use crate::process::encode;

/// Paths with a value in each of the last five minutes, one that ended two days ago, tagged series, and
/// one that did not arrive as a Graphite path.
fn series() -> MemorySeries {
    let mut series = MemorySeries::default();
    let mut add = |labels: Labels, last: i64| {
        series.edit(&labels, |samples| {
            for minute in 0..5 {
                samples.times.push((last - last % 60 - (4 - minute) * 60) * 1000 + 7);
                samples.values.push(minute as f64);
            }
        });
    };
    for path in ["servers.web1.load", "servers.web2.load", "servers.web2.cpu.user"] {
        add(graphite_path_labels(path).unwrap(), NOW);
    }
    add(graphite_path_labels("servers.old.load").unwrap(), NOW - 2 * 86_400);
    add(graphite_tagged_labels("disk.used", [("dc", "eu"), ("host", "a")]).unwrap(), NOW);
    add(Labels::from_pairs([("__name__", "up"), ("dc", "us")]), NOW);
    series
}

fn server() -> Server {
    Server::over_samples(Arc::new(series()), |_| ())
}

async fn get(server: &Server, address: &str) -> Answer {
    server.send(Request::get(address).body(Body::empty()).unwrap()).await
}

async fn post(server: &Server, address: &str, kind: &str, body: &str) -> Answer {
    let request = Request::post(address).header("content-type", kind).body(Body::from(body.to_owned()));
    server.send(request.unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn render_accepts_parameters_in_address_form_and_json() {
    let server = server();
    let (from, until) = (NOW - NOW % 60 - 180, NOW - NOW % 60);
    let expected = |name: &str| {
        let points: Vec<String> =
            (2..5).map(|n| format!("[{}.0, {}]", n, NOW - NOW % 60 - (4 - n) * 60)).collect();
        format!(
            "[{{\"target\": \"{name}\", \"tags\": {{\"name\": \"{name}\"}}, \"datapoints\": [{}]}}]",
            points.join(", ")
        )
    };
    let asked = format!("target=servers.*1.load&from={from}&until={until}&format=json");
    let form = "application/x-www-form-urlencoded";
    let object =
        format!(r#"{{"target":["servers.*1.load"],"from":{from},"until":"{until}","format":"json"}}"#);
    for answer in [
        get(&server, &format!("/render?{asked}")).await,
        get(&server, &format!("/graphite/render/?{asked}")).await,
        post(&server, "/render", form, &asked).await,
        post(&server, "/graphite/render", "application/json", &object).await,
    ] {
        assert_eq!((answer.status, answer.kind.as_str()), (200, "application/json"), "{}", answer.body);
        assert_eq!(answer.body, expected("servers.web1.load"));
    }
    let tagged = format!("/render?target=seriesByTag('dc=~.')&from={from}&until={until}&format=json");
    let answer = get(&server, &tagged).await;
    assert!(
        answer.body.contains("disk.used;dc=eu;host=a") && answer.body.contains("up;dc=us"),
        "{}",
        answer.body
    );
    for (wrong, status) in [
        ("target=scale(a.b)&from=-1h", 400),
        ("target=servers.*.load&from=xyz", 400),
        ("target=servers.*.load&format=png2", 400),
        ("target=servers.*.load&from=0&until=99999999999999", 400),
    ] {
        let answer = get(&server, &format!("/render?{wrong}")).await;
        assert_eq!(answer.status, status, "{wrong}: {}", answer.body);
    }
    assert_eq!(post(&server, "/render", "application/json", "[1]").await.status, 400);
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

#[tokio::test(start_paused = true)]
async fn without_a_format_the_answer_is_an_image() {
    let server = server();
    let asked = "target=servers.*.load&from=-10min&width=400&height=200&title=Load";
    for address in [
        format!("/render?{asked}"),
        format!("/render/?{asked}&format=png"),
        format!("/graphite/render?{asked}&format=png&width=8000&height=250"),
    ] {
        let answer = get(&server, &address).await;
        assert_eq!((answer.status, answer.kind.as_str()), (200, "image/png"), "{}", answer.body);
        assert!(answer.body.starts_with("\u{fffd}PNG\r\n") && answer.body.contains("IEND"));
    }
    for (size, limit) in [("width=4001&height=1000", "4000000"), ("width=9000&height=20", "8000")] {
        let answer = get(&server, &format!("/render?{asked}&{size}")).await;
        assert!(answer.status == 400 && answer.body.contains(limit), "{}", answer.body);
    }
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

/// graphite-web looks for paths in directories, where an empty name is the directory itself. These
/// patterns once found nothing; the expected answers are those of graphite-web 1.1.10 for such a tree.
#[tokio::test(start_paused = true)]
async fn an_empty_node_of_a_find_is_its_branch() {
    let server = server();
    for (pattern, expected) in [
        ("servers.{}", "servers."),
        ("servers.", "servers."),
        ("servers..", "servers."),
        ("*.", "servers."),
        (".", ""),
        ("{}", ""),
        (".servers", "servers"),
        ("servers.*.", "servers.old. servers.web1. servers.web2."),
        ("servers.{web1,}", "servers. servers.web1"),
        ("servers.{}.web1", "servers.web1"),
        ("servers..web1.load", "servers.web1.load"),
        ("servers.{,web1}.load", "servers.web1.load"),
        ("servers.**.", "servers. servers.old. servers.web1. servers.web2. servers.web2.cpu."),
        ("servers.web1.load.", "-"),
        ("servers..cpu", "-"),
    ] {
        let answer = get(&server, &format!("/metrics/expand?query={}", encode(pattern))).await;
        let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
        let paths: Vec<String> = serde_json::from_value(body["results"].clone()).unwrap();
        let shown = if paths.is_empty() { "-".to_owned() } else { paths.join(" ") };
        assert_eq!(shown, expected, "{pattern}");
    }
    let answer = get(&server, "/metrics/find?query=servers.").await;
    let expected = r#"[{"text": "", "id": "servers.", "allowChildren": 1, "expandable": 1, "leaf": 0}]"#;
    assert_eq!(answer.body, expected);
    let wide = encode(&["{a,}"; 7].join("."));
    let answer = get(&server, &format!("/metrics/find?query={wide}")).await;
    assert!(answer.status == 400 && answer.body.contains("64 patterns"), "{}", answer.body);
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

#[tokio::test(start_paused = true)]
async fn a_find_with_times_finds_what_has_values_then() {
    let server = server();
    let body = |answer: Answer| {
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let server = &server;
    let of = |query: String| async move {
        body(get(server, &format!("/metrics/find?format=nodelist&{query}")).await)
    };
    let recent = format!("from={}&until={NOW}", NOW - 3600);
    assert_eq!(of(format!("query=servers.*&position=1&{recent}")).await, r#"{"nodes": ["web1", "web2"]}"#);
    assert_eq!(of("query=servers.*&position=1".into()).await, r#"{"nodes": ["old", "web1", "web2"]}"#);
    assert_eq!(of("query=*.web2.*.user".into()).await, r#"{"nodes": ["user"]}"#);
    assert_eq!(of("query=*.*".into()).await, r#"{"nodes": ["old", "web1", "web2"]}"#);
    assert_eq!(of("query=servers.**&position=-1".into()).await.matches("load").count(), 1);
    let tree =
        post(server, "/metrics/find", "application/x-www-form-urlencoded", "query=servers.web2.*").await;
    let tree: serde_json::Value = serde_json::from_str(&tree.body).unwrap();
    assert_eq!((&tree[0]["text"], &tree[0]["leaf"], &tree[1]["leaf"]), (&"cpu".into(), &0.into(), &1.into()));
    let expanded = body(get(server, "/metrics/expand?query=servers.web*.load").await);
    assert_eq!(expanded, r#"{"results": ["servers.web1.load", "servers.web2.load"]}"#);
    let all = body(get(server, "/metrics/index.json").await);
    assert_eq!(all.matches("servers").count(), 4);
    assert_eq!(body(get(server, "/metrics/list/").await).matches("servers").count(), 4);
    assert_eq!(get(server, "/metrics/find").await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn tags_are_labels_without_those_of_paths() {
    let server = server();
    let server = &server;
    let of = |address: &'static str| async move {
        let answer = get(server, address).await;
        assert_eq!(answer.status, 200, "{address}: {}", answer.body);
        answer.body
    };
    assert_eq!(of("/tags").await, r#"[{"tag": "dc"}, {"tag": "host"}, {"tag": "name"}]"#);
    assert_eq!(of("/tags/autoComplete/tags?expr=name=disk.used").await, r#"["dc", "host"]"#);
    assert_eq!(of("/tags/autoComplete/values?tag=dc").await, r#"["eu", "us"]"#);
    assert_eq!(
        of("/tags/autoComplete/values?tag=name&valuePrefix=servers.w&limit=2").await.matches("web").count(),
        2
    );
    assert_eq!(of("/tags/autoComplete/values?expr=dc=~%5Cw&tag=dc&valuePrefix=u").await, r#"["us"]"#);
    assert_eq!(of("/tags/findSeries?expr=dc=eu").await, r#"["disk.used;dc=eu;host=a"]"#);
    assert_eq!(of("/tags/__g0__").await, "null");
    let details = r#"{"tag": "dc", "values": [{"value": "eu", "count": 1}, {"value": "us", "count": 1}]}"#;
    assert_eq!(of("/tags/dc").await, details);
    let form = "application/x-www-form-urlencoded";
    assert_eq!(post(server, "/tags/tagSeries", form, "path=a;c=1;b=2").await.body, r#""a;b=2;c=1""#);
    assert_eq!(get(server, "/tags/findSeries").await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn first_requests_of_carbonapi_and_grafana_are_answered() {
    let server = server();
    let server = &server;
    let of = |address: &'static str| async move {
        let answer = get(server, address).await;
        assert_eq!(answer.status, 200, "{address}: {}", answer.body);
        answer.body
    };
    assert_eq!(of("/version").await, "1.1.10\n");
    assert!(of("/functions").await.contains("sumSeries"));
    assert!(of("/graphite/functions/sumSeries").await.contains("sumSeries"));
    assert_eq!(of("/events/get_data?from=-1h").await, "[]");
    assert!(of("/_internal/capabilities/?format=json").await.contains("carbonapi_v3_pb"));
    assert!(of("/_internal/capabilities/").await.starts_with("\n\u{f}carbonapi_v3_pb"));
    assert!(of("/info/?target=servers.web1.load").await.contains("\"secondsPerPoint\":60"));
    // MultiGlobRequest and MultiFetchRequest of carbonapi's third protocol.
    let ask = |address: &'static str, body: Vec<u8>| {
        let request = Request::post(address).header("accept", "application/x-carbonapi-v3-pb");
        request.body(Body::from(body)).unwrap()
    };
    let found = server.send(ask("/metrics/find/", b"\x0a\x09servers.*\x0a\x01x".to_vec())).await;
    assert_eq!((found.status, found.kind.as_str()), (200, "application/x-carbonapi-v3-pb"));
    assert!(
        found.body.contains("servers.web1") && found.body.ends_with("\n\u{3}\n\u{1}x"),
        "{:?}",
        found.body
    );
    assert_eq!(server.send(ask("/render/", b"\x0a\x02\x0a\x09".to_vec())).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn paths_are_listed_with_details_as_in_carbonserver() {
    let server = server();
    let server = &server;
    let of = |address: &'static str| async move {
        let answer = get(server, address).await;
        assert_eq!(answer.status, 200, "{address}: {}", answer.body);
        serde_json::from_str::<serde_json::Value>(&answer.body).unwrap()
    };
    let details = of("/metrics/details/?format=json").await;
    let metrics: Vec<(&str, i64)> = details["Metrics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["Name"].as_str().unwrap(), NOW - one["ModTime"].as_i64().unwrap()))
        .collect();
    let expected = [
        ("servers.old.load", 86_400),
        ("servers.web1.load", 0),
        ("servers.web2.cpu.user", 0),
        ("servers.web2.load", 0),
    ];
    assert_eq!(metrics, expected);
    let below = of("/metrics/list_query/?target=servers.web2").await;
    assert_eq!((&below["Count"], below["Metrics"].as_array().unwrap().len()), (&2.into(), 2), "{below}");
    assert_eq!(of("/metrics/list_query/?target=servers.web2&leaf_only=true").await["Count"], 0);
    let few = of("/metrics/list_query?target=servers.*.load&limit=1").await;
    assert_eq!((&few["Count"], few["Metrics"].as_array().unwrap().len()), (&3.into(), 1));
    let totals = of("/metrics/list_query?target=servers&stats_only=true&leaf_only=false").await;
    assert_eq!((&totals["Count"], &totals["Metrics"]), (&4.into(), &serde_json::json!([])));
    assert_eq!(of("/metrics/list_query?target=none.*").await["Count"], 0);
    for wrong in ["", "?target=", "?target=a&limit=x", "?target=a&format=carbonapi_v3_pb"] {
        assert_eq!(get(server, &format!("/metrics/list_query{wrong}")).await.status, 400, "{wrong}");
    }
    let older = get(server, "/metrics/details?format=protobuf").await;
    assert_eq!((older.status, older.kind.as_str()), (200, "application/x-protobuf"));
    assert!(older.body.contains("servers.web2.cpu.user"), "{}", older.body);
    let all = get(server, "/metrics/list?format=carbonapi_v3_pb").await;
    assert_eq!((all.status, all.kind.as_str()), (200, "application/x-carbonapi-v3-pb"));
    assert_eq!(server.app.queries.memory().used(), 0, "no memory is kept");
}

#[tokio::test(start_paused = true)]
async fn a_series_is_deleted_by_exactly_its_tags() {
    let server = server();
    let form = "application/x-www-form-urlencoded";
    let deleted = |body: &'static str| {
        let server = &server;
        async move {
            let answer = post(server, "/tags/delSeries", form, body).await;
            (answer.status, answer.body, server.intake.deletes.0.lock().unwrap().split_off(0))
        }
    };
    let (status, body, requests) =
        deleted("path=disk.used;host=a;dc=eu&path=servers.web1.load&path=none").await;
    assert_eq!((status, body.as_str()), (200, "true"));
    let selectors: Vec<&str> = requests.iter().map(|(selector, ..)| selector.as_str()).collect();
    let tagged = r#"exactly {"dc"="eu","host"="a","__name__"="disk.used"}"#;
    assert_eq!(selectors, [tagged, r#"exactly {"__name__"="servers.web1.load"}"#]);
    assert!(requests.iter().all(|(_, from, until)| *from < 0 && *until / 1_000 == NOW), "{requests:?}");
    // Series with more tags are kept, and so are later ones.
    let (_, _, requests) = deleted("path=up").await;
    assert_eq!(requests[0].0, r#"exactly {"__name__"="up"}"#);
    assert_eq!(deleted("").await.0, 400);
    assert_eq!(deleted("path=;a=b").await.0, 400);
    let many: String = (0..1_001).map(|n| format!("path=a.n{n}&")).collect();
    let refused = post(&server, "/tags/delSeries", form, &many).await;
    assert!(refused.status == 400 && refused.body.contains("1000"), "{}", refused.body);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_stored_as_a_line_and_answered_by_its_tags() {
    let server = server();
    for (kind, address) in
        [("application/x-www-form-urlencoded", "/events/"), ("application/json", "/graphite/events")]
    {
        let sent = format!(r#"{{"what":"v2","tags":["deploy","web"],"data":"{kind}","when":{}}}"#, NOW - 60);
        let answer = post(&server, address, kind, &sent).await;
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{kind}");
    }
    for wrong in ["", "[]", r#"{"tags":1}"#, r#"{"when":"x"}"#] {
        assert_eq!(post(&server, "/events", "application/json", wrong).await.status, 400, "{wrong}");
    }
    let rows: Vec<MemoryRow> = {
        let batches = server.intake.batches.lock().unwrap();
        let lines = batches.iter().flat_map(|batch| batch.streams.iter().map(move |stream| (batch, stream)));
        lines
            .map(|(batch, stream)| {
                let entry = &stream.entries[0];
                let line = entry.line.of(&batch.arena.bytes).to_vec();
                MemoryRow {
                    labels: Arc::clone(&stream.labels),
                    timestamp: entry.timestamp,
                    line: line.into(),
                    metadata: Vec::new(),
                    level: Level::Info,
                }
            })
            .collect()
    };
    assert_eq!((rows.len(), rows[0].labels.to_string().as_str()), (2, r#"{__graphite__="events"}"#));
    let server = Server::over(Arc::new(MemorySource::new(rows)), |_| ());
    for (asked, count) in [
        ("", 2),
        ("?tags=deploy", 2),
        ("?tags=deploy+none", 0),
        ("?tags=web+none&set=union", 2),
        ("?from=-30s", 0),
    ] {
        let answer = get(&server, &format!("/events/get_data{asked}")).await;
        assert_eq!(answer.status, 200, "{asked}: {}", answer.body);
        assert_eq!(answer.body.matches("\"what\": \"v2\"").count(), count, "{asked}: {}", answer.body);
    }
    let answer = get(&server, "/render?target=events('web')&from=-2min&format=raw").await;
    assert_eq!((answer.status, answer.body.matches(",2,").count()), (200, 1), "{}", answer.body);
}

/// A page of another origin, opened by an operator, could read everything with `<script src>`, and choose
/// the script.
#[tokio::test(start_paused = true)]
async fn jsonp_is_only_for_own_pages_and_needs_a_valid_name() {
    let server = server();
    let ask = async |path: &str, callback: &str, headers: &[(&str, &str)]| {
        let headers = [&[("host", "127.0.0.1:3100")], headers].concat();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut pairs: Vec<(&str, &str)> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        pairs.push(("jsonp", callback));
        server.get_with(path, &pairs, &headers).await
    };
    for path in [
        "/metrics/find?query=*",
        "/graphite/metrics/find/?query=*",
        "/metrics/expand?query=*",
        "/metrics/index.json",
        "/render?target=servers.*.load&format=json",
        "/events/get_data",
        "/functions",
        "/functions/absolute",
        "/tags",
        "/tags/dc",
        "/tags/findSeries?expr=dc=eu",
        "/tags/autoComplete/tags",
        "/tags/autoComplete/values?tag=dc",
    ] {
        let good = ask(path, "a.b[0]", &[]).await;
        assert_eq!((good.status, good.kind.as_str()), (200, "text/javascript"), "{path}: {}", good.body);
        assert!(good.body.starts_with("a.b[0]("), "{path}: {}", good.body);
        assert_eq!(good.headers["x-content-type-options"], "nosniff", "{path}");
        let own = [("sec-fetch-site", "same-origin"), ("referer", "http://127.0.0.1:3100/")];
        assert_eq!(ask(path, "f", &own).await.status, 200, "{path}");
        for foreign in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "http://evil.example"),
            ("referer", "http://evil.example/page"),
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ] {
            let refused = ask(path, "f", &[foreign]).await;
            assert_eq!(refused.status, 403, "{path} {foreign:?}: {}", refused.body);
            assert!(refused.body.contains("http.allowed_hosts"), "{}", refused.body);
        }
        assert_eq!(ask(path, "alert(document.domain)//", &[]).await.status, 400, "{path}");
    }
    let foreign = [("host", "127.0.0.1:3100"), ("sec-fetch-site", "cross-site")];
    let plain = server.get_with("/metrics/find", &[("query", "*")], &foreign).await;
    assert_eq!(plain.status, 200, "the browser hides JSON from the page");
}

/// Two strings on the heap per two bytes of a form were not counted in a budget.
#[tokio::test(start_paused = true)]
async fn parameters_of_a_form_count_for_the_budget() {
    const PAIRS: u64 = 90_000;
    let server = server();
    let form = format!("query=*{}", "&a=b".repeat(PAIRS as usize));
    let answer = post(&server, "/metrics/find", "application/x-www-form-urlencoded", &form).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let budget = server.app.writes.memory().budget();
    assert!(budget.peak() >= PAIRS * size_of::<(String, String)>() as u64, "{}", budget.peak());
    assert_eq!(budget.used(), 0);
    let list = format!("{{\"query\":\"*\",\"a\":[{}1]}}", "1,".repeat(PAIRS as usize));
    let answer = post(&server, "/metrics/find", "application/json", &list).await;
    assert_eq!((answer.status, budget.used()), (200, 0), "{}", answer.body);

    // The same for a form of Prometheus's and Loki's API.
    let server = self::server();
    let form = format!("query=up{}", "&a=b".repeat(PAIRS as usize));
    let answer = post(&server, "/api/v1/query", "application/x-www-form-urlencoded", &form).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let budget = server.app.writes.memory().budget();
    assert!(budget.peak() >= PAIRS * size_of::<(String, String)>() as u64, "{}", budget.peak());
    assert_eq!(budget.used(), 0);
}
