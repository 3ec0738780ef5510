//! Measures a relay whose target becomes unreachable: how much waits on disk, what arrives and in which
//! order, and what a kill or a second, dead target costs. The relay is a separate process: this program
//! with the argument `relay`.
//!
//! Usage: `outage [SECONDS [POINTS_PER_SECOND]]`: how long the target is unreachable, and the rate.

#![allow(clippy::disallowed_methods)] // a measurement: real time

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use sandur_relay::config::read;
use sandur_relay::connect::Network;
use sandur_relay::intake::listen;
use sandur_relay::memory::Memory;
use sandur_relay::running::Running;
use sandur_relay::spool::{Directory, Options, Spool};
use sandur_runtime::{Env, Shutdown};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const METRICS: u64 = 10_000;
const LINES_AT_ONCE: u64 = 1_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, config, spool] = arguments.as_slice()
        && word == "relay"
    {
        return relay(Path::new(config), Path::new(spool));
    }
    let number = |at: usize, preset: u64| arguments.get(at).map_or(Ok(preset), |text| text.parse());
    let (away, rate) = (number(0, 60)?, number(1, 200_000)?);
    let folder = std::env::temp_dir().join(format!("outage-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = away_and_back(&folder.join("away"), away, rate)
        .and_then(|()| killed(&folder.join("killed"), rate))
        .and_then(|()| with_a_dead_target(&folder.join("tee")));
    std::fs::remove_dir_all(&folder)?;
    outcome
}

/// Runs the relay that is measured.
fn relay(config: &Path, spool: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let (env, memory) = (Env::system(2), Memory::alone());
        let routing = read(config, None, None)?;
        let listeners = routing.listeners.clone();
        let open = |name: &str| {
            let disk = Directory::open(spool.join(name))?;
            Spool::open(Arc::new(disk), Options::default()).map(Some)
        };
        let network = Arc::new(Network::of(&routing)?);
        let running = Running::start((&env, &memory), routing, network, &open, "host")?;
        let shutdown = Shutdown::default();
        let mut accepting = Vec::new();
        for listener in &listeners {
            accepting.push(listen(&running.senders, listener, shutdown.signal()).await?);
        }
        std::future::pending::<()>().await;
        Ok(())
    })
}

/// A relay process that is killed when the value is dropped.
struct Relay(Child);

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Relay {
    fn start(folder: &Path, port: u16, targets: &[u16]) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let config = folder.join("relay.toml");
        let targets: Vec<String> = targets.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let text = format!(
            "listen = [\"tcp://127.0.0.1:{port}\"]\n[[cluster]]\nname = \"all\"\nmethod = \"all\"\n\
             targets = [{}]\n[[stage]]\nto = [\"all\"]\n[statistics]\nevery = \"0s\"\n",
            targets.join(", ")
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("relay").arg(&config).arg(folder.join("spool")).stdin(Stdio::null());
        let relay = Self(command.spawn()?);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            sleep(Duration::from_millis(50));
        }
        Ok(relay)
    }

    /// CPU time in seconds, user and system.
    fn cpu(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        (ticks(11) + ticks(12)) / 100.0
    }

    /// The peak memory in bytes.
    fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) << 10
    }
}

/// What a target has received: the last number of each metric.
#[derive(Default)]
struct Seen {
    last: Mutex<HashMap<String, u64>>,
    points: AtomicU64,
    again: AtomicU64,
    missing: AtomicU64,
}

impl Seen {
    fn take(&self, line: &str) {
        let mut fields = line.split(' ');
        let (Some(name), Some(number)) = (fields.next(), fields.next().and_then(|text| text.parse().ok()))
        else {
            return;
        };
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.points.fetch_add(1, Ordering::Relaxed);
        let own = last.entry(name.to_owned()).or_insert(0);
        if number <= *own {
            self.again.fetch_add(1, Ordering::Relaxed);
        } else {
            self.missing.fetch_add(number - *own - 1, Ordering::Relaxed);
            *own = number;
        }
    }

    fn known(&self) -> u64 {
        self.points.load(Ordering::Relaxed) - self.again.load(Ordering::Relaxed)
    }
}

/// A target that can be stopped.
struct Target {
    up: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Target {
    fn start(port: u16, seen: &Arc<Seen>) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let up = Arc::new(AtomicBool::new(true));
        let (own, seen) = (Arc::clone(&up), Arc::clone(seen));
        let thread = thread::spawn(move || {
            let mut readers = Vec::new();
            while own.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let (own, seen) = (Arc::clone(&own), Arc::clone(&seen));
                        readers.push(thread::spawn(move || read_lines(stream, &own, &seen)));
                    }
                    Err(_) => sleep(Duration::from_millis(20)),
                }
            }
            readers.into_iter().for_each(|reader| drop(reader.join()));
        });
        Ok(Self { up, thread })
    }

    fn stop(self) {
        self.up.store(false, Ordering::Relaxed);
        let _ = self.thread.join();
    }
}

