//! `cargo xtask differential loki`: builds a real Loki and our binary and has both asked the same.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{find, root, run};
use crate::rivals;

/// Arguments behind `loki` go to `sandur-differential`.
pub fn run_differential(arguments: &[String]) -> Result<()> {
    let Some(("loki", rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) else {
        bail!(
            "usage: cargo xtask differential loki [--templates PATH] [--seed N] [--queries N] [--query LOGQL]"
        );
    };
    rivals::ensure(&["loki"])?;
    let cargo = || {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root());
        command
    };
    run(cargo().args(["build", "--package", "sandur-server"]))?;
    let Some(loki) = find("loki") else { bail!("Loki was built and is not there") };
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-differential", "--", "--loki"]).arg(loki);
    run(command.args(["--sandur", "target/debug/sandur"]).args(rest))
}
