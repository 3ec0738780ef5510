//! `sandur-bench import`: the speed of `sandur import prometheus`.

use std::path::{Path, PathBuf};
use std::process::Command as Program;

use anyhow::{Context, Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_bench::run;
use sandur_runtime::Env;

use crate::arguments::{argument, count, number, text};

/// Returns the options of the command.
pub fn command() -> Command {
    Command::new("import")
        .about("Measure imports of blocks of Prometheus: samples per second of client and server")
        .arg(text("server", "PATH", "The sandur program").default_value("target/release/sandur"))
        .arg(text("address", "ADDR", "Address on which the server listens").default_value("127.0.0.1:3158"))
        .arg(text("dir", "DIR", "Directory of blocks and data").default_value("target/bench/import"))
        .arg(
            text("tsdbblocks", "PATH", "The program that writes blocks: `cargo xtask rivals tsdbblocks`")
                .default_value(".tools/bin/tsdbblocks"),
        )
        .arg(
            text("blocks", "DIR", "Import this folder; default: two blocks are generated")
                .action(ArgAction::Append),
        )
        .arg(number("series", "5000", "Series of the block of floats"))
        .arg(number("samples", "4000", "Samples of each, 15 s apart"))
        .arg(number(
            "histograms",
            "500",
            "Series of the block of histograms; each has a tenth of the samples",
        ))
        .arg(number("runs", "3", "Runs, each into an empty store"))
        .arg(Arg::new("arguments").last(true).num_args(0..).help("Further arguments of the import"))
}

/// Runs the measurement and prints its table.
pub async fn measure(env: &Env, arguments: &ArgMatches) -> Result<()> {
    let owned = |name| argument(arguments, name).map(str::to_owned).unwrap_or_default();
    let directory = PathBuf::from(owned("dir"));
    let mut blocks: Vec<PathBuf> =
        arguments.get_many::<String>("blocks").into_iter().flatten().map(PathBuf::from).collect();
    if blocks.is_empty() {
        let sizes = ["series", "samples", "histograms"].map(|name| count(arguments, name));
        blocks = generate(Path::new(&owned("tsdbblocks")), &directory, sizes)?;
    }
    let place = run::Place::new(owned("server").into(), directory, owned("address"));
    let further = arguments.get_many::<String>("arguments").into_iter().flatten().cloned().collect();
    let runs = count(arguments, "runs").max(1);
    let plan = run::Imports { place, blocks, runs, arguments: further };
    let rows = run::imports(env, &plan, |news| eprintln!("{news}")).await?;
    print!("{}", run::imports_table(&rows));
    Ok(())
}

/// Writes two blocks, unless the folder has them: the name says their size.
fn generate(program: &Path, directory: &Path, sizes: [u64; 3]) -> Result<Vec<PathBuf>> {
    let [series, samples, histograms] = sizes.map(|size| size.to_string());
    let folder = directory.join(format!("blocks-{series}-{samples}-{histograms}"));
    let blocks = ["measured-floats", "measured-histograms"].map(|name| folder.join(name));
    if !blocks.iter().all(|block| block.join("meta.json").is_file()) {
        eprintln!("writing {}", folder.display());
        let mut command = Program::new(program);
        let status = command.arg(&folder).args([series, samples, histograms]).status();
        let status = status.with_context(|| format!("cannot start {}", program.display()))?;
        if !status.success() {
            bail!("{} failed: {status}", program.display());
        }
    }
    Ok(blocks.to_vec())
}
