//! A real S3 server on loopback, for the time of a test run or of a measurement.
//!
//! **What it is.** versitygw over a directory, started and ended with a value. It must keep its metadata (no
//! `--nometa`): without ETags it ignores `If-None-Match: *`, which is what the product relies on.
//!
//! **What it is not.** Part of the product: only tools name it. It does not build the program; `cargo xtask
//! rivals versitygw` does.
//!
//! **Life of a call.** [`S3Server::start`] empties the directory, makes the bucket, starts the program on a
//! free port and waits until it accepts connections; [`S3Server::url`] is what a store is opened with, and
//! [`S3Server::credentials`] what the environment must say. Dropping the value ends the program.
//!
//! **Invariant.** No program outlives its value.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Credentials that protect a directory of tests and measurements, and nothing else.
const ACCESS: &str = "sandur-loopback";
const SECRET: &str = "sandur-loopback-secret";
const BUCKET: &str = "sandur";
/// Longest wait for the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; it ends when this is dropped.
pub struct S3Server {
    child: Child,
    address: String,
}

impl S3Server {
    /// Starts the program over an empty directory and waits until it accepts connections.
    pub fn start(program: &Path, directory: &Path) -> Result<Self> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        let objects = directory.join("objects");
        fs::create_dir_all(objects.join(BUCKET))?;
        let log = File::create(directory.join("log"))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut command = Command::new(program);
        command.args(["--port", &address, "--access", ACCESS, "--secret", SECRET, "--keep-alive", "--quiet"]);
        command.arg("posix").arg(&objects).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Self { child, address };
        server.wait(&directory.join("log"))?;
        Ok(server)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The URL of a folder of the bucket, by way of `address`: its own, or that of a proxy before it.
    pub fn url(address: &str, folder: &str) -> String {
        format!("s3://{BUCKET}/{folder}?endpoint=http://{address}&region=us-east-1")
    }

    /// The variables that hold the credentials.
    pub fn credentials() -> [(&'static str, &'static str); 2] {
        [("AWS_ACCESS_KEY_ID", ACCESS), ("AWS_SECRET_ACCESS_KEY", SECRET)]
    }

    #[allow(clippy::disallowed_methods)] // waiting for another program, outside the product
    fn wait(&mut self, log: &Path) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the S3 server ended at once with {status}: see {}", log.display());
            }
            if began.elapsed() > PATIENCE {
                bail!("the S3 server did not open {} within {PATIENCE:?}", self.address);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Nothing is left to do for a server that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
