//! The S3 server of a test run. Its directory is removed with it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use sandur_s3_server::S3Server;

use crate::process::{find, tools};

/// A running server; it is stopped when this is dropped.
pub struct TestBucket {
    server: S3Server,
    directory: PathBuf,
}

impl TestBucket {
    /// Starts the server.
    pub fn start() -> Result<Self> {
        let program =
            find("versitygw").context("versitygw is not built: run `cargo xtask rivals versitygw`")?;
        let directory = tools().join(format!("s3-{}", std::process::id()));
        let server = S3Server::start(&program, &directory)?;
        Ok(Self { server, directory })
    }

    /// Sets the environment variables with which a test process finds the server.
    pub fn apply(&self, command: &mut Command) {
        command.env("SANDUR_TEST_S3", S3Server::url(self.server.address(), "tests"));
        command.envs(S3Server::credentials());
    }
}

impl Drop for TestBucket {
    fn drop(&mut self) {
        // A directory that cannot be removed is harmless, because the next run uses another one.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
