//! The servers under attack: `sandur serve` on a directory and `sandur cache serve`, as children.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::Env;

use crate::free_address;
use crate::pause::Pause;
use crate::raw;

/// Longest wait for readiness and for an end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Interval of looking.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Arguments of the server in a course: fewer connections than the attacks open, so that running out of them
/// is part of it, and deadlines that the dear queries reach before an attack gives their answers up.
/// Listings, which have the deadline of queries of samples, are to be whole by then.
pub const ARGUMENTS: [&str; 6] =
    ["--http-max-connections", "256", "--limits-query-timeout", "10s", "--query-timeout", "1m"];

/// How a server is started, and started again.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The `sandur` program.
    pub program: PathBuf,
    /// Its store, logs and ports are in here.
    pub directory: PathBuf,
    /// `--memory-limit` in bytes.
    pub memory_limit: u64,
    /// More arguments of `serve`.
    pub arguments: Vec<String>,
    /// Files that the process may have open, where not as many as this one.
    pub open_files: Option<u32>,
    /// The memory cgroup that the process runs in, by the file through which it is entered.
    pub cgroup: Option<PathBuf>,
}

/// A running process.
pub struct Victim {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    log: PathBuf,
}

/// Where a database listens for carbon's protocols.
#[derive(Clone, Copy, Debug)]
pub struct Carbon {
    /// Lines.
    pub plaintext: SocketAddr,
    /// Pickles.
    pub pickle: SocketAddr,
    /// Messages of go-carbon's.
    pub protobuf: SocketAddr,
}

impl Carbon {
    /// Addresses that nobody listens at.
    pub fn free() -> Result<Self> {
        Ok(Self { plaintext: free_address()?, pickle: free_address()?, protobuf: free_address()? })
    }

    /// The arguments that make a server listen there.
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
    /// The directory of the store.
    pub fn store(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Starts the database and waits until it is ready.
    pub fn serve(&self, env: &Env) -> Result<Victim> {
        self.serve_store(env, &self.store())
    }

    /// Starts the database over another directory.
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

    /// The command that starts the program. If there are limits, a shell sets them first.
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
                bail!("the server ended with {status}; its last words:\n{}", self.last_words());
            }
            if env.monotonic() - began > PATIENCE {
                bail!("the server was not ready within {PATIENCE:?}:\n{}", self.last_words());
            }
            pause.wait(LOOK_EVERY);
        }
        Ok(())
    }

    /// How the process ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The most memory that was resident since [`Victim::forget_peak`], in bytes.
    pub fn peak_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|text| text.trim().trim_end_matches(" kB").trim().parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }

    /// Begins to look for the most resident memory anew. Where the kernel does not allow it, the peak is that
    /// of the whole life of the process.
    pub fn forget_peak(&self) {
        let _ = fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5");
    }

    /// The last lines of its log.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Ends the process at once, as a power cut would.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
