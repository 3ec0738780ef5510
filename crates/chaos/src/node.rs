//! The process of a node, which can be killed, paused, stopped and started again on its addresses.
//!
//! Invariants: a process does not outlive its [`Node`]; its log is appended to over all its starts.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use sandur_s3_server::S3Server;

use crate::plan::ZONES;
use crate::proxies::{Front, Processes, Real};

/// Points have a step of a second.
const SCHEMAS: &str = "[chaos]\npattern = ^chaos\\.\nretentions = 1s:30d\n";
const SECRET: &str = "a secret that only this run uses, on loopback";
/// Short intervals, so that a run has many flushes, merges, fences and adoptions.
const ARGUMENTS: [&str; 16] = [
    "--memory-limit",
    "256MiB",
    "--flush-max-age",
    "8s",
    "--compaction-interval",
    "3s",
    "--cluster-heartbeat-interval",
    "2s",
    "--cluster-dead-after",
    "8s",
    "--cache-size",
    "64MiB",
    "--retention-interval",
    "20s",
    "--query-log",
    "all",
];

/// What all nodes of a run share.
pub struct Setup {
    pub program: PathBuf,
    /// The folder of the bucket.
    pub bucket: String,
    pub has_secret: bool,
    pub folder: PathBuf,
    pub processes: Arc<Processes>,
}

/// A node.
pub struct Node {
    pub number: usize,
    pub address: SocketAddr,
    setup: Arc<Setup>,
    front: Front,
    real: Real,
    folder: PathBuf,
    process: Option<Child>,
}

impl Node {
    /// A node that is not started yet.
    pub fn new(number: usize, setup: &Arc<Setup>, real: Real, front: Front) -> Result<Self> {
        let folder = setup.folder.join(format!("node-{number}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("storage-schemas.conf"), SCHEMAS)?;
        fs::write(folder.join("secret"), SECRET)?;
        let setup = Arc::clone(setup);
        Ok(Self { number, address: real.http, setup, front, real, folder, process: None })
    }

    /// Starts the process with a clock that is wrong by so many milliseconds.
    pub fn start(&mut self, clock_ms: i64) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let store = S3Server::url(&self.front.bucket.to_string(), &self.setup.bucket);
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mut command = Command::new(&self.setup.program);
        command.args(["serve", "--store", &store, "--listen", &self.real.http.to_string()]).args(ARGUMENTS);
        command.args(["--cluster-node-id", &format!("node-{}", self.number)]);
        command.args(["--cluster-zone", &format!("zone-{}", self.number % ZONES)]);
        command.args(["--cluster-advertise-address", &self.front.peers.to_string()]);
        command.args(["--graphite-schemas", &file("storage-schemas.conf"), "--cache-dir", &file("cache")]);
        if self.setup.has_secret {
            command.args(["--cluster-secret-file", &file("secret")]);
            command.args(["--cluster-gossip-listen", &self.real.gossip.to_string()]);
            command.args(["--cluster-gossip-advertise", &self.front.gossip.to_string()]);
        }
        if clock_ms != 0 {
            command.env("SANDUR_TEST_CLOCK_OFFSET_MS", clock_ms.to_string());
        }
        command.envs(S3Server::credentials()).stdin(Stdio::null());
        let child = command.stdout(log.try_clone()?).stderr(log).spawn();
        let child = child.with_context(|| format!("cannot start {}", self.setup.program.display()))?;
        self.setup.processes.set(self.number, Some(child.id()));
        self.process = Some(child);
        Ok(())
    }

    /// Whether the node was started, and not killed or seen to end since.
    pub fn has_process(&self) -> bool {
        self.process.is_some()
    }

    /// Ends the process at once.
    pub fn kill(&mut self) -> Result<()> {
        self.setup.processes.set(self.number, None);
        let Some(mut process) = self.process.take() else { return Ok(()) };
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let process = self.process.as_ref().context("the node has no process")?;
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw).context("no process id")?;
        Ok(kill_process(pid, signal)?)
    }

    /// The status of a process that has ended; `None` while it runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let process = self.process.as_mut().context("the node has no process")?;
        let status = process.try_wait()?;
        if status.is_some() {
            self.setup.processes.set(self.number, None);
            self.process = None;
        }
        Ok(status)
    }

    /// The file with the output of the node's processes.
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.kill();
    }
}

/// Runs `sandur check` on the bucket. Returns what it prints, and whether it found the store sound.
pub fn check(program: &Path, store: &str) -> Result<(bool, String)> {
    let mut command = Command::new(program);
    command.args(["check", "--store", store]).envs(S3Server::credentials()).stdin(Stdio::null());
    let output = command.output().context("`sandur check` cannot be started")?;
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}