fn read_lines(stream: TcpStream, up: &AtomicBool, seen: &Seen) {
    let _ = stream.set_nonblocking(false);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let (mut reader, mut line) = (BufReader::with_capacity(1 << 20, stream), String::new());
    while up.load(Ordering::Relaxed) {
        match reader.read_line(&mut line) {
            Ok(0) => return,
            Ok(_) => {
                seen.take(line.trim_end());
                line.clear();
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Sends at a rate until it is stopped, and counts.
struct Sender {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Sender {
    fn start(port: u16, rate: Option<u64>) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (own_stop, own_sent) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let (begun, mut count, mut lines) = (Instant::now(), 0u64, Vec::new());
            while !own_stop.load(Ordering::Relaxed) {
                lines.clear();
                for _ in 0..LINES_AT_ONCE {
                    let (metric, number) = (count % METRICS, count / METRICS + 1);
                    let _ = writeln!(lines, "servers.host{metric}.cpu {number} {}", 1_795_000_000 + number);
                    count += 1;
                }
                if stream.write_all(&lines).is_err() {
                    return;
                }
                own_sent.store(count, Ordering::Relaxed);
                if let Some(rate) = rate {
                    let due = Duration::from_secs_f64(count as f64 / rate as f64);
                    sleep(due.saturating_sub(begun.elapsed()));
                }
            }
        });
        Ok(Self { stop, sent, thread })
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.sent.load(Ordering::Relaxed)
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let size = |path: &PathBuf| match path.is_dir() {
        true => bytes_below(path),
        false => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
    };
    paths.iter().map(size).sum()
}

/// Waits until `wanted` points have arrived, or nothing has arrived for 15 seconds. Returns the seconds
/// it took.
fn wait_for(seen: &Seen, wanted: u64) -> f64 {
    let begun = Instant::now();
    let (mut before, mut since) = (seen.known(), Instant::now());
    while seen.known() < wanted && since.elapsed() < Duration::from_secs(15) {
        sleep(Duration::from_millis(50));
        if seen.known() > before {
            (before, since) = (seen.known(), Instant::now());
        }
    }
    begun.elapsed().as_secs_f64()
}

fn away_and_back(folder: &Path, away: u64, rate: u64) -> Result<()> {
    let (port, target_port, seen) = (free_port()?, free_port()?, Arc::new(Seen::default()));
    let target = Target::start(target_port, &seen)?;
    let relay = Relay::start(folder, port, &[target_port])?;
    let sender = Sender::start(port, Some(rate))?;
    sleep(Duration::from_secs(5));
    target.stop();
    let before = seen.known();
    sleep(Duration::from_secs(away));
    let (waiting, on_disk) = (sender.sent() - before, bytes_below(folder));
    let target = Target::start(target_port, &seen)?;
    let sent_then = sender.sent();
    let caught_up = wait_for(&seen, sent_then);
    let sent = sender.stop();
    wait_for(&seen, sent);
    let (missing, again) = (seen.missing.load(Ordering::Relaxed), seen.again.load(Ordering::Relaxed));
    println!(
        "a target away for {away} s at {rate} points/s: {waiting} points waited, {on_disk} bytes on disk"
    );
    println!("  caught up after {caught_up:.1} s; sent {sent}, arrived {} once", seen.known());
    println!("  {missing} skipped within a metric, {again} arrived again");
    println!("  {:.1} s of CPU, {} MiB at most", relay.cpu(), relay.memory() >> 20);
    target.stop();
    Ok(())
}

fn killed(folder: &Path, rate: u64) -> Result<()> {
    let (port, target_port, seen) = (free_port()?, free_port()?, Arc::new(Seen::default()));
    let mut relay = Relay::start(folder, port, &[target_port])?;
    let sender = Sender::start(port, Some(rate))?;
    sleep(Duration::from_secs(10));
    relay.0.kill()?;
    let sent = sender.stop();
    drop(relay);
    let target = Target::start(target_port, &seen)?;
    let _relay = Relay::start(folder, port, &[target_port])?;
    wait_for(&seen, sent);
    let lost = sent - seen.known();
    let (missing, again) = (seen.missing.load(Ordering::Relaxed), seen.again.load(Ordering::Relaxed));
    println!("killed with a target away: sent {sent}, {lost} lost, which are {} ms", lost * 1_000 / rate);
    println!("  {missing} skipped within a metric, {again} arrived again");
    target.stop();
    Ok(())
}

fn with_a_dead_target(folder: &Path) -> Result<()> {
    for round in 0..3 {
        for has_dead in [false, true] {
            let (port, target_port, dead) = (free_port()?, free_port()?, free_port()?);
            let seen = Arc::new(Seen::default());
            let target = Target::start(target_port, &seen)?;
            let ports = [target_port, dead];
            let own = folder.join(format!("{round}-{has_dead}"));
            let relay = Relay::start(&own, port, if has_dead { &ports } else { &ports[..1] })?;
            let sender = Sender::start(port, Some(200_000))?;
            sleep(Duration::from_secs(10));
            let sent = sender.stop();
            let late = wait_for(&seen, sent);
            let what = if has_dead { "next to a dead one" } else { "alone" };
            println!(
                "a target {what}: sent {sent}, arrived {}, the last {late:.2} s after, {:.2} s of CPU",
                seen.known(),
                relay.cpu()
            );
            target.stop();
        }
    }
    Ok(())
}
