//! The S3 server of a test run, in a directory of its own that goes with it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use sandur_s3_server::S3Server;

use crate::process::{find, tools};

/// A running server; it ends when this is dropped.
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

    /// Sets what a test process needs to find the server.
    pub fn apply(&self, command: &mut Command) {
        command.env("SANDUR_TEST_S3", S3Server::url(self.server.address(), "tests"));
        command.envs(S3Server::credentials());
    }
}

impl Drop for TestBucket {
    fn drop(&mut self) {
        // The next run takes another directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
