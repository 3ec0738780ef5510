//! `cargo xtask package [--program FILE] [--check]`: makes the Debian package.
//!
//! The package has the program, the systemd unit, the example configuration, the manual pages, the
//! completions of shells, the documentation, the alerts and the dashboards. It has no scripts: nothing is
//! started by an installation, and the unit's user exists only while it runs. `--check` installs it in a
//! clean root ([`clean_root`]), runs the installed program there, and removes it again.
//!
//! Invariant: the same program and the same sources make the same package, byte by byte.

mod clean_root;
mod control;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output, require, root, run as run_command};
use control::Control;
use tree::Tree;

/// Files that an upgrade leaves as the operator changed them.
const CONFFILES: &str = "/etc/sandur/sandur.toml\n";

/// Makes the package.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut program, mut is_checked) = (None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--check" => is_checked = true,
            "--program" => program = Some(PathBuf::from(rest.next().context("--program needs a file")?)),
            _ => bail!("usage: cargo xtask package [--program FILE] [--check]"),
        }
    }
    require("dpkg-deb", "install the Debian package dpkg")?;
    let program = match program {
        Some(program) => program,
        None => built()?,
    };
    let package = make(&program)?;
    println!("{}", package.display());
    if is_checked { clean_root::check(&package, &program) } else { Ok(()) }
}

/// Builds the program as packages have it.
fn built() -> Result<PathBuf> {
    let arguments = ["build", "--profile", "dist", "--locked", "--package", "sandur-server"];
    run_command(cargo().args(arguments))?;
    Ok(root().join("target/dist/sandur"))
}

/// Makes the package of a program; returns its file.
fn make(program: &Path) -> Result<PathBuf> {
    let control = Control::of(program)?;
    let folder = root().join("target/package");
    let tree = Tree(folder.join(control.name()));
    if tree.0.exists() {
        fs::remove_dir_all(&tree.0)?;
    }
    tree.fill(program)?;
    tree.write("DEBIAN/conffiles", CONFFILES)?;
    tree.write("DEBIAN/control", &control.text(tree.kibibytes()?))?;
    tree.set_modes()?;
    let package = folder.join(format!("{}.deb", control.name()));
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&tree.0).arg(&package);
    // The times of all files: the date of the newest change, which the repository knows.
    build.env("SOURCE_DATE_EPOCH", source_date()?);
    output(&mut build)?;
    Ok(package)
}

/// Seconds since the epoch of the last commit.
fn source_date() -> Result<String> {
    let date = output(Command::new("git").current_dir(root()).args(["log", "-1", "--format=%ct"]))?;
    Ok(date.trim().to_owned())
}
