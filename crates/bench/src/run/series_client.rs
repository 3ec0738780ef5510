//! A client that pushes series by remote write 1 and waits where the server has no room.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use sandur_base::Env;

use crate::http::Connection;
use crate::push_body::{SampledSeries, remote_write};

const HEADERS: &[&str] = &["Content-Type: application/x-protobuf", "Content-Encoding: snappy"];
/// Connections that push.
const PUSHERS: u64 = 4;
/// Series of a body.
const BODY_SERIES: u64 = 500;
/// How often a body is sent again that the server has no room for.
const TRIES_MAX: u32 = 600;

/// Pushes the series of these numbers over several connections; gives when all are acknowledged.
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
