//! Runs other programs. A missing program or a failed command is an error that names it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository's root").to_owned()
}

/// The directory of built tools. It is in the repository and git ignores it.
pub fn tools() -> PathBuf {
    root().join(".tools")
}

/// Returns a command for cargo in the repository's root.
///
/// It does not inherit what `cargo run` tells this program about its package: build scripts of outside crates
/// read variables of the same names, and cargo would build these crates again after each `cargo build` of
/// a person.
pub fn cargo() -> Command {
    const OF_PACKAGE: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_PRIMARY_PACKAGE", "CARGO_BIN_"];
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root());
    for (name, _) in std::env::vars_os() {
        if OF_PACKAGE.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command. Fails if it cannot be started or ends with an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Runs a command and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("cannot start {command:?}"))?;
    if !out.status.success() {
        bail!("{command:?} ended with {}:\n{}", out.status, String::from_utf8_lossy(&out.stderr));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Finds the program `name` in `.tools/bin` or on PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let own = tools().join("bin").join(name);
    if own.is_file() {
        return Some(own);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Fails with `advice` if a program is missing.
pub fn require(program: &str, advice: &str) -> Result<()> {
    if find(program).is_none() {
        bail!("'{program}' is missing: {advice}");
    }
    Ok(())
}

/// Returns a command for a program that the kernel kills when the calling thread ends, so that it does not
/// outlive a command that is interrupted. Without `setpriv` (of util-linux) it may outlive it.
pub fn bound_to_us(program: &Path) -> Command {
    match find("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    }
}

/// Puts `.tools/bin` first on the command's PATH, so that our builds are found before other programs of
/// the same name.
pub fn with_tools(command: &mut Command) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = vec![tools().join("bin")];
    folders.extend(std::env::split_paths(&path));
    if let Ok(joined) = std::env::join_paths(folders) {
        command.env("PATH", joined);
    }
}
