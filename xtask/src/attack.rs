//! `cargo xtask attack`: builds the release server and runs the attacks of `sandur-attack` against it.

use anyhow::Result;

use crate::process::{cargo, run as run_command};

/// Passes the arguments to `sandur-attack`; `--list` lists the attacks.
pub fn run(arguments: &[String]) -> Result<()> {
    run_command(cargo().args(["build", "--release", "--package", "sandur-server"]))?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-attack", "--"]);
    run_command(command.args(["--sandur", "target/release/sandur"]).args(arguments))
}
