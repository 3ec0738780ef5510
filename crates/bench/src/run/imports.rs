//! Measures `sandur import prometheus`: samples per second, by the clock and by the CPU time of the client
//! and of the server apart.
//!
//! Each block is imported into an empty store. The CPU time of the server is also counted until it is idle:
//! it then includes flushes and merges.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use sandur_base::units::ByteSize;
use sandur_runtime::Env;

use super::alone::settle;
use super::report::median;
use super::server::{Place, Process, disk_bytes};

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Imports {
    /// The server.
    pub place: Place,
    /// The folders of blocks, each of which is imported apart.
    pub blocks: Vec<PathBuf>,
    /// How often each is imported.
    pub runs: u64,
    /// Further arguments of the import.
    pub arguments: Vec<String>,
}

/// The figures of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportRow {
    /// The folder.
    pub name: String,
    /// Number of samples that were stored.
    pub samples: u64,
    /// Duration of the import in seconds.
    pub seconds: f64,
    /// CPU seconds of the client.
    pub client_cpu: f64,
    /// CPU seconds of the server until the import ended.
    pub server_cpu: f64,
    /// CPU seconds of the server until it was idle.
    pub server_cpu_idle: f64,
    /// Peak of resident bytes of the server.
    pub server_peak: u64,
    /// Bytes of the store when the server was idle.
    pub stored_bytes: u64,
}

/// Runs the measurement. `report` is called with progress messages.
pub async fn imports(env: &Env, plan: &Imports, report: impl Fn(&str)) -> Result<Vec<ImportRow>> {
    let mut rows = Vec::new();
    for folder in &plan.blocks {
        let mut of_folder = Vec::new();
        for run in 0..plan.runs {
            report(&format!("{}: run {} of {}", folder.display(), run + 1, plan.runs));
            plan.place.down(env).await?;
            plan.place.wipe()?;
            let row = measure(env, plan, folder).await;
            plan.place.down(env).await?;
            plan.place.wipe()?;
            of_folder.push(row.with_context(|| format!("the import of {}", folder.display()))?);
        }
        rows.push(middle(&of_folder));
    }
    Ok(rows)
}

async fn measure(env: &Env, plan: &Imports, folder: &Path) -> Result<ImportRow> {
    let process = plan.place.up(env).await?;
    let this = Process(std::process::id());
    let (cpu_before, server_before) = (this.children_cpu_seconds(), process.cpu_seconds());
    let began = env.monotonic();
    let mut command = Command::new(&plan.place.program);
    command.args(["import", "prometheus", "--addr", &format!("http://{}", plan.place.address)]);
    let output = command.arg(folder).args(&plan.arguments).output().context("cannot start the import")?;
    let seconds = (env.monotonic() - began).as_secs_f64();
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("the import failed: {text}");
    }
    let mut row = ImportRow {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        samples: stored(&text).with_context(|| format!("no number of samples in: {text}"))?,
        seconds,
        client_cpu: this.children_cpu_seconds() - cpu_before,
        server_cpu: process.cpu_seconds() - server_before,
        ..ImportRow::default()
    };
    settle(env, process).await;
    row.server_cpu_idle = process.cpu_seconds() - server_before;
    row.server_peak = process.resident_peak_bytes();
    row.stored_bytes = disk_bytes(&plan.place.data());
    Ok(row)
}

/// The number in `stored 1,234 samples`.
fn stored(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once("stored ")?;
    let (number, _) = rest.split_once(" samples")?;
    number.replace(',', "").parse().ok()
}

/// The medians of several runs.
fn middle(rows: &[ImportRow]) -> ImportRow {
    let of = |field: fn(&ImportRow) -> f64| {
        median(&rows.iter().map(field).collect::<Vec<f64>>()).unwrap_or_default()
    };
    let Some(first) = rows.first() else { return ImportRow::default() };
    ImportRow {
        name: first.name.clone(),
        samples: first.samples,
        seconds: of(|row| row.seconds),
        client_cpu: of(|row| row.client_cpu),
        server_cpu: of(|row| row.server_cpu),
        server_cpu_idle: of(|row| row.server_cpu_idle),
        server_peak: of(|row| row.server_peak as f64) as u64,
        stored_bytes: of(|row| row.stored_bytes as f64) as u64,
    }
}

/// Returns the figures as a table: millions of samples per second, and per CPU second.
pub fn imports_table(rows: &[ImportRow]) -> String {
    let mut table =
        "| block | M samples | wall s | M/s | M per client CPU s | M per server CPU s | until idle \
                     | M per CPU s of both | peak of the server | stored bytes per sample |\n\
                     |---|---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for row in rows {
        let millions = row.samples as f64 / 1e6;
        let per = |seconds: f64| millions / seconds.max(0.001);
        let _ = writeln!(
            table,
            "| {} | {millions:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {} | {:.2} |",
            row.name,
            row.seconds,
            per(row.seconds),
            per(row.client_cpu),
            per(row.server_cpu),
            per(row.server_cpu_idle),
            per(row.client_cpu + row.server_cpu),
            ByteSize(row.server_peak),
            row.stored_bytes as f64 / row.samples.max(1) as f64,
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_samples_is_read_from_the_summary() {
        let text =
            "1 blocks were skipped\nstored 20,000,000 samples in 400 parts in 9.1 s (2,197,802 samples/s)";
        assert_eq!(stored(text), Some(20_000_000));
        assert_eq!(stored("failed"), None);
    }
}
