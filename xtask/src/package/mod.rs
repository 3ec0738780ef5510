//! `cargo xtask package [--program FILE] [--check]`: makes the Debian package.
//!
//! The package has the program, the systemd unit, the example configuration, the manual pages, the completions
//! of shells, the documentation, the alerts and the dashboards. It has no scripts: nothing is started by an
//! installation, and the unit's user exists only while it runs. `--check` installs it in a clean root
//! ([`clean_root`]), runs the installed program there, and removes it again.
//!
//! Invariant: the same program and the same sources make the same package, byte by byte.

mod clean_root;
mod control;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{output, require, root, run as run_command};
use control::Control;

/// The folder of a package, whose content becomes the package.
struct Tree(PathBuf);

/// Files of the repository and where they are installed.
const FILES: &[(&str, &str)] = &[
    ("packaging/sandur.service", "usr/lib/systemd/system/sandur.service"),
    ("packaging/sandur.toml", "etc/sandur/sandur.toml"),
    ("LICENSE", "usr/share/doc/sandur/copyright"),
    ("README.md", "usr/share/doc/sandur/README.md"),
    ("CHANGELOG.md", "usr/share/doc/sandur/CHANGELOG.md"),
    ("packaging/alerts.yml", "usr/share/doc/sandur/examples/alerts.yml"),
    ("packaging/haproxy.cfg", "usr/share/doc/sandur/examples/haproxy.cfg"),
];

/// Folders of the repository whose files are installed, without their subfolders.
const FOLDERS: &[(&str, &str)] = &[
    ("docs", "usr/share/doc/sandur"),
    ("docs/reference", "usr/share/doc/sandur/reference"),
    ("packaging/grafana", "usr/share/doc/sandur/examples/grafana"),
];

/// Shells, and the files of their completions.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/sandur"),
    ("zsh", "usr/share/zsh/vendor-completions/_sandur"),
    ("fish", "usr/share/fish/vendor_completions.d/sandur.fish"),
];

/// Files that an upgrade leaves as the operator changed them.
const CONFFILES: &str = "/etc/sandur/sandur.toml\n";

/// Makes the package.
pub fn run(arguments: &[String]) -> Result<()> {
    let (mut program, mut is_checked) = (None, false);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match (argument.as_str(), argument == "--program") {
            ("--check", _) => is_checked = true,
            (_, true) => program = Some(PathBuf::from(rest.next().context("--program needs a file")?)),
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
    run_command(Command::new(env!("CARGO")).current_dir(root()).args(arguments))?;
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

impl Tree {
    /// Copies and makes all files but those that describe the package.
    fn fill(&self, program: &Path) -> Result<()> {
        self.copy(program, "usr/bin/sandur")?;
        if crate::process::find("strip").is_some() {
            run_command(Command::new("strip").arg(self.0.join("usr/bin/sandur")))?;
        }
        for (from, to) in FILES {
            self.copy(&root().join(from), to)?;
        }
        for (from, to) in FOLDERS {
            for entry in fs::read_dir(root().join(from)).context(*from)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    self.copy(&entry.path(), &format!("{to}/{}", entry.file_name().to_string_lossy()))?;
                }
            }
        }
        for (shell, to) in COMPLETIONS {
            self.write(to, &output(Command::new(program).args(["completions", shell]))?)?;
        }
        let pages = self.0.join("usr/share/man/man1");
        output(Command::new(program).arg("man").arg(&pages))?;
        for page in fs::read_dir(&pages)? {
            // Without the name and the time of the file, as Debian demands: equal pages give equal files.
            run_command(Command::new("gzip").args(["-9", "-n"]).arg(page?.path()))?;
        }
        Ok(())
    }

    fn place(&self, to: &str) -> Result<PathBuf> {
        let to = self.0.join(to);
        let folder = to.parent().context("a file is in a folder")?;
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        Ok(to)
    }

    fn copy(&self, from: &Path, to: &str) -> Result<()> {
        fs::copy(from, self.place(to)?).with_context(|| from.display().to_string())?;
        Ok(())
    }

    fn write(&self, to: &str, text: &str) -> Result<()> {
        fs::write(self.place(to)?, text).with_context(|| to.to_owned())
    }

    /// The installed size.
    fn kibibytes(&self) -> Result<u64> {
        let bytes: u64 =
            files(&self.0)?.iter().map(|file| file.metadata().map_or(0, |known| known.len())).sum();
        Ok(bytes.div_ceil(1024))
    }

    /// Makes modes independent of the umask and of the repository's files.
    fn set_modes(&self) -> Result<()> {
        let program = self.0.join("usr/bin/sandur");
        for file in files(&self.0)? {
            let mode = if file == program { 0o755 } else { 0o644 };
            fs::set_permissions(&file, fs::Permissions::from_mode(mode))?;
            for folder in file.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.0)) {
                fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
            }
        }
        Ok(())
    }
}

/// The files of a folder and its subfolders, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.sort();
    Ok(found)
}
