//! A client that pushes series by remote write 1 and retries when the server has no room. It also has
//! the counters, and the query over them, of measurements with many series.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_runtime::Env;

use crate::http::{Connection, escaped};
use crate::push_body::{SampledSeries, remote_write};

/// Number of jobs of the counters, which is the number of groups in the answer.
pub(super) const JOBS: u64 = 20;
const HEADERS: &[&str] = &["Content-Type: application/x-protobuf", "Content-Encoding: snappy"];
/// Number of connections that push.
const PUSHERS: u64 = 4;
/// Number of series of a body.
const BODY_SERIES: u64 = 500;
/// How often a body is retried if the server has no room for it.
const TRIES_MAX: u32 = 600;

/// Pushes the series with these numbers over several connections. Returns when all are acknowledged.
pub(super) fn push(
    env: &Env,
    address: &str,
    numbers: std::ops::Range<u64>,
    series_of: impl Fn(u64) -> SampledSeries + Sync,
) -> Result<()> {
    let failure = Mutex::new(None);
    let bodies = (numbers.end - numbers.start).div_ceil(BODY_SERIES);
    std::thread::scope(|scope| {
        for pusher in 0..PUSHERS {
            let (failure, series_of, numbers) = (&failure, &series_of, &numbers);
            scope.spawn(move || {
                let mut connection = Connection::new(address);
                for body in (pusher..bodies).step_by(PUSHERS as usize) {
                    let start = numbers.start + body * BODY_SERIES;
                    let own = start..numbers.end.min(start + BODY_SERIES);
                    let series: Vec<SampledSeries> = own.map(series_of).collect();
                    if let Err(error) = send(env, &mut connection, &remote_write(&series)) {
                        failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                        return;
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

fn send(env: &Env, connection: &mut Connection, body: &[u8]) -> Result<()> {
    let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    for _ in 0..TRIES_MAX {
        let answer = connection.post("/api/v1/write", HEADERS, body)?;
        match answer.status {
            200..300 => return Ok(()),
            429 | 503 => waiting.block_on(env.sleep(Duration::from_millis(100))),
            status => bail!("answered with {status}: {}", answer.text()),
        }
    }
    bail!("the server had no room for a body {TRIES_MAX} times")
}

/// Returns a counter of an instance of one of the jobs.
pub(super) fn counter(number: u64, samples: impl Iterator<Item = (i64, f64)>) -> SampledSeries {
    let labels = [
        ("__name__", "requests_total".to_owned()),
        ("instance", format!("instance-{number:07}")),
        ("job", format!("job-{:02}", number % JOBS)),
    ];
    SampledSeries { labels: labels.to_vec(), samples: samples.collect() }
}

/// Returns the path of a query for the sum of the rates of counters by job, with a step of a minute,
/// between two times in seconds. Each `number` gives another window in whole seconds over the same
/// samples.
pub(super) fn rates_path(number: u64, start: i64, end: i64) -> String {
    let query = escaped(&format!("sum by (job) (rate(requests_total[{}s]))", 300 + number));
    format!("/api/v1/query_range?query={query}&start={start}&end={end}&step=60")
}
