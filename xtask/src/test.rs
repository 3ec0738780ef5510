//! `cargo xtask test`: the whole test suite, as CI runs it.
//!
//! Builds the real peers once, starts a real S3 server on loopback, runs `cargo test` over the
//! workspace with both at hand, then `tidy`. The last line is the sum: `N passed, N failed`.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::process::{root, tools};
use crate::s3::S3Server;
use crate::{rivals, tidy};

/// Runs everything; extra arguments go to `cargo test`.
pub fn run(arguments: &[String]) -> Result<()> {
    rivals::ensure(rivals::FOR_TESTS)?;
    let server = S3Server::start()?;
    let mut command = cargo_test(arguments);
    server.apply(&mut command);
    let (mut passed, mut failed, succeeded) = counted(&mut command)?;
    if let Err(problems) = tidy::run(&[]) {
        eprintln!("{problems:#}");
        failed += 1;
    } else {
        passed += 1;
    }
    if !succeeded && failed == 0 {
        bail!("cargo test failed before it ran the tests");
    }
    println!("{passed} passed, {failed} failed");
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

fn cargo_test(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![tools().join("bin")];
    folders.extend(std::env::split_paths(&path));
    command.current_dir(root()).args(["test", "--workspace", "--no-fail-fast"]).args(arguments);
    if let Ok(joined) = std::env::join_paths(folders) {
        command.env("PATH", joined);
    }
    command
}

/// Runs `cargo test`, passes its output on, and sums up the `test result:` lines.
fn counted(command: &mut Command) -> Result<(u64, u64, bool)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (mut passed, mut failed) = (0, 0);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            println!("{line}");
            if let Some(result) = line.strip_prefix("test result:") {
                passed += number_before(result, " passed");
                failed += number_before(result, " failed");
            }
        }
    }
    Ok((passed, failed, child.wait()?.success()))
}

fn number_before(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().unwrap_or_default();
    before.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}
