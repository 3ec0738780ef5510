//! Running other programs: found or explained, failed loudly.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

/// Where built tools go: inside the repository, ignored by git.
pub fn tools() -> PathBuf {
    root().join(".tools")
}

/// Runs a command and fails when it fails.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Runs a command and gives what it printed.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !out.status.success() {
        bail!("{command:?} ended with {}:\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The program `name` in `.tools/bin` or on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = tools().join("bin").join(name);
    if own.is_file() {
        return Some(own);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Fails with advice when a toolchain is missing.
pub fn require(program: &str, advice: &str) -> Result<()> {
    if find(program).is_none() {
        bail!("'{program}' is missing: {advice}");
    }
    Ok(())
}

/// The peers are found before other programs of their names.
pub fn with_tools(command: &mut Command) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![tools().join("bin")];
    folders.extend(std::env::split_paths(&path));
    if let Ok(joined) = std::env::join_paths(folders) {
        command.env("PATH", joined);
    }
}
