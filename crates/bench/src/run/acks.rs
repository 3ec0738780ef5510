//! Measures the latency and the cost of acknowledgements with a bucket.
//!
//! Three loads run one after the other on each server: a client that pushes a little once per second;
//! four connections that push as fast as they are answered; and many that share a constant rate. Each
//! server has a bucket of its own and a proxy that counts and times its requests, so the figures do not
//! depend on what a server reports about itself. With several servers, the rounds alternate between
//! them.
//! server says of itself. Rounds of several servers take turns.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;

use super::alone::settle;
use super::cold::Distant;
use super::report::{Column, median, percentile};
use super::server::{Place, Process};
use crate::distant::ProxyFaults;
use crate::http::Connection;
use crate::live::PUSH_PATH;
use crate::pack::{Frame, Manifest, PackReader};
use crate::push_body;
use crate::services::Services;

const CONTENT_TYPE: &str = "Content-Type: application/x-protobuf";
/// Number of connections that push as fast as they can.
const EAGER: usize = 4;
/// Number of connections that share a rate.
const SHARING: usize = 64;
/// The price of a thousand requests of the expensive class at the largest provider, in US dollars.
const THOUSAND_PUTS_USD: f64 = 0.005;
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Acks {
    /// The servers, each with the name of its column.
    pub places: Vec<(String, Place)>,
    /// The data set: the four connections push the first half, those with a rate the second.
    pub data: PathBuf,
    /// Path of the program versitygw.
    pub s3: PathBuf,
    /// The number of rounds.
    pub rounds: usize,
    /// The duration of the load of one client.
    pub lone: Duration,
    /// Bytes of lines per second of all connections that share a rate.
    pub rate: u64,
}

/// Runs the measurement and returns a column per server. `report` is called with progress messages.
pub async fn acks(env: &Env, plan: &Acks, report: impl Fn(&str)) -> Result<Vec<Column>> {
    let manifest = Manifest::load(&plan.data).with_context(|| {
        format!("{} is not a data set: make one with `sandur-bench generate`", plan.data.display())
    })?;
    let mut columns: Vec<Column> = plan.places.iter().map(|(name, _)| Column::new(name)).collect();
    for round in 1..=plan.rounds {
        for ((name, place), column) in plan.places.iter().zip(&mut columns) {
            let mut place = place.clone();
            report(&format!("round {round} of {}: {name}", plan.rounds));
            place.down(env).await?;
            place.wipe()?;
            std::fs::create_dir_all(&place.directory)?;
            let bucket = Distant::before(env, &mut place, &plan.s3).await?;
            let process = place.up(env).await?;
            let subject = Subject { env, address: &place.address, process, faults: &bucket.faults };
            let measured = one_round(&subject, plan, &manifest, column).await;
            place.down(env).await?;
            measured.with_context(|| name.clone())?;
        }
    }
    Ok(columns)
}

/// A server under load.
struct Subject<'a> {
    env: &'a Env,
    address: &'a str,
    process: Process,
    faults: &'a ProxyFaults,
}

async fn one_round(
    subject: &Subject<'_>,
    plan: &Acks,
    manifest: &Manifest,
    column: &mut Column,
) -> Result<()> {
    lone(subject, plan.lone, column).await?;
    let frames = Frames::open(plan, manifest)?;
    eager(subject, &frames, manifest.bytes / 2, column).await?;
    sharing(subject, &frames, plan.rate, column).await
}

/// One client sends one small push per second.
async fn lone(subject: &Subject<'_>, length: Duration, column: &mut Column) -> Result<()> {
    let (env, services) = (subject.env, Services::new(1, 2));
    let mut connection = Connection::new(subject.address);
    let started = env.monotonic();
    let mut acks = Vec::new();
    subject.faults.take_wal_puts_us();
    while env.monotonic() - started < length {
        env.sleep(Duration::from_secs(1)).await;
        let second = env.now_ns() / 1_000_000_000;
        let body = push_body::snappy(&services.between(second - 1, second, 20.0));
        acks.push(push(env, &mut connection, &body)?);
    }
    let puts = subject.faults.take_wal_puts_us().into_iter().map(|us| us as f64 / 1e3).collect::<Vec<_>>();
    let (ack, put) = (median(&acks).unwrap_or_default(), median(&puts).unwrap_or_default());
    column.add("one client: ack p50, ms", ack);
    column.add("one client: ack p99, ms", percentile(&acks, 0.99));
    column.add("one client: the store's PUT p50, ms", put);
    column.add("one client: ack p50 - PUT p50, ms", ack - put);
    Ok(())
}

/// Pushes as fast as responses arrive, until this number of bytes was pushed.
async fn eager(subject: &Subject<'_>, frames: &Frames, bytes: u64, column: &mut Column) -> Result<()> {
    let load = Load { connections: EAGER, bytes, rate: None };
    let figures = under(subject, frames, load).await?;
    column.add("4 connections: MB/s", figures.megabytes / figures.seconds);
    column.add("4 connections: ack p50, ms", median(&figures.acks).unwrap_or_default());
    column.add("4 connections: PUT-class requests per raw GB", figures.puts_per_gb());
    Ok(())
}

