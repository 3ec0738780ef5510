//! Goal: jobs that push to a Pushgateway get its groups: data replaced by a push or a DELETE is stale.
//!
//! Method: the real binary, because a group is found in the stored data; PromQL shows what is not stale.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a process test: real time

use crate::process::{Server, Setup, encode, request};

/// A server without scrapes, remote writes and similar sources.
struct Gateway(Server);

impl Gateway {
    fn ask(&self, method: &str, group: &str, body: &str) -> (u16, String) {
        let path = format!("/metrics/{group}");
        let (status, body) = request(self.0.address, method, &path, &[], body.as_bytes()).unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    /// Pushes a group that is accepted.
    fn push(&self, method: &str, group: &str, body: &str) {
        assert_eq!(self.ask(method, group, body), (200, String::new()), "{method} {group} {body}");
    }

    /// The current series of a selector, as `{labels} value`, sorted, with `then` for the times of
    /// pushes.
    fn series(&self, selector: &str) -> Vec<String> {
        // Pushes within one millisecond are stored in consecutive milliseconds.
        let after = (crate::process::now_ns() / 1_000_000 + 50) as f64 / 1e3;
        let path = format!("/api/v1/query?query={}&time={after}", encode(selector));
        let answer = self.0.get_json(&path);
        let series = answer["data"]["result"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let mut shown: Vec<String> = series
            .iter()
            .map(|one| {
                let labels = one["metric"].as_object().unwrap();
                let of = |name: &str| labels.get(name).and_then(|v| v.as_str()).unwrap_or("").to_owned();
                let others = labels.iter().filter(|(name, _)| *name != "__name__");
                let others: Vec<String> =
                    others.map(|(name, value)| format!("{name}={}", value.as_str().unwrap())).collect();
                let value = one["value"][1].as_str().unwrap();
                let value = if value.parse::<f64>().unwrap() > 1e9 { "then" } else { value };
                format!("{}{{{}}} {value}", of("__name__"), others.join(","))
            })
            .collect();
        shown.sort();
        shown
    }
}

#[test]
fn data_replaced_by_a_push_or_a_delete_is_stale() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path()).start();
    let gateway = Gateway(server);
    let all = |gateway: &Gateway| gateway.series(r#"{job="a"}"#);
    let times = |labels: &str, failed: &str| {
        [
            format!("push_failure_time_seconds{{{labels}}} {failed}"),
            format!("push_time_seconds{{{labels}}} then"),
        ]
    };

    gateway.push("POST", "job/a", "m{x=\"1\"} 1\nm{x=\"2\"} 2\nn 3\npush_time_seconds 5\n");
    gateway.push("POST", "job/a/instance/i", "m 7\n");
    let [failed, pushed] = times("job=a", "0");
    let [failed_i, pushed_i] = times("instance=i,job=a", "0");
    let of_i = "m{instance=i,job=a} 7".to_owned();
    let (one, two, other) = ("m{job=a,x=1} 1", "m{job=a,x=2} 2", "n{job=a} 3");
    let mut expected = vec![of_i.clone(), one.to_owned(), two.to_owned(), other.to_owned()];
    expected.extend([failed_i.clone(), failed.clone(), pushed_i.clone(), pushed.clone()]);
    expected.sort();
    assert_eq!(all(&gateway), expected);

    // Samples with the same labels from other sources do not belong to the group.
    let text = b"scraped{job=\"a\"} 1\nm{job=\"a\",x=\"9\"} 9\n";
    let import = "/api/v1/import/prometheus";
    assert_eq!(request(gateway.0.address, "POST", import, &[], text).unwrap().0, 204);

    gateway.push("POST", "job/a", "m{x=\"1\"} 4\n");
    assert_eq!(gateway.series("m{instance=\"\"}"), ["m{job=a,x=1} 4", "m{job=a,x=9} 9"]);
    assert_eq!(gateway.series("n"), [other], "another metric is not replaced");
    gateway.push("PUT", "job/a", "m{x=\"3\"} 5\n");
    assert_eq!(gateway.series("m"), [of_i.as_str(), "m{job=a,x=3} 5", "m{job=a,x=9} 9"]);
    assert!(gateway.series("n").is_empty());

    // All or nothing, and the failure is recorded.
    for bad in [
        "m 1\nm one\n",
        "m 1 1700000000000\n",
        "m{y=\"1\"} 1\nm 2\nm{y=\"1\"} 1\n",
        "m{job=\"b\"} 1\nm{job=\"c\"} 2\n",
        "# TYPE m gauge\n# TYPE m counter\nm 1\n",
        "m 1\n# TYPE m gauge\n",
        "# HELP m One.\n# HELP m Two.\nm 1\n",
    ] {
        let (status, text) = gateway.ask("PUT", "job/a", bad);
        assert_eq!(status, 400, "{bad}: {text}");
    }
    assert_eq!(gateway.series("m{instance=\"\"}"), ["m{job=a,x=3} 5", "m{job=a,x=9} 9"]);
    assert_eq!(gateway.series(r#"{job="a",instance="",__name__=~"push.*"}"#), times("job=a", "then"));
    gateway.push("PUT", "job/a", "# TYPE m gauge\n# HELP m A.\nm{job=\"b\",x=\"4\"} 6\n# HELP n B.\n");
    let of_path = ["m{job=a,x=4} 6", "m{job=a,x=9} 9"];
    assert_eq!(gateway.series("m{instance=\"\"}"), of_path, "a label of the path replaces one of the text");
    gateway.push("PUT", "job/a", "");
    assert_eq!(gateway.series("m{instance=\"\"}"), ["m{job=a,x=9} 9"]);
    assert_eq!(gateway.series(r#"{job="a",instance="",__name__=~"push.*"}"#), times("job=a", "then"));

    assert_eq!(gateway.ask("DELETE", "job/a", ""), (202, String::new()));
    let mut rest = vec![of_i, "m{job=a,x=9} 9".to_owned(), "scraped{job=a} 1".to_owned(), failed_i, pushed_i];
    rest.sort();
    assert_eq!(all(&gateway), rest);
    assert_eq!(gateway.ask("DELETE", "job/a", "").0, 202, "there is no such group");
    assert_eq!(gateway.ask("DELETE", "instance/i", "").0, 400);
    gateway.push(
        "POST",
        "job/a",
        "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\n",
    );
    gateway.push("POST", "job/a", "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\n");
    assert_eq!(gateway.series(r#"{__name__=~"h_.*"}"#), ["h_bucket{job=a,le=+Inf} 2"], "all of a histogram");
}

#[test]
fn concurrent_pushes_of_a_group_leave_the_series_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Setup::new(format!("file://{}", folder.path().join("data").display()), folder.path()).start();
    let gateway = Gateway(server);
    std::thread::scope(|scope| {
        for n in 0..8 {
            let gateway = &gateway;
            scope.spawn(move || gateway.push("PUT", "job/b", &format!("m{{n=\"{n}\"}} {n}\n")));
        }
    });
    assert_eq!(gateway.series("m").len(), 1, "{:?}", gateway.series("m"));
}
