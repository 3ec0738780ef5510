//! A real S3 server on loopback for the time of a test run.
//!
//! The server is versitygw over a temporary directory. It must keep its metadata (no `--nometa`):
//! without ETags it ignores `If-None-Match: *`, which is the one thing we rely on.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{find, tools};

/// Credentials that only the loopback server knows.
const ACCESS: &str = "sandur-test";
const SECRET: &str = "sandur-test-secret";
const BUCKET: &str = "sandur-test";

/// A running server; it ends when this is dropped.
pub struct S3Server {
    child: Child,
    directory: PathBuf,
    port: u16,
}

impl S3Server {
    /// Starts the server and waits until it accepts connections.
    pub fn start() -> Result<Self> {
        let program =
            find("versitygw").context("versitygw is not built: run `cargo xtask rivals versitygw`")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let directory = tools().join(format!("s3-{port}"));
        fs::create_dir_all(directory.join(BUCKET))?;
        let child = Command::new(program)
            .args(["--port", &format!("127.0.0.1:{port}"), "--access", ACCESS, "--secret", SECRET, "posix"])
            .arg(&directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = Self { child, directory, port };
        server.wait()?;
        Ok(server)
    }

    /// Sets what a test process needs to find the server.
    pub fn apply(&self, command: &mut Command) {
        let url = format!("s3://{BUCKET}/tests?endpoint=http://127.0.0.1:{}&region=us-east-1", self.port);
        command.env("SANDUR_TEST_S3", url);
        command.env("AWS_ACCESS_KEY_ID", ACCESS).env("AWS_SECRET_ACCESS_KEY", SECRET);
    }

    fn wait(&mut self) -> Result<()> {
        // Connecting to a port nobody listens on fails at once, so the loop is bounded by time on
        // the wall: about 20 s.
        for _ in 0..200 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the S3 server ended at once: {status}");
            }
            pause();
        }
        bail!("the S3 server did not open port {} within 20 s", self.port)
    }
}

#[allow(clippy::disallowed_methods)] // waiting for another program, outside the product
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(100));
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // Nothing is left to do for a server that is already gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
