//! `cargo xtask record`: builds a real Prometheus, Loki or graphite-web and records its answers for the
//! tests of `sandur-differential`, which run without it.

use anyhow::{Context, Result, bail};

use crate::process::{cargo, find, run as run_command};
use crate::rival_environments;
use crate::rivals;

/// Passes the arguments after the language to `sandur-differential record`.
pub fn run(arguments: &[String]) -> Result<()> {
    let Some((language, rest)) = arguments.split_first() else { bail!("{USAGE}") };
    let original = match language.as_str() {
        "promql" => "prometheus",
        "logql" => "loki",
        "graphite" => "graphite-web",
        _ => bail!("{USAGE}"),
    };
    rivals::ensure(&[original])?;
    let program = match rival_environments::find(original) {
        Some(environment) => environment.python(),
        None => find(original).with_context(|| format!("the built {original} is missing"))?,
    };
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-differential", "--", "record"]);
    run_command(command.arg(language).arg("--program").arg(program).args(rest))
}

const USAGE: &str = "usage: cargo xtask record promql|logql|graphite [--seed N] [--cases N]";
