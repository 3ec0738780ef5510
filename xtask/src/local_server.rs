//! A Sandur server on loopback, for commands that try something with it.
//!
//! Invariant: the process does not outlive its value.

#![allow(clippy::disallowed_methods)] // it waits for another program, outside the product

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandur_s3_server::S3Server;

use crate::http;
use crate::process::bound_to_us;

const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A running server.
pub struct LocalServer {
    pub address: SocketAddr,
    process: Child,
    log: PathBuf,
}

impl LocalServer {
    /// Starts a server with the arguments that `more` returns for its address, and waits until it is
    /// ready. Its log is in `folder`. The environment has the credentials of [`S3Server`].
    pub fn start(
        program: &Path,
        store: &str,
        folder: &Path,
        more: impl FnOnce(SocketAddr) -> Vec<String>,
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let log = folder.join("server.log");
        let output = File::create(&log)?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = bound_to_us(program);
        command.args(["serve", "--store", store, "--listen", &address.to_string()]);
        command.args(more(address)).envs(S3Server::credentials()).stdin(Stdio::null());
        let process = command.stdout(output.try_clone()?).stderr(output).spawn();
        let process = process.with_context(|| format!("cannot start {}", program.display()))?;
        let mut server = Self { address, process, log };
        server.wait()?;
        Ok(server)
    }

    fn wait(&mut self) -> Result<()> {
        let began = Instant::now();
        while !http::get(self.address, "/ready", PATIENCE).is_ok_and(|answer| answer.status == 200) {
            if self.process.try_wait()?.is_some() || began.elapsed() > PATIENCE {
                bail!("the server is not ready: {}", fs::read_to_string(&self.log).unwrap_or_default());
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
