//! Rows spread so thinly over days and tenants that each could need a block of its own: one sample per
//! day for a century, lines of thousands of days, thousands of tenants with one line each. Flushes must
//! succeed, write few blocks, and stay within the memory limit, also after a crash, which restores all
//! of the rows.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use sandur_protobuf::prometheus;
use serde_json::{Value, json};

use super::Attack;
use super::remote_writes::V1;
use crate::draws::Draws;
use crate::ground::{ATTACKER, Ground};
use crate::raw;
use crate::victim::Setup;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "thin-days", about: "rows of a century of days and of thousands of tenants", run };

const DAY_MS: i64 = 86_400_000;
/// The largest number of blocks per dataset that a flush writes for thin rows.
const BLOCKS_OF_DATASET: u64 = 2;

/// A server of its own, and what it acknowledged.
struct Storm<'a> {
    ground: &'a Ground<'a>,
    address: SocketAddr,
    /// The local address of its connections.
    from: Ipv4Addr,
    draws: Draws,
    pushes: u64,
    /// Number of rows by series and by stream.
    samples: BTreeMap<String, u64>,
    lines: BTreeMap<String, u64>,
    tenants: u64,
}

fn run(ground: &Ground<'_>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("data");
    let mut setup = Setup { ..ground.setup.clone() };
    setup.arguments.extend(["--limits-reject-old-samples-max-age", "0"].map(str::to_owned));
    let server = setup.serve_store(ground.env, &store)?;
    let draws = Draws::new(ground.seed);
    let address = server.address;
    let (from, samples, lines) = (ATTACKER, BTreeMap::new(), BTreeMap::new());
    let mut storm = Storm { ground, address, from, draws, pushes: 0, samples, lines, tenants: 0 };
    for round in 0..ground.pick(2, 4) {
        storm.push_century(round)?;
    }
    storm.push_tenants(ground.pick(300, 24_000))?;
    storm.check_memory(server.peak_bytes(), "during pushes");
    server.kill()?;
    let server = setup.serve_store(ground.env, &store).context("the start with everything in the WAL")?;
    storm.address = server.address;
    storm.ask("POST", "/flush", &[], b"");
    storm.check_memory(server.peak_bytes(), "after a crash and a flush");
    storm.check_blocks(&store);
    storm.check_rows()?;
    Ok(())
}

impl Storm<'_> {
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Vec<u8>> {
        let what = || format!("{method} {path}");
        match raw::request((self.from, self.address), method, path, headers, body) {
            Ok((status, body)) => {
                self.ground.tally.answer(status, &what());
                (200..300).contains(&status).then_some(body)
            }
            Err(error) => {
                self.ground.tally.finding(format!("{}: no answer: {error}", what()));
                None
            }
        }
    }

    /// Pushes one sample per day for some series, and one line per day for some streams, for up to a
    /// century.
    fn push_century(&mut self, round: usize) -> Result<()> {
        let now_ms = self.ground.env.now_ns() / 1_000_000;
        let days = self.ground.pick(4_000, 36_500) as i64 / (1 + self.draws.below(3) as i64);
        for series in 0..1 + self.draws.below(self.ground.pick(3, 7)) {
            self.pushes += 2;
            let shift = self.draws.below(80_000_000) as i64;
            let times: Vec<i64> = (0..days).map(|day| now_ms - day * DAY_MS - shift).collect();
            let stream = format!("{round}-{series}");
            let pairs = [("__name__", "thin"), ("id", stream.as_str())];
            let mut plain = Vec::new();
            prometheus::series(&mut plain, pairs, times.iter().map(|time| (*time, 1.0)));
            let body =
                snap::raw::Encoder::new().compress_vec(&plain).context("snappy can compress any bytes")?;
            if self.ask("POST", "/api/v1/write", V1, &body).is_some() {
                self.samples.insert(stream.clone(), times.len() as u64);
            }
            let line = |time: &i64| json!([(time * 1_000_000).to_string(), "a line of a day"]);
            let values: Vec<Value> = times.iter().map(line).collect();
            let body = json!({"streams": [{"stream": {"job": "thin", "id": stream}, "values": values}]});
            let headers = [("Content-Type", "application/json")];
            if self.ask("POST", "/loki/api/v1/push", &headers, body.to_string().as_bytes()).is_some() {
                self.lines.insert(stream, times.len() as u64);
            }
        }
        Ok(())
    }

    /// Pushes a line for each of many tenants, and a sample for some.
    fn push_tenants(&mut self, count: usize) -> Result<()> {
        let now = self.ground.env.now_ns();
        for n in 0..count {
            // A port cannot be reused for a minute after its connection.
            self.from = Ipv4Addr::new(127, 0, 8, (n / 1_000) as u8);
            let tenant = format!("thin-{n}");
            let body = json!({"streams": [{"stream": {"job": "thin"}, "values": [[now.to_string(), "x"]]}]});
            let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", tenant.as_str())];
            if self.ask("POST", "/loki/api/v1/push", &headers, body.to_string().as_bytes()).is_some() {
                self.tenants += 1;
            }
        }
        Ok(())
    }

    fn check_memory(&self, peak: u64, when: &str) {
        let bound = self.ground.setup.memory_limit + self.ground.setup.memory_limit / 10;
        if peak > bound {
            self.ground.tally.finding(format!("resident memory was {} MiB {when}", peak >> 20));
        }
    }

    /// Checks that there are few objects for what was pushed. Each push may have been in a flush of its
    /// own, and blocks that a flush wrote before the crash are written again.
    fn check_blocks(&self, store: &Path) {
        let found = files(&store.join("blocks"));
        let most = 2 * (BLOCKS_OF_DATASET * self.pushes + self.tenants);
        if found > most {
            self.ground.tally.finding(format!("{found} blocks, of at most {most}"));
        }
    }

    /// Checks that all acknowledged rows are in the answers.
    fn check_rows(&self) -> Result<()> {
        let now = self.ground.env.now_ns() / 1_000_000_000 + 86_400;
        let escape = sandur_bench::http::escaped;
        let range = format!("[{}d]", 140 * 365);
        for (path, metric, expected) in [
            ("/api/v1/query", "thin{id=", &self.samples),
            ("/loki/api/v1/query", "{job=\"thin\",id=", &self.lines),
        ] {
            let mut found = 0;
            // Queries series one by one, since the samples of all may exceed the memory of a query.
            for id in expected.keys() {
                let query = escape(&format!("sum(count_over_time({metric}\"{id}\"}}{range}))"));
                let body = self.ask("GET", &format!("{path}?query={query}&time={now}"), &[], b"");
                let answer: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
                let value = &answer["data"]["result"][0]["value"][1];
                found += value.as_str().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            let expected: u64 = expected.values().sum();
            if found != expected {
                let text = format!("{path} answers with {found} of {expected} acknowledged rows");
                self.ground.tally.finding(text);
            }
        }
        Ok(())
    }
}

/// Returns the number of files below a directory.
fn files(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let count = |entry: fs::DirEntry| if entry.path().is_dir() { files(&entry.path()) } else { 1 };
    entries.flatten().map(count).sum()
}
