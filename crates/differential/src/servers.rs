//! Both servers as child processes on loopback, with empty directories and the same logs.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_bench::http::Connection;
use sandur_runtime::Env;

use crate::corpus;
use crate::peer::Peer;

/// The longest time to wait until a server is ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server process that is killed when the value is dropped.
struct Running {
    child: Child,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A Loki alone.
pub struct Loki {
    /// Its client.
    pub peer: Peer,
    _process: Running,
}

impl Loki {
    /// Starts it and waits until it is ready.
    pub async fn start(env: &Env, program: &Path, directory: &Path) -> Result<Self> {
        let (port, grpc_port, _) = free_ports()?;
        let mut process = start_loki(program, directory, port, grpc_port)?;
        ready(env, &address(port), &mut process).await.context("Loki did not start")?;
        Ok(Self { peer: Peer::new(&address(port)), _process: process })
    }
}

/// Both servers.
pub struct Servers {
    /// Loki, or another Sandur.
    pub loki: Peer,
    /// Sandur.
    pub ours: Peer,
    /// Whether the other server is a Sandur too, which keeps its rows in blocks.
    blocks: bool,
    _processes: [Running; 2],
}

/// The programs, and a directory for their data.
pub struct Programs<'a> {
    /// Path of Loki's binary. Without it a second Sandur, which keeps its rows in blocks, replaces it.
    pub loki: Option<&'a Path>,
    /// Path of our binary.
    pub sandur: &'a Path,
    /// An empty directory.
    pub directory: &'a Path,
}

/// Starts both servers and waits until they are ready.
pub async fn start(env: &Env, programs: &Programs<'_>) -> Result<Servers> {
    let (other_port, grpc_port, our_port) = free_ports()?;
    let other = match programs.loki {
        Some(loki) => start_loki(loki, programs.directory, other_port, grpc_port)?,
        None => start_sandur(programs, "other", other_port)?,
    };
    let mut processes = [other, start_sandur(programs, "sandur", our_port)?];
    for (process, port) in processes.iter_mut().zip([other_port, our_port]) {
        ready(env, &address(port), process).await.with_context(|| {
            let log = fs::read_to_string(&process.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(8)..].join("\n");
            format!("a server did not start; its output:\n{last}")
        })?;
    }
    let [loki, ours] = [other_port, our_port].map(|port| Peer::new(&address(port)));
    Ok(Servers { loki, ours, blocks: programs.loki.is_none(), _processes: processes })
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn start_loki(program: &Path, directory: &Path, port: u16, grpc_port: u16) -> Result<Running> {
    let config = directory.join("loki.yaml");
    fs::write(&config, loki_config(&directory.join("loki"), port, grpc_port))?;
    let mut command = Command::new(program);
    command.arg(format!("-config.file={}", config.display()));
    spawn(&mut command, directory.join("loki.log"))
}

fn start_sandur(programs: &Programs<'_>, name: &str, port: u16) -> Result<Running> {
    let directory = programs.directory;
    let config = directory.join("sandur.toml");
    fs::write(&config, "[limits]\nreject_old_samples_max_age = \"0s\"\n")?;
    let mut command = Command::new(programs.sandur);
    command.args(["serve", "--store", &format!("file://{}", directory.join(name).display())]);
    command.args(["--listen", &address(port), "--config"]).arg(&config);
    spawn(&mut command, directory.join(format!("{name}.log")))
}

fn free_ports() -> Result<(u16, u16, u16)> {
    let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
    let mut ports = Vec::new();
    for listener in listeners {
        ports.push(listener?.local_addr()?.port());
    }
    Ok((ports[0], ports[1], ports[2]))
}

fn spawn(command: &mut Command, log: PathBuf) -> Result<Running> {
    let file = File::create(&log)?;
    command.env("TZ", "UTC").stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    Ok(Running { child, log })
}

async fn ready(env: &Env, address: &str, process: &mut Running) -> Result<()> {
    let started = env.monotonic();
    let mut connection = Connection::new(address);
    while !connection.get("/ready").is_ok_and(|answer| answer.status == 200) {
        if let Some(status) = process.child.try_wait()? {
            bail!("it ended with {status}");
        }
        if env.monotonic() - started > PATIENCE {
            bail!("it was not ready within {PATIENCE:?}");
        }
        env.sleep(LOOK_EVERY).await;
    }
    Ok(())
}

impl Servers {
    /// Pushes the logs of a seed to both servers.
    pub fn push(&mut self, seed: u64) -> Result<()> {
        for body in corpus::push_bodies(&corpus::streams(seed)) {
            let (loki, ours) = (self.loki.push(&body)?, self.ours.push(&body)?);
            if (loki.status, ours.status) != (204, 204) {
                let (loki_says, we_say) = (loki.text(), ours.text());
                bail!("a push: Loki {} {loki_says} | we {} {we_say}", loki.status, ours.status);
            }
        }
        if self.blocks {
            self.loki.flush()?;
        }
        Ok(())
    }
}

/// Returns the configuration of a Loki in one process. It has Loki's own defaults, except for what a
/// test with old logs on one machine needs: no results cache, no rejection of old entries, no ingestion
/// limit, and all optional features on.
fn loki_config(directory: &Path, port: u16, grpc_port: u16) -> String {
    format!(
        "auth_enabled: false
analytics: {{reporting_enabled: false}}
server:
  http_listen_address: 127.0.0.1
  http_listen_port: {port}
  grpc_listen_address: 127.0.0.1
  grpc_listen_port: {grpc_port}
  log_level: error
common:
  instance_addr: 127.0.0.1
  path_prefix: {path}
  replication_factor: 1
  ring: {{kvstore: {{store: inmemory}}, instance_addr: 127.0.0.1}}
  storage: {{filesystem: {{chunks_directory: {path}/chunks, rules_directory: {path}/rules}}}}
schema_config:
  configs:
    - from: 2020-01-01
      store: tsdb
      object_store: filesystem
      schema: v13
      index: {{prefix: index_, period: 24h}}
ingester:
  lifecycler: {{min_ready_duration: 0s, final_sleep: 0s}}
  wal: {{dir: {path}/wal}}
  query_store_max_look_back_period: -1ns
  chunk_idle_period: 24h
  max_chunk_age: 24h
querier: {{query_ingesters_within: 0s}}
frontend: {{encoding: protobuf}}
query_range:
  cache_results: false
  cache_index_stats_results: false
  cache_volume_results: false
  cache_series_results: false
  cache_label_results: false
compactor: {{working_directory: {path}/compactor}}
limits_config:
  reject_old_samples: false
  ingestion_rate_mb: 1000
  ingestion_burst_size_mb: 1000
  per_stream_rate_limit: 1GB
  per_stream_rate_limit_burst: 1GB
  volume_enabled: true
  shard_streams: {{enabled: false}}
  shard_aggregations: [approx_topk]
",
        path = directory.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_in_the_configuration() {
        let (a, b, c) = free_ports().unwrap();
        assert!(a != b && b != c && a != c);
        let config = loki_config(Path::new("/data"), a, b);
        assert!(config.contains(&format!("http_listen_port: {a}")) && config.contains("path_prefix: /data"));
        assert!(config.lines().filter(|l| l.contains("address")).all(|l| l.contains("127.0.0.1")));
    }
}
