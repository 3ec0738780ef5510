//! Measures a server of Graphite's metrics by its protocols: points in carbon's plaintext protocol for new
//! paths and then for known ones, and calls of finds and renders that touch few of the paths.
//!
//! Any server is measured, since it runs already. Carbon does not acknowledge points, so after each load the
//! last values of some paths are asked for until all are there.
//!
//! **Invariant.** No call but the find of the top is repeated, so that no answer comes from a cache of
//! answers.

use std::fmt::Write as _;
use std::io::{BufWriter, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_runtime::Env;

use super::alone::settle;
use super::report::percentile;
use super::server::Process;
use crate::http::{Connection, escaped, flush};

/// Hosts of a service, and metrics of a host.
const HOSTS: u64 = 100;
const METRICS: u64 = 100;
/// Number of connections that send points.
const SENDERS: u64 = 4;
/// Seconds between the points of a path.
const STEP_S: i64 = 60;
/// Number of paths whose last value is compared after a load, and the longest time for it.
const COMPARED: u64 = 50;
const COMPARE_SECONDS: u32 = 120;
/// The longest time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Paths {
    /// Host and port of carbon's plaintext protocol; `None` if the points are stored already.
    pub carbon: Option<String>,
    /// The server of `/metrics/find` and `/render`.
    pub url: String,
    /// URL that is posted to after each load, to write it to blocks.
    pub flush: Option<String>,
    /// The process of the server.
    pub process: Option<Process>,
    /// Number of services; each has 10,000 paths.
    pub services: u64,
    /// Number of points of each path, for new paths and then for known ones.
    pub points: [u64; 2],
    /// How often each call is sent.
    pub calls: u64,
    /// The second after the last point, a multiple of a minute.
    pub end_s: i64,
}

/// The figures of a load of points.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    points: u64,
    wall_seconds: f64,
    cpu_seconds: f64,
    resident_peak: u64,
}

/// The figures of a kind of call.
#[derive(Clone, Debug)]
struct Called {
    name: &'static str,
    ms: Vec<f64>,
    cpu_ms: f64,
    bytes: usize,
}

/// The figures of the measurement.
#[derive(Clone, Debug, Default)]
pub struct PathsReport {
    loads: Vec<(&'static str, Load)>,
    calls: Vec<Called>,
}

/// Runs the measurement. `report` is called with progress messages.
pub async fn paths(env: &Env, plan: &Paths, report: impl Fn(&str)) -> Result<PathsReport> {
    let mut result = PathsReport::default();
    let [new, known] = plan.points;
    for (name, first, end) in [("new paths", 0, new), ("known paths", new, new + known)] {
        let Some(carbon) = plan.carbon.as_ref().filter(|_| first < end) else { continue };
        report(&format!("{name}: {} points", plan.services * HOSTS * METRICS * (end - first)));
        let load = load(env, plan, carbon, first..end).await.with_context(|| name.to_owned())?;
        result.loads.push((name, load));
    }
    for kind in CALLS {
        report(kind.name);
        result.calls.push(call(env, plan, kind).await.with_context(|| kind.name)?);
    }
    Ok(result)
}

async fn load(env: &Env, plan: &Paths, carbon: &str, rounds: std::ops::Range<u64>) -> Result<Load> {
    let cpu = || plan.process.map_or(0.0, Process::cpu_seconds);
    if let Some(process) = plan.process {
        // Only the owner of the process may do this; otherwise the peak includes what was before.
        let _ = process.reset_resident_peak();
    }
    let (begun, cpu_before) = (env.monotonic(), cpu());
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                scope.spawn({
                    let rounds = rounds.clone();
                    move || send(plan, carbon, sender, rounds)
                })
            })
            .collect();
        senders.into_iter().try_for_each(|sender| match sender.join() {
            Ok(sent) => sent,
            Err(_) => bail!("a sender panicked"),
        })
    })?;
    compare(env, plan, rounds.end - 1).await?;
    let wall_seconds = (env.monotonic() - begun).as_secs_f64();
    if let Some(url) = &plan.flush {
        flush(url, PATIENCE)?;
    }
    if let Some(process) = plan.process {
        settle(env, process).await;
    }
    Ok(Load {
        points: plan.services * HOSTS * METRICS * (rounds.end - rounds.start),
        wall_seconds,
        cpu_seconds: cpu() - cpu_before,
        resident_peak: plan.process.map_or(0, Process::resident_peak_bytes),
    })
}

