//! The measured server process: started on an empty directory and observed through the kernel.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_runtime::Env;

use crate::http::Connection;
use sandur_s3_server::S3Server;

/// The longest time to wait until the server is ready or has stopped.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The unit of the kernel's CPU time, in which it is hundredths of a second on every known Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// The files and the address of a `sandur serve` process.
#[derive(Clone, Debug)]
pub struct Place {
    /// Path of the `sandur` program.
    pub program: PathBuf,
    /// The directory of its data, its log and the file with its process id.
    pub directory: PathBuf,
    /// The address `host:port` of its listener.
    pub address: String,
    /// The URL of the bucket that it uses instead of a directory.
    pub bucket: Option<String>,
    /// Further arguments of `serve`.
    pub arguments: Vec<String>,
}

impl Place {
    /// A server with a directory as its store.
    pub fn new(program: PathBuf, directory: PathBuf, address: String) -> Self {
        Self { program, directory, address, bucket: None, arguments: Vec::new() }
    }

    /// Returns the directory of the data.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Returns the path of the file with the process id.
    pub fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }

    /// Starts the server and waits until it is ready.
    pub async fn up(&self, env: &Env) -> Result<Process> {
        if TcpStream::connect(&self.address).is_ok() {
            bail!("another process listens on {} already: stop it or choose another --address", self.address);
        }
        fs::create_dir_all(&self.directory)?;
        let log = File::create(self.directory.join("log"))?;
        let mut command = Command::new(&self.program);
        command.args(["serve", "--store", &self.store()?, "--listen", &self.address]).args(&self.arguments);
        command.envs(S3Server::credentials());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        fs::write(self.pid_file(), child.id().to_string())?;
        let process = Process(child.id());
        let started = env.monotonic();
        let mut connection = Connection::new(&self.address);
        while !connection.get("/ready").is_ok_and(|answer| answer.status == 200) {
            if !process.lives() || env.monotonic() - started > PATIENCE {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                bail!("the server did not become ready; the end of its log:\n{}", last_lines(&log));
            }
            env.sleep(LOOK_EVERY).await;
        }
        Ok(process)
    }

    fn store(&self) -> Result<String> {
        if let Some(bucket) = &self.bucket {
            return Ok(bucket.clone());
        }
        let data = fs::canonicalize(&self.directory)?.join("data");
        Ok(format!("file://{}", data.display()))
    }

    /// Stops the server and waits until it has ended. Does nothing if it is not running.
    pub async fn down(&self, env: &Env) -> Result<()> {
        self.end(env, "-TERM").await
    }

    /// Kills the server, as a loss of power would.
    pub async fn kill(&self, env: &Env) -> Result<()> {
        self.end(env, "-KILL").await
    }

    async fn end(&self, env: &Env, signal: &str) -> Result<()> {
        let Ok(pid) = fs::read_to_string(self.pid_file()) else { return Ok(()) };
        let process = Process(pid.trim().parse().context("the pid file does not contain a number")?);
        // the id may have been reused by another program
        if process.lives() && process.program() == fs::canonicalize(&self.program).ok() {
            Command::new("kill").args([signal, pid.trim()]).status().context("cannot run kill")?;
            let asked = env.monotonic();
            // the kernel closes the listener of a killed process shortly after the process has ended
            while process.lives() || TcpStream::connect(&self.address).is_ok() {
                if env.monotonic() - asked > PATIENCE {
                    bail!("the server (process {}) did not stop within a minute", process.0);
                }
                env.sleep(LOOK_EVERY).await;
            }
        }
        fs::remove_file(self.pid_file()).context("cannot remove the pid file")
    }

    /// Deletes the data.
    pub fn wipe(&self) -> Result<()> {
        match fs::remove_dir_all(self.data()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("\n")
}

/// A process, as the kernel reports it.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

impl Process {
    /// Returns whether it is running. A zombie is not.
    pub fn lives(self) -> bool {
        self.stat().is_some_and(|stat| !stat.starts_with('Z'))
    }

    /// Returns its user and system time in seconds.
    pub fn cpu_seconds(self) -> f64 {
        let stat = self.stat().unwrap_or_default();
        let ticks = |at: usize| stat.split(' ').nth(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
        (ticks(11) + ticks(12)) / TICKS_PER_SECOND
    }

    /// Returns the CPU time of its children that have ended and were waited for, in seconds.
    pub fn children_cpu_seconds(self) -> f64 {
        let stat = self.stat().unwrap_or_default();
        let ticks = |at: usize| stat.split(' ').nth(at).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
        (ticks(13) + ticks(14)) / TICKS_PER_SECOND
    }

    /// Returns its peak of resident memory in bytes.
    pub fn resident_peak_bytes(self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Resets the peak of resident memory to the present value, which is returned.
    pub fn reset_resident_peak(self) -> Result<u64> {
        let file = format!("/proc/{}/clear_refs", self.0);
        fs::write(&file, "5").with_context(|| format!("cannot write {file}"))?;
        Ok(self.resident_peak_bytes())
    }

    /// Returns the program file of the process, even if it was replaced since.
    fn program(self) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/{}/exe", self.0)).ok()?;
        let text = path.to_str()?;
        Some(text.strip_suffix(" (deleted)").unwrap_or(text).into())
    }

    /// Returns the kernel's line about the process, starting with the state (the name before it may
    /// contain anything).
    fn stat(self) -> Option<String> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.0)).ok()?;
        Some(text.rsplit_once(") ")?.1.to_owned())
    }
}

/// Returns the bytes on disk of the files below a directory.
pub fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reports_figures_of_this_process() {
        let this = Process(std::process::id());
        assert!(this.lives() && this.resident_peak_bytes() > 1 << 20);
        let mut sum = 0u64;
        while this.cpu_seconds() < 0.02 {
            sum = (0..1_000_000u64).fold(sum, |a, b| a.wrapping_mul(31).wrapping_add(b));
        }
        assert_ne!(sum, 1);
        assert!(!Process(u32::MAX).lives());
    }

    #[test]
    fn disk_use_counts_nested_files() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("inner")).unwrap();
        fs::write(directory.path().join("inner/file"), vec![1; 100_000]).unwrap();
        assert!(disk_bytes(directory.path()) >= 100_000);
        assert_eq!(disk_bytes(&directory.path().join("absent")), 0);
    }

    #[test]
    fn a_server_is_stopped_even_if_its_program_was_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("program");
        fs::copy("/bin/sleep", &program).unwrap();
        let mut child = Command::new(&program).arg("60").spawn().unwrap();
        fs::remove_file(&program).unwrap();
        fs::write(&program, "another").unwrap();
        let place = Place::new(program, directory.path().to_owned(), String::new());
        fs::write(place.pid_file(), child.id().to_string()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(place.down(&Env::system(1))).unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn an_address_in_use_is_reported() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let place = Place::new("/bin/echo".into(), "/nonexistent".into(), address);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let error = runtime.block_on(place.up(&Env::system(1))).unwrap_err().to_string();
        assert!(error.contains("another process listens on 127.0.0.1:"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_a_server_is_reported_with_its_output() {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("place");
        let place = Place::new("/bin/echo".into(), inside, "127.0.0.1:1".to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let env = Env::system(1);
            let error = place.up(&env).await.unwrap_err().to_string();
            assert!(error.contains("did not become ready") && error.contains("serve --store"), "{error}");
            place.down(&env).await.unwrap();
            place.wipe().unwrap();
        });
    }
}
