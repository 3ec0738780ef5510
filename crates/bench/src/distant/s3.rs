//! An S3 server on loopback: versitygw over a directory.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_base::Env;

/// The key of the loopback server.
pub const ACCESS: &str = "sandur-bench";
/// Its secret, which only protects a directory of measurements.
pub const SECRET: &str = "sandur-bench-secret";
const BUCKET: &str = "logs";
/// Longest wait for the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server; it ends when this is dropped.
pub struct S3Server {
    child: Child,
    address: String,
}

impl S3Server {
    /// Starts the program over an empty directory and waits until it accepts connections.
    pub async fn start(env: &Env, program: &Path, directory: &Path) -> Result<Self> {
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
        let started = env.monotonic();
        while TcpStream::connect(&server.address).is_err() {
            if let Some(status) = server.child.try_wait()? {
                bail!("the S3 server ended at once with {status}: see {}", directory.join("log").display());
            }
            if env.monotonic() - started > PATIENCE {
                bail!("the S3 server did not open {} within {PATIENCE:?}", server.address);
            }
            env.sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The URL of its bucket, by way of `address`.
    pub fn url(address: &str) -> String {
        format!("s3://{BUCKET}/bench?endpoint=http://{address}&region=us-east-1")
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Nothing is left to do for a server that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