/// Sends the points of every fourth host, round by round.
fn send(plan: &Paths, carbon: &str, sender: u64, rounds: std::ops::Range<u64>) -> Result<()> {
    let stream = TcpStream::connect(carbon).with_context(|| carbon.to_owned())?;
    let mut stream = BufWriter::with_capacity(256 << 10, stream);
    for round in rounds {
        let second = second_of(plan, round);
        for host in (sender..plan.services * HOSTS).step_by(SENDERS as usize) {
            for metric in 0..METRICS {
                let value = value_of(host, metric, round);
                let path = path_of(host / HOSTS, host % HOSTS, metric);
                writeln!(stream, "{path} {value} {second}")?;
            }
        }
    }
    stream.flush()?;
    Ok(())
}

/// Waits until the value of this round of some paths is answered, and compares it.
async fn compare(env: &Env, plan: &Paths, round: u64) -> Result<()> {
    let (hosts, second) = (plan.services * HOSTS, second_of(plan, round));
    let mut connection = Connection::new(&plan.url).with_timeout(PATIENCE);
    for number in 0..COMPARED {
        let (host, metric) = (number * 7_919 % hosts, number * 31 % METRICS);
        let path = path_of(host / HOSTS, host % HOSTS, metric);
        let call =
            format!("/render?target={path}&from={}&until={}&format=json", second - STEP_S, second + STEP_S);
        let wanted = value_of(host, metric, round) as f64;
        let mut waited = 0;
        loop {
            let answer = connection.get(&call)?;
            let found: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let points = found[0]["datapoints"].as_array().cloned().unwrap_or_default();
            if points
                .iter()
                .any(|point| point[0].as_f64() == Some(wanted) && point[1].as_i64() == Some(second))
            {
                break;
            }
            if waited == COMPARE_SECONDS {
                bail!("{path} has no value {wanted} at {second} after {waited} s: {}", answer.text());
            }
            waited += 1;
            env.sleep(Duration::from_secs(1)).await;
        }
    }
    Ok(())
}

fn path_of(service: u64, host: u64, metric: u64) -> String {
    format!("prod.service-{service:03}.host-{host:03}.metric-{metric:03}")
}

fn value_of(host: u64, metric: u64, round: u64) -> u64 {
    let (key, rate) = (host * METRICS + metric, (host + metric) % 50);
    match key % 4 {
        0 => key % 1_000,
        1 => key + round * rate,
        _ => (key.wrapping_mul(0x9E37_79B9) ^ round.wrapping_mul(0x85EB_CA6B)) % 50_000,
    }
}

fn second_of(plan: &Paths, round: u64) -> i64 {
    plan.end_s - (plan.points[0] + plan.points[1] - round) as i64 * STEP_S
}

/// A kind of call: its name, and the path of its request for a number that each call has anew.
struct Kind {
    name: &'static str,
    path: fn(&Paths, u64) -> String,
}

const CALLS: &[Kind] = &[
    Kind { name: "find of the top", path: |_, _| find("prod.*") },
    Kind { name: "find of leaves", path: |plan, number| find(&format!("{}.*", host(plan, number))) },
    Kind {
        name: "find over all services",
        path: |_, number| find(&format!("prod.*.host-{:03}.metric-{:03}", number % HOSTS, number / HOSTS)),
    },
    Kind {
        name: "render of one",
        path: |plan, number| render(plan, &format!("{}.metric-007", host(plan, number))),
    },
    Kind {
        name: "derivative of 100",
        path: |plan, number| render(plan, &format!("derivative({}.*)", host(plan, number))),
    },
    Kind {
        name: "sum of 1,000",
        path: |plan, number| {
            render(
                plan,
                &format!(
                    "sumSeries(prod.service-{:03}.host-{:02}*.*)",
                    number % plan.services,
                    number / plan.services % 10
                ),
            )
        },
    },
    Kind {
        name: "highestMax of 10,000",
        path: |plan, number| {
            render(plan, &format!("highestMax(prod.service-{:03}.*.*,10)", number % plan.services))
        },
    },
];

fn host(plan: &Paths, number: u64) -> String {
    format!("prod.service-{:03}.host-{:03}", number % plan.services, number / plan.services % HOSTS)
}

