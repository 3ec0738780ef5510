//! The files of the package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{find, output, root, run as run_command};

/// The folder of a package, whose content becomes the package.
pub struct Tree(pub PathBuf);

/// Files of the repository and where they are installed.
const FILES: &[(&str, &str)] = &[
    ("packaging/sandur.service", "usr/lib/systemd/system/sandur.service"),
    ("packaging/sandur-cache.service", "usr/lib/systemd/system/sandur-cache.service"),
    ("packaging/sandur.toml", "etc/sandur/sandur.toml"),
    ("LICENSE", "usr/share/doc/sandur/copyright"),
    ("README.md", "usr/share/doc/sandur/README.md"),
    ("CHANGELOG.md", "usr/share/doc/sandur/CHANGELOG.md"),
    ("packaging/alerts.yml", "usr/share/doc/sandur/examples/alerts.yml"),
    ("packaging/recording.yml", "usr/share/doc/sandur/examples/recording.yml"),
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

impl Tree {
    /// Copies and makes all files but those that describe the package.
    pub fn fill(&self, program: &Path) -> Result<()> {
        self.copy(program, "usr/bin/sandur")?;
        if find("strip").is_some() {
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

    pub fn write(&self, to: &str, text: &str) -> Result<()> {
        fs::write(self.place(to)?, text).with_context(|| to.to_owned())
    }

    /// The installed size.
    pub fn kibibytes(&self) -> Result<u64> {
        let bytes: u64 =
            files(&self.0)?.iter().map(|file| file.metadata().map_or(0, |known| known.len())).sum();
        Ok(bytes.div_ceil(1024))
    }

    /// Makes modes independent of the umask and of the repository's files.
    pub fn set_modes(&self) -> Result<()> {
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
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
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
