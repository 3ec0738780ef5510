//! Sends loads: several concurrently; within a load each request is acknowledged before the next.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use sandur_base::BoxFuture;
use sandur_cli::client::Client;
use sandur_runtime::{Env, Pace};
use sandur_terminal::Failed;

use super::file::Reader;
use super::load::{Load, Read};
use super::report::Report;
use super::tree::{Found, Tree};
use crate::import::sending::{Outcome, Sending};
use crate::import::state::State;

/// Runs an import.
pub struct Shipper {
    /// Clock and randomness.
    pub env: Env,
    /// The server; `None` for a dry run.
    pub client: Option<Client>,
    /// Maximum number of retries of a request.
    pub retries: u32,
    /// How files are read.
    pub reader: Reader,
    /// The rate limiter.
    pub pace: Pace,
    /// The files that are stored already.
    pub state: State,
    /// The score.
    pub report: Report,
    /// Number of loads in flight.
    pub parallel: usize,
}

/// The outcome of a load.
struct Settled {
    load: Load,
    read: Read,
    points: u64,
    outcome: Outcome,
}

impl Shipper {
    /// Imports the tree below a folder. The exit code says whether everything is stored.
    pub async fn run(mut self, folder: &Path) -> Result<ExitCode, Failed> {
        let mut pending: FuturesUnordered<BoxFuture<'static, Settled>> = FuturesUnordered::new();
        let mut load = Load::default();
        let mut tree = Tree::below(folder);
        loop {
            let found = tree.next();
            let is_last = found.is_none();
            let file = found.and_then(|found| self.wanted(folder, found));
            let has_room = file.as_ref().is_none_or(|(_, found)| load.has_room(found.size));
            if (is_last || !has_room) && !load.files.is_empty() {
                while pending.len() >= self.parallel {
                    self.settle(&mut pending, folder).await?;
                }
                pending.push(self.begin(std::mem::take(&mut load), folder));
            }
            if let Some((name, found)) = file {
                load.add(name, found);
            }
            if is_last {
                break;
            }
        }
        while !pending.is_empty() {
            self.settle(&mut pending, folder).await?;
        }
        Ok(self.report.finish(self.env.monotonic(), self.client.is_none()))
    }

    /// Returns a file that is to be imported, with its name relative to the folder.
    fn wanted(&mut self, folder: &Path, found: Result<Found, String>) -> Option<(String, Found)> {
        match found {
            Ok(found) => {
                let name = found.path.strip_prefix(folder).unwrap_or(&found.path).display().to_string();
                let is_known = self.state.has(&found.line(&name));
                self.report.known += u64::from(is_known);
                (!is_known).then_some((name, found))
            }
            Err(text) => {
                self.report.failure(&folder.display().to_string(), &text);
                None
            }
        }
    }

    /// Reads and sends a load.
    fn begin(&self, load: Load, folder: &Path) -> BoxFuture<'static, Settled> {
        let (env, reader, folder) = (self.env.clone(), self.reader, PathBuf::from(folder));
        let sending = Sending {
            env: self.env.clone(),
            client: self.client.clone(),
            retries: self.retries,
            pace: self.pace.clone(),
        };
        Box::pin(async move {
            let job = move || {
                let read = load.read(&folder, &reader);
                (load, read)
            };
            let (load, mut read) = env.run_blocking(job).await;
            let (points, outcome) = sending.send_all(std::mem::take(&mut read.requests)).await;
            Settled { load, read, points, outcome }
        })
    }

    /// Waits for a load and handles its outcome.
    async fn settle(
        &mut self,
        pending: &mut FuturesUnordered<BoxFuture<'static, Settled>>,
        folder: &Path,
    ) -> Result<(), Failed> {
        let Some(Settled { load, read, points, outcome }) = pending.next().await else { return Ok(()) };
        match outcome {
            Outcome::Failed(refusal) => {
                let first = load.files.first().map_or("", |(name, _)| name.as_str());
                let failed = Failed::from(refusal);
                let text = format!(
                    "not stored from {first}: {}; {} files were stored before: run it again, with --resume \
                     to skip them",
                    failed.message(),
                    self.report.files
                );
                return Err(Failed::new(text));
            }
            // The server stored the rest. To find the file with the refused points, each file is sent
            // alone.
            Outcome::Refused(_) if load.files.len() > 1 => {
                for load in load.apart() {
                    pending.push(self.begin(load, folder));
                    if pending.len() > self.parallel {
                        Box::pin(self.settle(pending, folder)).await?;
                    }
                }
                return Ok(());
            }
            Outcome::Refused(text) => {
                let name = load.files.first().map_or("", |(name, _)| name.as_str());
                self.report.failure(name, &format!("the server refused some of its points: {text}"));
                return Ok(());
            }
            Outcome::Stored => {}
        }
        self.report.covered_by_finer += read.covered_by_finer;
        self.report.not_a_number += read.not_a_number;
        self.report.archives_of_same_step += read.archives_of_same_step;
        self.report.points += points;
        let mut failures: Vec<usize> = read.failures.iter().map(|(n, _)| *n).collect();
        failures.sort_unstable();
        for (n, text) in &read.failures {
            self.report.failure(load.files.get(*n).map_or("", |(name, _)| name.as_str()), text);
        }
        for (n, text) in &read.damaged {
            self.report.damage(load.files.get(*n).map_or("", |(name, _)| name.as_str()), text);
        }
        let mut in_part: Vec<usize> = read.damaged.iter().map(|(n, _)| *n).collect();
        in_part.dedup();
        let stored = load.files.iter().enumerate().filter(|(n, _)| failures.binary_search(n).is_err());
        self.report.files += stored.clone().count() as u64;
        // A file that was stored in part is read again by the next import.
        let stored = stored.filter(|(n, _)| in_part.binary_search(n).is_err());
        let stored: Vec<String> = stored.map(|(_, (name, found))| found.line(name)).collect();
        self.report.in_part += in_part.len() as u64;
        self.report.progress(self.env.monotonic(), load.files.last().map_or("", |(name, _)| name.as_str()));
        self.state.note(stored.into_iter())
    }
}
