//! `cargo xtask chaos`: builds the server and the S3 server, and runs several nodes under seeded faults.
//!
//! The server is built with debug assertions, because only such a build accepts a wrong clock.

use anyhow::Result;

use crate::process::{cargo, find, run as run_command};
use crate::rivals;

/// Passes the arguments to `sandur-chaos`; `--help` lists them.
pub fn run(arguments: &[String]) -> Result<()> {
    rivals::ensure(&["versitygw"])?;
    let gateway = find("versitygw").unwrap_or_default();
    run_command(cargo().args(["build", "--package", "sandur-server"]))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-chaos", "--"]);
    command.args(["--sandur", "target/debug/sandur", "--gateway"]).arg(gateway);
    run_command(command.args(arguments))
}
