//! `cargo xtask dashboards [--check] [--program FILE]`: writes the dashboards of `packaging/grafana`.
//!
//! With `--check` it fails if the files differ from the table. With `--program` it starts a server on a
//! bucket that scrapes itself, and asks it every query of every panel: a query must be valid, the server
//! must know each of its metrics, and a query of metrics that always have values must return some. Queries
//! of failed requests are also asked for requests of every status.

#![allow(clippy::disallowed_methods)] // it waits for another program, outside the product

mod panel;
mod table;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandur_s3_server::S3Server;

use crate::http::{self, encode};
use crate::local_server::LocalServer;
use crate::process::{find, root};
use crate::rivals;
use table::DASHBOARDS;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Metrics with labels that exist only once the event has happened, which a healthy server does not have.
const SHOWN_WHEN_COUNTED: &[&str] = &[
    "sandur_cache_evicted_total",
    "sandur_carbon_rejected_points_total",
    "sandur_push_refused_entries_total",
    "sandur_push_refused_samples_total",
    "sandur_store_errors_total",
    "sandur_store_hedges_total",
    "sandur_store_retries_total",
    "sandur_result_cache_outcomes_total",
];

/// Writes or checks the files.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut program = None;
    let mut is_check = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--check" => is_check = true,
            "--program" => program = Some(rest.next().context("--program needs a file")?),
            _ => bail!("usage: cargo xtask dashboards [--check] [--program FILE]"),
        }
    }
    for dashboard in DASHBOARDS {
        let path = root().join(format!("packaging/grafana/{}.json", dashboard.name));
        let text = panel::file(dashboard);
        match is_check {
            true if fs::read_to_string(&path).ok().as_ref() != Some(&text) => {
                bail!("{} is outdated: run `cargo xtask dashboards`", path.display());
            }
            true => {}
            false => fs::write(path, text)?,
        }
    }
    program.map_or(Ok(()), |program| ask_everything(Path::new(program)))
}