/// Many connections share a rate, until the end of the data set.
async fn sharing(subject: &Subject<'_>, frames: &Frames, rate: u64, column: &mut Column) -> Result<()> {
    let load = Load { connections: SHARING, bytes: u64::MAX, rate: Some(rate) };
    let figures = under(subject, frames, load).await?;
    let name = format!("{SHARING} connections at {}/s", ByteSize(rate));
    column.add(&format!("{name}: MB/s"), figures.megabytes / figures.seconds);
    column.add(&format!("{name}: ack p50, ms"), median(&figures.acks).unwrap_or_default());
    column.add(&format!("{name}: ack p99, ms"), percentile(&figures.acks, 0.99));
    column.add(&format!("{name}: PUT-class requests per raw GB"), figures.puts_per_gb());
    column.add(&format!("{name}: of these writes of the WAL"), figures.wal_puts / figures.gigabytes());
    column.add(&format!("{name}: processor seconds per raw GB"), figures.cpu / figures.gigabytes());
    let monthly = figures.puts_per_gb() * rate as f64 / 1e9 * MONTH_SECONDS / 1e3 * THOUSAND_PUTS_USD;
    column.add(&format!("{name}: requests, USD a month"), monthly);
    Ok(())
}

#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    bytes: u64,
    rate: Option<u64>,
}

/// The figures of a load. Requests and CPU time are counted until the server is idle again.
struct Figures {
    seconds: f64,
    megabytes: f64,
    acks: Vec<f64>,
    put_class: f64,
    wal_puts: f64,
    cpu: f64,
}

impl Figures {
    fn gigabytes(&self) -> f64 {
        (self.megabytes / 1e3).max(1e-9)
    }

    fn puts_per_gb(&self) -> f64 {
        self.put_class / self.gigabytes()
    }
}

async fn under(subject: &Subject<'_>, frames: &Frames, load: Load) -> Result<Figures> {
    let Subject { env, address, process, faults } = *subject;
    faults.take_wal_puts_us();
    let (before, cpu, started) = (faults.counted(), process.cpu_seconds(), env.monotonic());
    let pushed = Mutex::new((0u64, Vec::new()));
    let outcome: Result<()> = std::thread::scope(|scope| {
        let connections: Vec<_> = (0..load.connections)
            .map(|n| {
                let pushed = &pushed;
                scope.spawn(move || push_frames(env, address, frames, (n, started, load), pushed))
            })
            .collect();
        connections
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a connection panicked")))
    });
    outcome?;
    let seconds = (env.monotonic() - started).as_secs_f64();
    settle(env, process).await;
    let (bytes, acks) = pushed.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Figures {
        seconds,
        megabytes: bytes as f64 / 1e6,
        acks,
        put_class: faults.counted().since(before).put_class as f64,
        wal_puts: faults.take_wal_puts_us().len() as f64,
        cpu: process.cpu_seconds() - cpu,
    })
}

fn push_frames(
    env: &Env,
    address: &str,
    frames: &Frames,
    (n, started, load): (usize, Duration, Load),
    pushed: &Mutex<(u64, Vec<f64>)>,
) -> Result<()> {
    let mut connection = Connection::new(address);
    let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    loop {
        let (before, frame) = {
            let mut pushed = pushed.lock().unwrap_or_else(PoisonError::into_inner);
            if pushed.0 >= load.bytes {
                return Ok(());
            }
            let Some(frame) = frames.next(n)? else { return Ok(()) };
            pushed.0 += frame.bytes;
            (pushed.0 - frame.bytes, frame)
        };
        if let Some(rate) = load.rate {
            let due = started + Duration::from_secs_f64(before as f64 / rate as f64);
            waiting.block_on(env.sleep(due.saturating_sub(env.monotonic())));
        }
        let ack = push(env, &mut connection, &frame.body)?;
        pushed.lock().unwrap_or_else(PoisonError::into_inner).1.push(ack);
    }
}

/// Pushes a body. Returns the milliseconds until the acknowledgement.
fn push(env: &Env, connection: &mut Connection, body: &[u8]) -> Result<f64> {
    let asked = env.monotonic();
    let answer = connection.post(PUSH_PATH, &[CONTENT_TYPE], body)?;
    if !(200..300).contains(&answer.status) {
        bail!("a push was answered with {}: {}", answer.status, answer.text());
    }
    Ok((env.monotonic() - asked).as_secs_f64() * 1e3)
}

/// The data set; each connection takes the next push of its pack.
struct Frames(Vec<Mutex<PackReader>>);

impl Frames {
    fn open(plan: &Acks, manifest: &Manifest) -> Result<Self> {
        let packs = manifest.paths(&plan.data);
        let opened = packs
            .iter()
            .map(|path| PackReader::open(path).map(Mutex::new).with_context(|| path.display().to_string()));
        let opened: Vec<_> = opened.collect::<Result<_>>()?;
        if opened.is_empty() {
            bail!("{} has no packs", plan.data.display());
        }
        Ok(Self(opened))
    }

    fn next(&self, connection: usize) -> Result<Option<Frame>> {
        let pack = &self.0[connection % self.0.len()];
        Ok(pack.lock().unwrap_or_else(PoisonError::into_inner).next().transpose()?)
    }
}
