//! Goal: with `graphite.rollups` renders of the past do not change, for every aggregation method and
//! xFilesFactor, while the points become rollups; names are found once, PromQL does not see rollups
//! unless it selects them, and the store is sound afterwards. The same holds for series with tags, and
//! for carbonserver's gRPC. Missing rules are refused.
//!
//! Method: the real binary on a directory, with points of a past day, before and after. Commands and
//! interfaces that read blocks are tested with rolled ones.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::path::Path;

use crate::process::{Server, Setup, encode, now_ns, request};
use crate::repair::sandur;
use crate::retention::until;
use crate::{carbon_v2, listeners};

const METHODS: [&str; 8] = ["average", "sum", "last", "max", "min", "avg_zero", "absmax", "absmin"];
const SHARES: [&str; 3] = ["0", "0.5", "1"];

/// A full hour three days ago, in seconds.
fn hour() -> i64 {
    let now = now_ns() / 1_000_000_000;
    now - now.rem_euclid(3_600) - 3 * 86_400
}

/// Rules by the nodes of a path: archives, method, xFilesFactor.
fn write_rules(folder: &Path) -> [String; 2] {
    let schemas = "[minutes]\npattern = ^minutes\\.\nretentions = 1s:1d,1m:30d\n\
                   [hours]\npattern = ^hours\\.\nretentions = 1s:1d,1m:2d,1h:30d\n\
                   [tags]\npattern = ^tags;\nretentions = 1s:1d,1m:30d\n\
                   [points]\npattern = ^points\\.\nretentions = 1s:30d\n";
    let section = |method: &str, share: &str| {
        let name = format!("{method}.{}", share.replace('.', "_"));
        let path = name.replace('.', "\\.");
        let pattern = format!("\\.{path}\\.|;m={method};s={}$", share.replace('.', "_"));
        format!("[{name}]\npattern = {pattern}\nxFilesFactor = {share}\naggregationMethod = {method}\n")
    };
    let aggregation: String =
        METHODS.iter().flat_map(|method| SHARES.iter().map(move |share| section(method, share))).collect();
    [("schemas.conf", schemas), ("aggregation.conf", aggregation.as_str())].map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    })
}

/// Points each second below `hours` and `points`, and with gaps below `minutes`.
fn push(server: &Server) {
    let begin = hour();
    for method in METHODS {
        let mut lines = String::new();
        for share in SHARES {
            let path = |root: &str| format!("{root}.{method}.{}.x", share.replace('.', "_"));
            for n in 0..3_600 {
                // All have different absolute values.
                let value = ((n * 7_919) % 1_009 - 500) as f64 + 0.25;
                let line = |root: &str| format!("{} {value} {}\n", path(root), begin + n);
                lines += &line("hours");
                if n % 7 > 2 && n < 900 {
                    lines += &line("minutes");
                }
            }
        }
        post(server, "/graphite/carbon", &lines);
    }
    post(server, "/graphite/carbon", &format!("points.average.0.x 1 {begin}\n"));
    post(server, "/flush", "");
}

fn post(server: &Server, path: &str, body: &str) {
    let (status, answer) = request(server.address, "POST", path, &[], body.as_bytes()).unwrap();
    assert!(status < 300, "{status} {}", String::from_utf8_lossy(&answer));
}

/// What Graphite clients see of that time.
fn seen(server: &Server) -> [String; 4] {
    let (from, until) = (hour() - 7_200, hour() + 7_200);
    let times = format!("from={from}&until={until}");
    [
        format!("/render?target={}&format=json&{times}", encode("{hours,minutes,points}.*.*.*")),
        format!("/metrics/find?query={}&{times}", encode("*.*.*.x")),
        format!("/metrics/expand?query={}", encode("hours.sum.**")),
        "/metrics/index.json".to_owned(),
    ]
    .map(|address| String::from_utf8(server.get(&address).1).unwrap())
}

