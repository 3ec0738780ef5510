//! Installs the package in a clean root: a folder with the libraries that the package depends on and nothing
//! else, whose database of packages knows these libraries.
//!
//! The installed program must run there, accept the installed configuration and find its manual pages. An
//! upgrade must keep a changed configuration, and a purge must leave no file. This needs root and `chroot`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::tree::files;
use crate::process::{output, root};

const CONFIGURATION: &str = "etc/sandur/sandur.toml";

/// Files that must be there after an installation.
const INSTALLED: &[&str] = &[
    "usr/bin/sandur",
    "usr/lib/systemd/system/sandur.service",
    "usr/lib/systemd/system/sandur-cache.service",
    CONFIGURATION,
    "usr/share/man/man1/sandur.1.gz",
    "usr/share/man/man1/sandur-serve.1.gz",
    "usr/share/bash-completion/completions/sandur",
    "usr/share/doc/sandur/production.md",
    "usr/share/doc/sandur/copyright",
];

struct CleanRoot(PathBuf);

/// Installs, upgrades and removes a package of `program`.
pub fn check(package: &Path, program: &Path) -> Result<()> {
    if !Command::new("chroot").args(["/", "/bin/true"]).output().is_ok_and(|ran| ran.status.success()) {
        println!("SKIPPED: the package is not installed: this needs root with `chroot`");
        return Ok(());
    }
    let clean = CleanRoot::make(program)?;
    let before = files(&clean.0)?;
    clean.dpkg(&["--install"], Some(package))?;
    for file in INSTALLED {
        if !clean.0.join(file).is_file() {
            bail!("the package did not install /{file}");
        }
    }
    let version = clean.run(&["/usr/bin/sandur", "--version"])?;
    clean.run(&["/usr/bin/sandur", "serve", "--config", "/etc/sandur/sandur.toml", "--check-config"])?;
    println!("installed in a clean root: {}", version.trim());

    let configuration = clean.0.join(CONFIGURATION);
    let changed = fs::read_to_string(&configuration)?.replace("127.0.0.1:3100", "127.0.0.1:3200");
    fs::write(&configuration, &changed)?;
    clean.dpkg(&["--force-confold", "--install"], Some(package))?;
    if fs::read_to_string(&configuration)? != changed {
        bail!("an upgrade changed /{CONFIGURATION}");
    }
    clean.dpkg(&["--remove", "sandur"], None)?;
    if !configuration.is_file() || clean.0.join("usr/bin/sandur").exists() {
        bail!("a removal must keep the configuration and nothing else");
    }
    clean.dpkg(&["--purge", "sandur"], None)?;
    let is_of_dpkg = |file: &PathBuf| file.starts_with(clean.0.join("var"));
    let left: Vec<PathBuf> = files(&clean.0)?.into_iter().filter(|file| !is_of_dpkg(file)).collect();
    let before: Vec<PathBuf> = before.into_iter().filter(|file| !is_of_dpkg(file)).collect();
    if left != before {
        bail!("a purge left other files than before the installation: {left:?}");
    }
    println!("an upgrade keeps a changed configuration, a removal keeps it too, and a purge leaves no file");
    Ok(())
}

impl CleanRoot {
    /// A folder with the shared libraries of a program, and a database of packages that has those of them.
    fn make(program: &Path) -> Result<Self> {
        let clean = root().join("target/package/root");
        if clean.exists() {
            fs::remove_dir_all(&clean)?;
        }
        for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "usr/bin", "etc"] {
            fs::create_dir_all(clean.join(folder))?;
        }
        for library in output(Command::new("ldd").arg(program))?.split_whitespace() {
            if let Some(inside) = library.strip_prefix('/') {
                let to = clean.join(inside);
                fs::create_dir_all(to.parent().context("a library is in a folder")?)?;
                fs::copy(library, to).with_context(|| library.to_owned())?;
            }
        }
        let mut known = String::new();
        for package in ["libc6", "libgcc-s1"] {
            let status = output(Command::new("dpkg-query").args(["--status", package]))?;
            // What these packages depend on is not a part of the check.
            let kept = ["Package:", "Status:", "Architecture:", "Multi-Arch:", "Version:", "Maintainer:"];
            let lines = status.lines().filter(|line| kept.iter().any(|field| line.starts_with(field)));
            known += &lines.map(|line| format!("{line}\n")).collect::<String>();
            known += "Description: a library of this system\n\n";
        }
        fs::write(clean.join("var/lib/dpkg/status"), known)?;
        fs::write(clean.join("var/lib/dpkg/available"), "")?;
        Ok(Self(clean))
    }

    fn dpkg(&self, arguments: &[&str], package: Option<&Path>) -> Result<()> {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.0.display()));
        command.args(arguments).args(package).env("DEBIAN_FRONTEND", "noninteractive");
        output(&mut command).map(drop)
    }

    fn run(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new("chroot");
        output(command.arg(&self.0).args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }
}
