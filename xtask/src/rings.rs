//! `cargo xtask rings`: compares the relay's rings with those of the programs that they come from, for
//! random clusters and all positions.
//!
//! Carbon is installed from the Python package index, carbon-c-relay from Debian. The Go module proxy
//! does not serve carbon-relay-ng, so its rings are compiled from a directory with its sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, find, require, root, run as run_command, tools};

const CARBON: &str = "carbon==1.1.10";
const MMH3: &str = "mmh3==5.1.0";

/// Installs what is missing and runs the comparison.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut rest = Vec::new();
    let mut sources = None;
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--relay-ng" => sources = Some(PathBuf::from(value)),
            [name, value] => rest.extend([name.clone(), value.clone()]),
            _ => bail!("{} needs a value", pair[0]),
        }
    }
    let folder = tools().join("rings");
    fs::create_dir_all(&folder)?;
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "sandur-conformance", "--", "rings"]);
    command.arg("--folder").arg(&folder).arg("--python").arg(python(&folder)?);
    match find("carbon-c-relay") {
        Some(program) => drop(command.arg("--c-relay").arg(program)),
        None => println!(
            "carbon-c-relay is skipped: it is not installed (Debian: apt-get install carbon-c-relay)"
        ),
    }
    match sources {
        Some(sources) => drop(command.arg("--relay-ng").arg(relay_ng(&sources, &folder)?)),
        None => println!("carbon-relay-ng is skipped: name a folder with its sources (--relay-ng FOLDER)"),
    }
    run_command(command.args(rest))
}

/// Returns a Python interpreter with carbon, installing it if necessary.
fn python(folder: &Path) -> Result<PathBuf> {
    require("python3", "install Python 3 with venv")?;
    let home = folder.join("python");
    let python = home.join("bin/python");
    let is_ready = Command::new(&python).args(["-c", "import carbon.hashing, mmh3"]).output();
    if is_ready.is_ok_and(|output| output.status.success()) {
        return Ok(python);
    }
    run_command(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let mut install = Command::new(home.join("bin/pip"));
    // Without this, carbon installs itself into /opt/graphite.
    install.env("GRAPHITE_NO_PREFIX", "True").args(["install", "--quiet", "--no-deps", CARBON, MMH3]);
    run_command(&mut install)?;
    Ok(python)
}

/// Builds our program that calls carbon-relay-ng's rings.
fn relay_ng(sources: &Path, folder: &Path) -> Result<PathBuf> {
    require("go", "install Go 1.21 or newer")?;
    let (ours, build) = (root().join("crates/conformance/originals/relay_ng"), folder.join("relay_ng"));
    for part in ["destination", "route"] {
        fs::create_dir_all(build.join(part))?;
    }
    for file in ["go.mod", "main.go", "destination/destination.go"] {
        fs::copy(ours.join(file), build.join(file))?;
    }
    let rings = sources.join("route/consistent_hashing.go");
    let copied = fs::copy(&rings, build.join("route/consistent_hashing.go"));
    copied.with_context(|| format!("cannot copy carbon-relay-ng's rings from {}", rings.display()))?;
    let program = folder.join("relay-ng-rings");
    let mut go = Command::new("go");
    go.current_dir(&build).env("GOWORK", "off").args(["build", "-o"]).arg(&program).arg(".");
    run_command(&mut go)?;
    Ok(program)
}