/// Compares two renders: a mean of means may be rounded differently from the mean.
pub fn assert_same(before: &str, after: &str) {
    let points = |text: &str| {
        let series: serde_json::Value = serde_json::from_str(text).unwrap();
        let of = |one: &serde_json::Value| {
            let points = one["datapoints"].as_array().cloned().unwrap();
            points.into_iter().map(|point| (one["target"].clone(), point)).collect::<Vec<_>>()
        };
        series.as_array().unwrap().iter().flat_map(of).collect::<Vec<_>>()
    };
    let (before, after) = (points(before), points(after));
    assert_eq!(before.len(), after.len());
    for ((name, one), (other_name, other)) in before.iter().zip(&after) {
        assert_eq!((name, &one[1]), (other_name, &other[1]));
        match (one[0].as_f64(), other[0].as_f64()) {
            (Some(a), Some(b)) => assert!((a - b).abs() <= 1e-9, "{name} {one} {other}"),
            (a, b) => assert_eq!(a, b, "{name} {one} {other}"),
        }
    }
}

/// Number of series and of their samples, with PromQL.
fn counted(server: &Server, selector: &str) -> (usize, f64) {
    let query = encode(&format!("count_over_time({selector}[2h])"));
    let answer = server.get_json(&format!("/api/v1/query?query={query}&time={}", hour() + 3_600));
    let series = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    let value = |one: &serde_json::Value| one["value"][1].as_str().unwrap().parse::<f64>().unwrap();
    (series.len(), series.iter().map(value).sum())
}

/// The address of a store in a folder, and servers on it with the rules above.
fn setup(folder: &Path) -> (String, impl Fn() -> Setup) {
    let [schemas, aggregation] = write_rules(folder);
    let store = folder.join("data").to_str().unwrap().to_owned();
    let (address, folder) = (store.clone(), folder.to_owned());
    let setup = move || {
        Setup::new(address.clone(), &folder).with(&[
            "--compaction-interval=200ms",
            "--retention-change-delay=300ms",
            &format!("--graphite-schemas={schemas}"),
            &format!("--graphite-aggregation={aggregation}"),
        ])
    };
    (store, setup)
}

/// A server that has rolled the old points.
fn rolled(setup: &impl Fn() -> Setup) -> Server {
    let server = setup().with(&["--graphite-rollups"]).start();
    let is_rolled = |line: &str| line.starts_with("sandur_engine_rollup_blocks_total{outcome=\"rewritten\"}");
    until("the day is rolled", &server, || {
        String::from_utf8(server.get("/metrics").1).unwrap().lines().any(is_rolled)
    });
    server
}

/// Responses to carbonserver's clients for sums, for values as they were sent, and for names.
fn seen_by_relays(server: &Server) -> Vec<Vec<u8>> {
    let (from, until) = (hour() - 3_600, hour() + 7_200);
    let render = |format: &str| {
        let target = encode("hours.{sum,max,min,last,absmax,absmin}.*.x");
        format!("/render?target={target}&format={format}&from={from}&until={until}")
    };
    let find =
        |format: &str| format!("/metrics/find?query=*.*.*.x&format={format}&from={from}&until={until}");
    let formats = ["protobuf", "carbonapi_v2_pb", "carbonapi_v3_pb", "pickle"];
    let addresses = formats.map(|format| [render(format), find(format)]).into_iter().flatten();
    addresses.map(|address| server.get(&address).1).collect()
}

/// Responses to a client of carbonserver's gRPC.
fn seen_by_grpc(server: &Server) -> Vec<(u16, Vec<Vec<u8>>)> {
    let env = sandur_runtime::Env::system(1);
    let (from, until) = (hour() - 3_600, hour() + 7_200);
    let fetch = |pattern: &str| carbon_v2::fetch(pattern, from, until);
    let some = [fetch("hours.{max,min,sum}.*.x"), fetch("points.*.*.x"), fetch("hours.last.1.x")].concat();
    let find = |pattern: &str| [&[0x0a, pattern.len() as u8][..], pattern.as_bytes()].concat();
    let calls = [
        ("Render", some),
        ("Render", fetch("minutes.*.0.x")),
        ("Render", fetch("hours.{last,abs*}.0_5.x")),
        ("Find", find("hours.*")),
        ("Find", find("hours.sum.*.*")),
        ("List", Vec::new()),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        let (mut sender, _connection) = listeners::http2(&env, stream).await;
        let mut answers = Vec::new();
        for (method, message) in calls {
            let mut request = carbon_v2::request(method, &message);
            let uri = format!("http://{}{}", server.address, request.uri());
            *request.uri_mut() = uri.parse().unwrap();
            let response = sender.send_request(request).await.unwrap();
            answers.push(carbon_v2::answer(response.map(axum::body::Body::new)).await);
        }
        answers
    })
}

