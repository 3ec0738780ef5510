//! The Sandur processes of the demo.
//!
//! Invariant: a process does not outlive its [`Node`].

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandur_s3_server::S3Server;

use crate::http;
use crate::process::bound_to_us;

/// The longest time that a start or a stop may take.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Points of the demo have a step of a second.
const SCHEMAS: &str = "[demo]\npattern = ^demo\\.\nretentions = 1s:1d\n";

/// The secret of the cluster. Processes that have it ask each other before they read the bucket.
const SECRET: &str = "a secret that only this demo uses, on loopback";

/// A node: a process that can be stopped and started again on its address.
pub struct Node {
    pub name: String,
    pub address: SocketAddr,
    program: PathBuf,
    store: String,
    folder: PathBuf,
    process: Option<Child>,
}

impl Node {
    /// A node that is not started yet.
    pub fn new(name: &str, program: &Path, store: &str, folder: &Path) -> Result<Self> {
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("storage-schemas.conf"), SCHEMAS)?;
        fs::write(folder.join("secret"), SECRET)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (name, program, store) = (name.to_owned(), program.to_owned(), store.to_owned());
        Ok(Self { name, address, program, store, folder, process: None })
    }

    /// Starts the process; [`Node::wait_until_ready`] waits for it.
    pub fn start(&mut self) -> Result<()> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = bound_to_us(&self.program);
        command.args(["serve", "--store", &self.store, "--listen", &self.address.to_string()]);
        command
            .args(["--cluster-node-id", &self.name, "--cluster-secret-file"])
            .arg(self.folder.join("secret"));
        command.args(["--memory-limit", "256MiB", "--graphite-schemas"]);
        command.arg(self.folder.join("storage-schemas.conf"));
        command.arg("--cache-dir").arg(self.folder.join("cache")).args(["--cache-size", "256MiB"]);
        command.envs(S3Server::credentials()).stdin(Stdio::null());
        let child = command.stdout(log.try_clone()?).stderr(log).spawn();
        self.process = Some(child.with_context(|| format!("cannot start {}", self.program.display()))?);
        Ok(())
    }

    /// Waits until the process takes pushes and queries.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let began = Instant::now();
        let is_ready =
            |path: &str| http::get(self.address, path, PATIENCE).is_ok_and(|answer| answer.status == 200);
        while !(is_ready("/ready?for=push") && is_ready("/ready?for=query")) {
            let ended = self.process.as_mut().map(Child::try_wait).transpose()?.flatten();
            if let Some(status) = ended {
                bail!("{} ended with {status}: {}", self.name, self.log().display());
            }
            if began.elapsed() > PATIENCE {
                bail!("{} is not ready after {PATIENCE:?}: {}", self.name, self.log().display());
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Whether the process is running.
    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The process, for messages.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().map_or(0, Child::id)
    }

    /// Ends the process at once, as `kill -9` does.
    pub fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("the node is not running")?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Sends SIGTERM, waits for the end, and returns how long it took.
    pub fn drain(&mut self) -> Result<Duration> {
        let began = Instant::now();
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status()?;
        let process = self.process.as_mut().filter(|_| sent.success()).context("the node is not running")?;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if began.elapsed() > PATIENCE {
                bail!("{} did not stop within {PATIENCE:?}: {}", self.name, self.log().display());
            }
            sleep(LOOK_EVERY);
        };
        self.process = None;
        match status.success() {
            true => Ok(began.elapsed()),
            false => bail!("{} stopped with {status}: {}", self.name, self.log().display()),
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
