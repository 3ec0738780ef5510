//! The servers under attack: `sandur serve` on a directory and `sandur cache serve`, as child processes.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_runtime::Env;

use crate::free_address;
use crate::pause::Pause;
use crate::raw;

/// The longest time until a server is ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Arguments of the server in a course. They permit fewer connections than the attacks open, so that the
/// limit is part of the test, and set deadlines that expensive queries reach before an attack gives up
/// on their answers. Listings, which have the deadline of sample queries, must be complete by then.
pub const ARGUMENTS: [&str; 6] =
    ["--http-max-connections", "256", "--limits-query-timeout", "10s", "--query-timeout", "1m"];

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Path of the `sandur` program.
    pub program: PathBuf,
    /// The directory of its store, logs and ports.
    pub directory: PathBuf,
    /// `--memory-limit` in bytes.
    pub memory_limit: u64,
    /// Further arguments of `serve`.
    pub arguments: Vec<String>,
    /// The limit of open files of the process; the default is that of this process.
    pub open_files: Option<u32>,
    /// The file by which the process joins a memory cgroup.
    pub cgroup: Option<PathBuf>,
}

/// A running server process.
pub struct Victim {
    child: Child,
    /// The address of its listener.
    pub address: SocketAddr,
    log: PathBuf,
}

/// The addresses of a database's carbon listeners.
#[derive(Clone, Copy, Debug)]
pub struct Carbon {
    /// Plaintext lines.
    pub plaintext: SocketAddr,
    /// Pickles.
    pub pickle: SocketAddr,
    /// go-carbon's protobuf messages.
    pub protobuf: SocketAddr,
}

impl Carbon {
    /// Returns addresses at which no process listens.
    pub fn free() -> Result<Self> {
        Ok(Self { plaintext: free_address()?, pickle: free_address()?, protobuf: free_address()? })
    }

    /// Returns the arguments that make a server listen there.
    pub fn arguments(&self) -> Vec<String> {
        let listeners = [
            ("--carbon-listen", self.plaintext),
            ("--carbon-pickle-listen", self.pickle),
            ("--carbon-protobuf-listen", self.protobuf),
        ];
        listeners.iter().flat_map(|(name, at)| [(*name).to_owned(), at.to_string()]).collect()
    }
}

impl Setup {
    /// Returns the directory of the store.
    pub fn store(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Starts the database and waits until it is ready.
    pub fn serve(&self, env: &Env) -> Result<Victim> {
        self.serve_store(env, &self.store())
    }

    /// Starts the database on another directory.
    pub fn serve_store(&self, env: &Env, store: &Path) -> Result<Victim> {
        let address = free_address()?;
        let limit = self.memory_limit.to_string();
        let url = format!("file://{}", store.display());
        let mut command = self.confined();
        command.args(["serve", "--store", &url, "--listen", &address.to_string(), "--memory-limit", &limit]);
        command.args(&self.arguments);
        let mut victim = spawn(&mut command, address, self.directory.join("serve.log"))?;
        victim.wait_until(env, |victim| {
            let from = std::net::Ipv4Addr::LOCALHOST;
            matches!(raw::request((from, victim.address), "GET", "/ready", &[], b""), Ok((200, _)))
        })?;
        Ok(victim)
    }

    /// Returns the command that starts the program. If there are limits, a shell sets them first.
    fn confined(&self) -> Command {
        let files = self.open_files.map(|most| format!("ulimit -n {most} && "));
        let cgroup = self.cgroup.as_ref().map(|entrance| format!("echo $$ > '{}' && ", entrance.display()));
        let limits: String = cgroup.into_iter().chain(files).collect();
        if limits.is_empty() {
            return Command::new(&self.program);
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limits}exec \"$0\" \"$@\"")]).arg(&self.program);
        shell
    }

    /// Starts the memcached server and waits until it answers.
    pub fn serve_cache(&self, env: &Env) -> Result<Victim> {
        let address = free_address()?;
        let megabytes = (self.memory_limit >> 21).max(16).to_string();
        let mut command = Command::new(&self.program);
        command.args(["cache", "serve", "-l", "127.0.0.1", "-p", &address.port().to_string()]);
        command.args(["-m", &megabytes, "-U", "0", "-c", "256"]);
        let mut victim = spawn(&mut command, address, self.directory.join("cache.log"))?;
        victim.wait_until(env, |victim| TcpStream::connect(victim.address).is_ok())?;
        Ok(victim)
    }
}

fn spawn(command: &mut Command, address: SocketAddr, log: PathBuf) -> Result<Victim> {
    let file = File::options().create(true).append(true).open(&log)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    Ok(Victim { child, address, log })
}

impl Victim {
    fn wait_until(&mut self, env: &Env, ready: impl Fn(&Self) -> bool) -> Result<()> {
        let (began, pause) = (env.monotonic(), Pause::default());
        while !ready(self) {
            if let Some(status) = self.ended() {
                bail!("the server ended with {status}; the end of its log:\n{}", self.last_words());
            }
            if env.monotonic() - began > PATIENCE {
                bail!("the server was not ready within {PATIENCE:?}:\n{}", self.last_words());
            }
            pause.wait(LOOK_EVERY);
        }
        Ok(())
    }

    /// Returns the exit status of the process, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the peak of resident memory since [`Victim::forget_peak`], in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|text| text.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    /// Resets the peak of resident memory. If the kernel does not permit it, the peak is that since the
    /// start of the process.
    pub fn forget_peak(&self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }

    /// Returns the last lines of its log.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Kills the process, as a loss of power would.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
