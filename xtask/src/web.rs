//! `cargo xtask web`: builds the explorer, tests it in a browser, and measures how soon it can be used.
//!
//! The built files are committed, so that a build of the server needs no Node. `build --check` proves that
//! they are what the sources give: bundles depend only on the sources and on `package-lock.json`. `test`
//! runs journeys of `web/test` with the committed files, a real server and a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, find, root, run as run_command};
use crate::test_binaries::Results;

/// Oldest version of Node that runs the build.
const NODE_VERSION_MIN: u32 = 20;
/// Names of browsers, in the order in which they are tried.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// `build [--check]`, `test [NAME...]`, or `speed URL...`.
pub fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["build"] => build(&[]),
        ["build", "--check"] => build(&["--check"]),
        ["test", names @ ..] => test(names),
        ["speed", first, others @ ..] => speed(&[&[*first], others].concat()),
        _ => bail!("usage: cargo xtask web build [--check] | test [NAME...] | speed URL..."),
    }
}

/// The part of the complete test suite: whether the committed files are what the sources give, and the
/// quick journeys. What is missing for a part is printed, and the part is left out.
pub fn tested() -> Results {
    let mut results = Results::default();
    if let Err(missing) = node() {
        println!("SKIPPED: the check of the explorer and its journeys: {missing:#}");
        return results;
    }
    match install() {
        Ok(()) => {}
        Err(failure) if failure.is::<NoRegistry>() => {
            println!("SKIPPED: the check of the explorer and its journeys: {failure:#}");
            return results;
        }
        Err(failure) => {
            results.add(failed(&failure));
            return results;
        }
    }
    match build(&["--check"]) {
        Ok(()) => results.passed += 1,
        Err(problem) => results.add(failed(&problem)),
    }
    match browser() {
        Err(missing) => println!("SKIPPED: journeys of the explorer: {missing:#}"),
        Ok(browser) => {
            results.add(journeys(&browser, &["--quick"]).unwrap_or_else(|problem| failed(&problem)))
        }
    }
    results
}

fn failed(problem: &anyhow::Error) -> Results {
    Results { failed: 1, failures: format!("cargo xtask web: {problem:#}\n"), ..Results::default() }
}

fn folder() -> PathBuf {
    root().join("web")
}

/// Fails if Node is missing or too old.
fn node() -> Result<()> {
    let advice = "install Node 20 or newer with npm (Debian: apt-get install nodejs npm)";
    if find("node").is_none() || find("npm").is_none() {
        bail!("`node` or `npm` is missing: {advice}");
    }
    let version = crate::process::output(Command::new("node").arg("--version"))?;
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|n| n.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_VERSION_MIN) {
        bail!("node {} is too old: {advice}", version.trim());
    }
    Ok(())
}

/// The browser of the journeys.
fn browser() -> Result<PathBuf> {
    let found = BROWSERS.iter().find_map(|name| find(name));
    found.context("no browser: install Chromium (Debian: apt-get install chromium)")
}

/// The packages are not installed and the registry cannot be reached.
#[derive(Debug)]
struct NoRegistry {
    output: String,
}

impl std::fmt::Display for NoRegistry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = self.output.lines().find(|line| line.contains("npm error")).unwrap_or("no answer");
        write!(
            f,
            "the packages of web/package-lock.json are not installed and npm cannot reach its registry \
             ({reason}); run `npm ci` in web/ where a registry can be reached"
        )
    }
}

impl std::error::Error for NoRegistry {}

/// Whether npm failed because it could not reach the registry. A lock file that does not fit and a package
/// with another content are failures of the check.
fn lacks_registry(output: &str) -> bool {
    const CODES: &[&str] = &[
        "EAI_AGAIN",
        "ECONNREFUSED",
        "ECONNRESET",
        "EHOSTUNREACH",
        "ENETUNREACH",
        "ENOTCACHED",
        "ENOTFOUND",
        "ERR_SOCKET_TIMEOUT",
        "ETIMEDOUT",
        "FETCH_ERROR",
    ];
    let codes = output.lines().filter_map(|line| line.split_once("npm error code ")).map(|(_, code)| code);
    codes.map(str::trim).any(|code| CODES.contains(&code))
}

/// Installs the packages of `package-lock.json`, unless they are installed.
fn install() -> Result<()> {
    let changed = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let installed: Option<SystemTime> = changed(&folder().join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= changed(&folder().join("package-lock.json")) {
        return Ok(());
    }
    let mut command = Command::new("npm");
    command.current_dir(folder()).args(["ci", "--ignore-scripts", "--fetch-retries=1"]);
    let out = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if out.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&out.stderr).into_owned();
    if lacks_registry(&output) {
        return Err(NoRegistry { output }.into());
    }
    bail!("{command:?} ended with {}:\n{output}", out.status)
}

fn build(arguments: &[&str]) -> Result<()> {
    node()?;
    install()?;
    run_command(
        Command::new("node").current_dir(folder()).args(["node_modules/typescript/bin/tsc", "--noEmit"]),
    )?;
    run_command(Command::new("node").current_dir(folder()).arg("build.mjs").args(arguments))
}

fn test(names: &[&str]) -> Result<()> {
    build(&["--check"])?;
    run_command(Command::new("node").current_dir(folder().join("test/units")).arg("--test"))?;
    run_command(cargo().args(["build", "--package", "sandur-server"]))?;
    let results = journeys(&browser()?, names)?;
    if results.failed > 0 {
        bail!("{} journeys failed; screenshots are in web/test/out", results.failed);
    }
    Ok(())
}

/// Compares how soon the pages of running servers can be used.
fn speed(urls: &[&str]) -> Result<()> {
    node()?;
    install()?;
    let mut command = Command::new("node");
    command.current_dir(folder()).args(["test/speed.mjs", "--browser"]).arg(browser()?);
    run_command(command.args(urls))
}

/// Runs journeys with the server that cargo built last.
fn journeys(browser: &Path, arguments: &[&str]) -> Result<Results> {
    let own = std::env::current_exe().context("the path of xtask is unknown")?;
    let server = own.with_file_name("sandur");
    let mut command = Command::new("node");
    command.current_dir(folder()).arg("test/run.mjs");
    command.arg("--binary").arg(&server).arg("--browser").arg(browser).args(arguments);
    let output = command.output().context("node cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}");
    let errors = String::from_utf8_lossy(&output.stderr);
    Ok(Results::of_output("journeys of the explorer", &text).ended("journeys", output.status, &errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_registry_that_is_away_skips_the_check() {
        let away = "npm error code ECONNREFUSED\nnpm error syscall connect\n";
        assert!(lacks_registry(away) && lacks_registry("npm error code ENOTFOUND\n"));
        for failure in ["npm error code EUSAGE\n", "npm error code EINTEGRITY\n", "ECONNREFUSED", ""] {
            assert!(!lacks_registry(failure), "{failure}");
        }
        let shown = NoRegistry { output: away.to_owned() }.to_string();
        assert!(shown.contains("ECONNREFUSED") && shown.contains("npm ci"), "{shown}");
    }
}
