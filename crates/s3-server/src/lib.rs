//! Runs a real S3 server on loopback for a test run or a measurement.
//!
//! **What it is.** The program versitygw over a directory, started and stopped with a value. It must
//! store metadata (no `--nometa`): without ETags it ignores `If-None-Match: *`, on which the product
//! relies.
//!
//! **What it is not.** It is not part of the product: only tools depend on it. It does not build the
//! program; `cargo xtask rivals versitygw` does.
//!
//! **Life of a call.** [`S3Server::start`] empties the directory, creates the bucket, starts the program
//! on a free port and waits until it accepts connections. A store is opened with [`S3Server::url`], and
//! its environment needs [`S3Server::credentials`]. Dropping the value kills the program.
//!
//! **Invariant.** The program does not outlive its value.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Credentials that protect only a directory of tests and measurements.
const ACCESS: &str = "sandur-loopback";
const SECRET: &str = "sandur-loopback-secret";
const BUCKET: &str = "sandur";
/// The longest wait for the server to accept connections.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; dropping it kills the server.
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

    /// The URL of a folder of the bucket. `address` is that of the server, or of a proxy in front of it.
    pub fn url(address: &str, folder: &str) -> String {
        format!("s3://{BUCKET}/{folder}?endpoint=http://{address}&region=us-east-1")
    }

    /// The environment variables with the credentials.
    pub fn credentials() -> [(&'static str, &'static str); 2] {
        [("AWS_ACCESS_KEY_ID", ACCESS), ("AWS_SECRET_ACCESS_KEY", SECRET)]
    }

    #[allow(clippy::disallowed_methods)] // waits for another program, outside of the product
    fn wait(&mut self, log: &Path) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the S3 server exited with {status}: see {}", log.display());
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
        // Errors mean that the server has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