fn find(pattern: &str) -> String {
    format!("/metrics/find?query={}&format=treejson", escaped(pattern))
}

fn render(plan: &Paths, target: &str) -> String {
    let from = second_of(plan, 0) - STEP_S;
    format!("/render?target={}&from={from}&until={}&format=json", escaped(target), plan.end_s)
}

async fn call(env: &Env, plan: &Paths, kind: &Kind) -> Result<Called> {
    let mut connection = Connection::new(&plan.url).with_timeout(PATIENCE);
    let mut called = Called { name: kind.name, ms: Vec::new(), cpu_ms: 0.0, bytes: 0 };
    let mut cpu_before = 0.0;
    // The first call fills caches, so it is not measured.
    for number in 0..=plan.calls {
        let path = (kind.path)(plan, number);
        let begun = env.monotonic();
        let answer = connection.get(&path)?;
        let ms = (env.monotonic() - begun).as_secs_f64() * 1e3;
        if answer.status != 200 || answer.body.len() <= 2 {
            bail!("{path} was answered with {}: {}", answer.status, answer.text());
        }
        if number == 0 {
            if let Some(process) = plan.process {
                settle(env, process).await;
                cpu_before = process.cpu_seconds();
            }
            continue;
        }
        called.bytes = answer.body.len();
        called.ms.push(ms);
    }
    let cpu = plan.process.map_or(0.0, Process::cpu_seconds) - cpu_before;
    called.cpu_ms = cpu * 1e3 / plan.calls.max(1) as f64;
    Ok(called)
}

impl PathsReport {
    /// Returns tables in Markdown.
    pub fn text(&self) -> String {
        // Writing to a String cannot fail.
        let mut text = String::new();
        if !self.loads.is_empty() {
            text.push_str(
                "| points | wall, s | CPU until idle, s | M points per CPU s | resident at most, MB |\n\
                 |---|---|---|---|---|\n",
            );
        }
        for (name, load) in &self.loads {
            let millions = load.points as f64 / 1e6;
            let _ = writeln!(
                text,
                "| {millions:.1} M of {name} | {:.1} | {:.1} | {:.2} | {:.0} |",
                load.wall_seconds,
                load.cpu_seconds,
                millions / load.cpu_seconds.max(0.01),
                load.resident_peak as f64 / 1e6,
            );
        }
        text.push_str("\n| call | CPU, ms | p50, ms | p99, ms | bytes |\n|---|---|---|---|---|\n");
        for called in &self.calls {
            let [half, most] = [0.5, 0.99].map(|share| percentile(&called.ms, share));
            let (name, cpu_ms, bytes) = (called.name, called.cpu_ms, called.bytes);
            let _ = writeln!(text, "| {name} | {cpu_ms:.2} | {half:.2} | {most:.2} | {bytes} |");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Paths {
        Paths {
            carbon: None,
            url: "http://127.0.0.1:1".to_owned(),
            flush: None,
            process: None,
            services: 3,
            points: [20, 5],
            calls: 60,
            end_s: 6_000,
        }
    }

    #[test]
    fn rounds_are_minutes_that_end_before_the_end() {
        assert_eq!((second_of(&plan(), 0), second_of(&plan(), 24)), (4_500, 5_940));
    }

    #[test]
    fn every_call_of_a_host_is_for_another_one() {
        let mut hosts: Vec<String> = (0..=60).map(|number| host(&plan(), number)).collect();
        hosts.sort();
        hosts.dedup();
        assert_eq!(hosts.len(), 61);
    }

    #[test]
    fn the_tables_have_each_load_and_call() {
        let load =
            Load { points: 20_000_000, wall_seconds: 8.04, cpu_seconds: 10.0, resident_peak: 282_000_000 };
        let call = Called { name: "render of one", ms: vec![1.0, 0.5, 2.0], cpu_ms: 0.591, bytes: 77 };
        let report = PathsReport { loads: vec![("new paths", load)], calls: vec![call] };
        let text = report.text();
        assert!(text.contains("| 20.0 M of new paths | 8.0 | 10.0 | 2.00 | 282 |\n"), "{text}");
        assert!(text.contains("| render of one | 0.59 | 1.00 | 2.00 | 77 |\n"), "{text}");
    }
}
