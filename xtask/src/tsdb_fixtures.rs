//! `cargo xtask tsdb-fixtures`: writes the test files of crates/tsdb with the code of Prometheus.

use std::fs;
use std::process::Command;

use anyhow::Result;

use crate::process::{root, run as run_command, tools};
use crate::rivals;

/// Writes all files again.
pub fn run(_arguments: &[String]) -> Result<()> {
    rivals::run(&["tsdbblocks".to_owned()])?;
    let folder = root().join("crates/tsdb/tests/fixtures/blocks");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    run_command(Command::new(tools().join("bin/tsdbblocks")).arg(folder))
}