/// Asks a server all queries.
fn ask_everything(program: &Path) -> Result<()> {
    rivals::ensure(&["versitygw"])?;
    let folder = root().join("target/dashboards");
    let gateway = find("versitygw").context("versitygw is not built")?;
    let bucket = S3Server::start(&gateway, &folder.join("s3"))?;
    let store = S3Server::url(bucket.address(), "dashboards");
    let cache = folder.join("cache");
    if cache.exists() {
        fs::remove_dir_all(&cache)?;
    }
    let server = LocalServer::start(program, &store, &folder, |address| {
        let (scraped, cache) = (address.to_string(), cache.display().to_string());
        let arguments = ["--scrape", &scraped, "--scrape-interval", "1s", "--cache-dir", &cache]
            .into_iter()
            .chain(["--cache-size", "128MiB", "--carbon-listen", "127.0.0.1:0"]);
        arguments.map(str::to_owned).collect()
    })?;
    work(server.address)?;
    let metrics = http::get(server.address, "/metrics", PATIENCE)?.text();
    let known = names(&metrics);
    let (mut asked, mut wrong) = (0, Vec::new());
    for dashboard in DASHBOARDS {
        for panel in dashboard.panels {
            for (query, _) in panel.queries {
                let place = format!("{}, {}: {query}", dashboard.title, panel.title);
                let query = panel::expand(query, ".*", "1m");
                if let Err(unknown) = check_names(&query, &known) {
                    wrong.push(format!("{unknown}: {place}"));
                }
                series(server.address, &query).context(place.clone())?;
                let found = series(server.address, &with_every_status(&query)).context(place.clone())?;
                asked += 1;
                if found == 0 && !SHOWN_WHEN_COUNTED.iter().any(|name| query.contains(name)) {
                    wrong.push(format!("no answer: {place}"));
                }
            }
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    println!("{asked} queries of {} dashboards are answered", DASHBOARDS.len());
    Ok(())
}

/// Pushes and queries, and waits until two scrapes after it are stored.
fn work(server: SocketAddr) -> Result<()> {
    let line = r#"{"streams":[{"stream":{"app":"a"},"values":[["TIME","level=error msg=x"]]}]}"#;
    let began = Instant::now();
    let mut is_enough = false;
    while !is_enough {
        let body = line.replace("TIME", &format!("{}000000000", now_s()));
        let pushed =
            http::post(server, "/loki/api/v1/push", ("application/json", body.as_bytes()), PATIENCE)?;
        if pushed.status != 204 {
            bail!("a push: {} {}", pushed.status, pushed.text());
        }
        http::post(
            server,
            "/graphite/carbon",
            ("text/plain", format!("a.b 1 {}\n", now_s()).as_bytes()),
            PATIENCE,
        )?;
        http::post(server, "/ingester/flush", ("text/plain", b""), PATIENCE)?;
        let range = format!("start={}&end={}&step=1", now_s() - 60, now_s());
        let logs = encode("sum(count_over_time({app=\"a\"} |= \"x\" [10s]))");
        http::get(server, &format!("/loki/api/v1/query_range?{range}&query={logs}"), PATIENCE)?.json()?;
        // A line is scraped only after it was counted, so the rate is that of counters that have grown.
        is_enough = series(server, "sum(increase(sandur_push_entries_total[1m])) > 3")? > 0
            && series(server, "sum(increase(sandur_cache_lookups_total[1m])) > 0")? > 0;
        if !is_enough && began.elapsed() > PATIENCE {
            bail!("the scraped counters do not grow");
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}

fn now_s() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

/// The number of series of an instant query.
fn series(server: SocketAddr, query: &str) -> Result<usize> {
    let answer = http::get(server, &format!("/api/v1/query?query={}", encode(query)), PATIENCE)?.json()?;
    Ok(answer["data"]["result"].as_array().context("no result")?.len())
}

/// A query with every status instead of those of failures, which a healthy server does not have.
fn with_every_status(query: &str) -> String {
    let Some((before, rest)) = query.split_once("status=~\"") else { return query.to_owned() };
    let after = rest.split_once('"').map_or("", |(_, after)| after);
    format!("{before}status=~\".+\"{after}")
}

/// The names of all series of a page of metrics.
fn names(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, kind) in page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "info" => &["_info"],
            _ => &[""],
        };
        let family = name.strip_suffix("_total").unwrap_or(name);
        names.insert(name.to_owned());
        names.extend(endings.iter().map(|ending| format!("{family}{ending}")));
    }
    names
}

fn check_names(query: &str, known: &BTreeSet<String>) -> Result<()> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    for name in words.filter(|word| word.starts_with("sandur_")) {
        if !known.contains(name) && !is_registered(name)? {
            bail!("there is no metric {name}");
        }
    }
    Ok(())
}

/// Whether a metric that is shown only once it was counted is registered in a source of the product, by its
/// name or, in a registry with a prefix, by the end of its name.
fn is_registered(name: &str) -> Result<bool> {
    if !SHOWN_WHEN_COUNTED.contains(&name) {
        return Ok(false);
    }
    let family = name.trim_end_matches("_total");
    let ends = family.match_indices('_').map(|(at, _)| &family[at + 1..]).take(2);
    for name in [family].into_iter().chain(ends) {
        let mut command = Command::new("grep");
        command.args(["--recursive", "--quiet", "--fixed-strings", &format!("\"{name}\"")]);
        if command.arg(root().join("crates")).status().context("cannot start grep")?.success() {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_series_are_those_of_their_families() {
        let known = names("# TYPE a counter\na_total 1\n# TYPE h histogram\n# TYPE g gauge\n# TYPE i info\n");
        let has = |name: &str| known.contains(name);
        assert!(has("a_total") && has("h_bucket") && has("g") && has("i_info"));
        assert!(!has("g_total") && !has("h_total"));
    }

    #[test]
    fn a_selection_of_failures_becomes_one_of_all() {
        let query = "rate(a{i=\"x\",status=~\"5..\"}[1m])";
        assert_eq!(with_every_status(query), "rate(a{i=\"x\",status=~\".+\"}[1m])");
        assert_eq!(with_every_status("rate(a[1m])"), "rate(a[1m])");
    }

    #[test]
    fn titles_and_identifiers_occur_once() {
        for dashboard in DASHBOARDS {
            let titles: BTreeSet<&str> = dashboard.panels.iter().map(|panel| panel.title).collect();
            assert_eq!(titles.len(), dashboard.panels.len(), "{}", dashboard.title);
        }
    }
}