/// Repair, inspect, check, deletes and carbonserver's API handle rollups like any other series.
#[test]
fn all_readers_of_blocks_handle_rollups() {
    let folder = tempfile::tempdir().unwrap();
    let (store, setup) = setup(folder.path());
    let server = setup().start();
    push(&server);
    let (before, before_grpc) = (seen_by_relays(&server), seen_by_grpc(&server));
    assert!(before.iter().all(|answer| answer.len() > 200));
    let counts: Vec<(u16, usize)> = before_grpc.iter().map(|(code, all)| (*code, all.len())).collect();
    assert_eq!(counts, [(0, 11), (0, 8), (0, 3), (0, 1), (0, 1), (0, 1)]);
    assert_eq!(server.terminate(), Some(0));
    let server = rolled(&setup);
    assert!(seen_by_relays(&server) == before && seen_by_grpc(&server) == before_grpc);
    assert_eq!(server.terminate(), Some(0));

    let (_, listed) = sandur(&["inspect", "--store", &store, "blocks/"]);
    let block = listed.split_whitespace().filter(|word| word.starts_with("blocks/")).max().unwrap();
    let (code, shown) = sandur(&["inspect", "--store", &store, block, "--rows", "100"]);
    assert!(code == Some(0) && shown.contains("__rollup__=\"count_1s\""), "{shown}");

    // The points are in objects that are not yet collected: they must not come back.
    std::fs::remove_dir_all(folder.path().join("data/catalog")).unwrap();
    let (code, text) = sandur(&["repair", "--store", &store]);
    assert!(code == Some(0) && text.contains("repaired"), "{text}");
    let server = setup().with(&["--graphite-rollups"]).start();
    assert!(seen_by_relays(&server) == before);
    assert_eq!(counted(&server, r#"{__g0__="hours"}"#), (0, 0.0));

    let selector = encode(r#"{__name__="hours.max.0.x"}"#);
    post(&server, &format!("/api/v1/admin/tsdb/delete_series?match[]={selector}"), "");
    let render = |path: &str| {
        let times = format!("from={}&until={}", hour() - 1, hour() + 3_600);
        String::from_utf8(server.get(&format!("/render?target={path}&format=json&{times}")).1).unwrap()
    };
    assert_eq!(render("hours.max.0.x"), "[]");
    assert!(render("hours.min.0.x").contains("hours.min.0.x"));
    assert_eq!(server.terminate(), Some(0));
    let (code, checked) = sandur(&["check", "--store", &store]);
    assert!(code == Some(0) && checked.contains("no damage found"), "{checked}");
}

#[test]
fn renders_stay_the_same_when_points_become_rollups() {
    let folder = tempfile::tempdir().unwrap();
    let (store, setup) = setup(folder.path());
    let server = setup().start();
    push(&server);
    let before = seen(&server);
    assert!(before[0].matches("\"target\"").count() == 49 && before[0].len() > 20_000, "{}", before[0]);
    assert_eq!(counted(&server, r#"{__g0__="hours"}"#), (24, 24.0 * 3_600.0));
    assert_eq!(server.terminate(), Some(0));

    let server = rolled(&setup);
    let after = seen(&server);
    assert_eq!(before[1..], after[1..]);
    assert_same(&before[0], &after[0]);
    assert_eq!(counted(&server, r#"{__g0__="hours"}"#), (0, 0.0), "points are replaced");
    assert_eq!(counted(&server, r#"{__g0__="points"}"#), (1, 1.0), "others are not");
    let sums = r#"{__g0__="hours", __rollup__="sum_1s", __archive__="3600"}"#;
    assert_eq!(counted(&server, sums), (24, 24.0));
    let labels = server.get_json(&format!("/api/v1/labels?start={}", hour() - 3_600)).to_string();
    assert!(labels.contains("__g0__") && !labels.contains("__rollup__"), "{labels}");
    // Later points of a rolled step change no render of it.
    post(&server, "/graphite/carbon", &format!("hours.sum.0.x 1e9 {}\n", hour() + 5));
    post(&server, "/flush", "");
    assert_eq!(seen(&server)[0], after[0]);
    assert_eq!(server.terminate(), Some(0));
    let (code, checked) = sandur(&["check", "--store", &store]);
    assert!(code == Some(0) && checked.contains("sound"), "{checked}");
}

/// What Graphite clients see of series with tags.
fn seen_by_tags(server: &Server) -> Vec<String> {
    let times = format!("from={}&until={}", hour() - 7_200, hour() + 7_200);
    let (all, some) = ("seriesByTag('name=tags')", "sumSeries(seriesByTag('name=tags','m=~a.*','s=1'))");
    let one = "seriesByTag('name=tags','m=sum','s=0')";
    let renders = [all, some, one, "tags;m=max;s=0_5"].map(encode);
    let names = [
        "/tags",
        "/tags/m",
        "/tags/name",
        "/tags/findSeries?expr=name=tags",
        "/tags/autoComplete/tags?expr=name=tags",
        "/tags/autoComplete/tags?tagPrefix=_",
        "/tags/autoComplete/values?expr=m=sum&tag=s",
        "/metrics/find?query=*",
    ];
    let renders = renders.map(|target| format!("/render?target={target}&format=json&{times}"));
    let addresses = renders.into_iter().chain(names.map(str::to_owned));
    addresses.map(|address| String::from_utf8(server.get(&address).1).unwrap()).collect()
}

/// The same for series with tags, with the minimum memory of a server, and after a kill.
#[test]
fn renders_by_tags_stay_the_same_when_points_become_rollups() {
    let folder = tempfile::tempdir().unwrap();
    let (store, setup) = setup(folder.path());
    let setup = || setup().with(&["--memory-limit=128MiB"]);
    let server = setup().start();
    for method in METHODS {
        post(&server, "/graphite/carbon", &format!("other.{method} 1 {}\n", hour()));
        for share in SHARES.map(|share| share.replace('.', "_")) {
            let value = |n: i64| ((n * 7_919) % 1_009 - 500) as f64 + 0.25;
            let line = |n: i64| format!("tags;s={share};m={method} {} {}\n", value(n), hour() + n);
            let lines: String = (0..3_600).filter(|n| n % 7 > 2 || n % 600 < 300).map(line).collect();
            post(&server, "/graphite/carbon", &lines);
        }
    }
    post(&server, "/flush", "");
    let before = seen_by_tags(&server);
    assert!(before[0].matches("\"target\"").count() == 24 && before[0].len() > 5_000, "{}", before[0]);
    assert!(before[2].contains("-") && before[3].contains("tags;m=max;s=0_5"), "{before:?}");
    assert!(before[4..].iter().all(|answer| !answer.contains("__")), "{before:?}");
    let points = counted(&server, r#"{__name__="tags"}"#);
    assert_eq!((points.0, points.1 > 50_000.0), (24, true));
    assert_eq!(server.terminate(), Some(0));

    rolled(&setup).kill();
    let server = setup().with(&["--graphite-rollups"]).start();
    let after = seen_by_tags(&server);
    before[..4].iter().zip(&after).for_each(|(before, after)| assert_same(before, after));
    assert_eq!(before[4..], after[4..]);
    assert_eq!(counted(&server, r#"{__name__="tags"}"#), (0, 0.0), "points are replaced");
    let counts = r#"{__name__="tags", __rollup__="count_1s", m="sum"}"#;
    assert_eq!(counted(&server, counts), (3, 180.0));
    assert_eq!(counted(&server, r#"{__g0__="other"}"#), (8, 8.0), "others are not");
    let labels = server.get_json(&format!("/api/v1/labels?start={}", hour() - 3_600)).to_string();
    assert!(labels.contains("__g0__") && !labels.contains("__rollup__"), "{labels}");
    // Later points of a rolled step change no render of it.
    post(&server, "/graphite/carbon", &format!("tags;m=sum;s=0 1e9 {}\n", hour() + 5));
    assert_eq!(seen_by_tags(&server), after);
    post(&server, "/flush", "");
    assert_eq!(seen_by_tags(&server), after);
    assert_eq!(server.terminate(), Some(0));
    let (code, checked) = sandur(&["check", "--store", &store]);
    assert!(code == Some(0) && checked.contains("sound"), "{checked}");
}

#[test]
fn rollups_without_rules_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("data").to_str().unwrap().to_owned();
    let refused = Setup::new(store, folder.path()).with(&["--graphite-rollups"]).try_start();
    let log = refused.err().expect("it is refused");
    assert!(log.contains("graphite.schemas") && log.contains("graphite.rollups"), "{log}");
}
