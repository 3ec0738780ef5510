//! `sandur-chaos`: the command line. `cargo xtask chaos` builds the server and the S3 server and runs it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use sandur_chaos::{Options, run};
use sandur_s3_server::S3Server;

fn main() -> Result<ExitCode> {
    let matches = command().get_matches();
    let numbers: Vec<usize> = matches.get_many("nodes").into_iter().flatten().copied().collect();
    let secrets: &[bool] = match matches.get_one::<String>("secret").map(String::as_str) {
        Some("on") => &[true],
        Some("off") => &[false],
        _ => &[true, false],
    };
    let mut is_clean = true;
    for nodes in numbers {
        for &has_secret in secrets {
            is_clean &= run_one(&matches, nodes, has_secret)?;
        }
    }
    Ok(if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let nodes = option("nodes", "N,..", "Numbers of nodes; each is a run").value_delimiter(',');
    let faults = option("faults", "N", "Number of faults of a run").value_parser(value_parser!(usize));
    let seed = option("seed", "N", "Seed of the plan; default: the time").value_parser(value_parser!(u64));
    let secret = option("secret", "on|off|both", "Whether the nodes have cluster.secret_file");
    Command::new("sandur-chaos")
        .about("Run several nodes on one bucket under seeded faults, and judge every answer")
        .arg(nodes.value_parser(value_parser!(usize)).default_value("3,5,9"))
        .arg(faults.default_value("100"))
        .arg(seed)
        .arg(secret.value_parser(["on", "off", "both"]).default_value("both"))
        .arg(option("sandur", "PROGRAM", "Path of the server program").default_value("target/debug/sandur"))
        .arg(option("gateway", "PROGRAM", "Path of versitygw").default_value(".tools/bin/versitygw"))
        .arg(option("folder", "FOLDER", "Where runs with findings are kept").default_value("target/chaos"))
}

#[allow(clippy::disallowed_methods)] // a tool: the time is the seed of a run that has none
fn run_one(matches: &ArgMatches, nodes: usize, has_secret: bool) -> Result<bool> {
    let path = |name: &str| PathBuf::from(matches.get_one::<String>(name).map_or("", String::as_str));
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(now.as_secs());
    let name = format!("{nodes}-nodes-{}-{seed}", if has_secret { "secret" } else { "no-secret" });
    let folder = std::path::absolute(path("folder"))?.join(&name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let faults = matches.get_one::<usize>("faults").copied().unwrap_or_default();
    println!(
        "{nodes} nodes, {faults} faults, seed {seed}, {} secret",
        if has_secret { "with a" } else { "no" }
    );
    let bucket = S3Server::start(&path("gateway"), &bucket_folder(&folder))?;
    let options = Options {
        program: std::path::absolute(path("sandur"))?,
        bucket: bucket.address().parse().context("the address of the S3 server")?,
        bucket_folder: name,
        nodes,
        faults,
        seed,
        has_secret,
        folder: folder.clone(),
    };
    let began = std::time::Instant::now();
    let verdict = run(&options).with_context(|| format!("logs are in {}", folder.display()))?;
    println!("{}after {} s", verdict.table(), began.elapsed().as_secs());
    for finding in &verdict.findings {
        println!("FINDING: {finding}");
    }
    let is_clean = verdict.findings.is_empty();
    match is_clean {
        true => {
            drop(bucket);
            std::fs::remove_dir_all(bucket_folder(&folder))?;
            println!("every acknowledged row was found exactly once; no answer was silently stale\n");
        }
        false => println!("logs and bucket are in {}*\n", folder.display()),
    }
    Ok(is_clean)
}

/// The folder of the bucket, next to that of the logs.
fn bucket_folder(folder: &Path) -> PathBuf {
    folder.with_extension("s3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
