//! `cargo xtask whisper-fixtures`: writes the test files of crates/whisper with whisper and go-carbon's
//! whisper.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::{require, root, run as run_command, tools};
use crate::rivals;

/// The version of whisper on PyPI.
const WHISPER: &str = "whisper==1.1.10";

/// Writes all files again.
pub fn run(_arguments: &[String]) -> Result<()> {
    require("python3", "install Python 3")?;
    let fixtures = root().join("crates/whisper/tests/fixtures");
    let packages = tools().join("whisper");
    if !packages.join("whisper.py").exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"]).arg(&packages).arg(WHISPER);
        run_command(&mut pip)?;
    }
    rivals::run(&["whisperfiles".to_owned()])?;
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", &packages).arg(fixtures.join("make/make.py"));
    write(&mut python, &fixtures.join("python"))?;
    write(&mut Command::new(tools().join("bin/whisperfiles")), &fixtures.join("go"))
}

fn write(program: &mut Command, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    run_command(program.arg(folder))
}
