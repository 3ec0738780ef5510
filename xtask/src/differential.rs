//! `cargo xtask differential`: builds a real Loki, Prometheus or graphite-web and our binary, sends both
//! the same queries and compares the answers; or evaluates rules here and with the code of Prometheus.

use anyhow::{Result, bail};

use crate::process::{cargo, find, run};
use crate::{rival_environments, rivals};

/// Passes the arguments after `loki`, `prometheus` or `graphite` to `sandur-differential`, and those after
/// `rules` to `sandur-rules-differential`.
pub fn run_differential(arguments: &[String]) -> Result<()> {
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("loki", rest)) => loki(rest),
        Some(("prometheus", rest)) => prometheus(rest),
        Some(("graphite", rest)) => graphite(rest),
        Some(("rules", rest)) => rules(rest),
        _ => bail!(
            "usage: cargo xtask differential loki [--templates PATH] [--seed N] [--queries N] \
             [--query LOGQL]\n   \
             or: cargo xtask differential prometheus [--engine] [--seed N] [--queries N] \
             [--query PROMQL]\n   \
             or: cargo xtask differential graphite [--seed N] [--queries N] [--query TARGET]\n   \
             or: cargo xtask differential rules [--seed N] [--groups N] [--steps N] [--case N]"
        ),
    }
}

fn loki(rest: &[String]) -> Result<()> {
    rivals::ensure(&["loki"])?;
    run(cargo().args(["build", "--package", "sandur-server"]))?;
    let Some(loki) = find("loki") else { bail!("the built Loki is missing") };
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-differential", "--", "--loki"]).arg(loki);
    run(command.args(["--sandur", "target/debug/sandur"]).args(rest))
}

/// With `--engine` as the first argument, no server of ours is built: the engine answers from series in
/// memory.
fn prometheus(rest: &[String]) -> Result<()> {
    rivals::ensure(&["prometheus"])?;
    let Some(program) = find("prometheus") else { bail!("the built Prometheus is missing") };
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-differential", "--", "prometheus", "--prometheus"]);
    command.arg(program);
    match rest.split_first() {
        Some((first, rest)) if first == "--engine" => run(command.args(rest)),
        _ => {
            run(cargo().args(["build", "--package", "sandur-server"]))?;
            run(command.args(["--sandur", "target/debug/sandur"]).args(rest))
        }
    }
}

/// The query engine answers from series in memory; no server of ours is built.
fn graphite(rest: &[String]) -> Result<()> {
    rivals::ensure(&["graphite-web"])?;
    let Some(environment) = rival_environments::find("graphite-web") else { bail!("no such environment") };
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-differential", "--", "graphite", "--python"]);
    run(command.arg(environment.python()).args(rest))
}

/// Groups of rules are evaluated with data in memory; no server of ours is built.
fn rules(rest: &[String]) -> Result<()> {
    rivals::ensure(&["rulesharness"])?;
    let Some(program) = find("rulesharness") else { bail!("the built program is missing") };
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-rules-differential", "--", "--harness"]);
    run(command.arg(program).args(rest))
}
