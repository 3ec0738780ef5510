//! Ships the batches of all inputs: some are in flight, and they are settled in the order in which they
//! were read.
//!
//! A resume point advances when a batch is settled: its lines are stored, or refused and kept. A batch
//! whose outcome is unknown ends the push; the next push continues from it.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use sandur_cli::client::Refusal;
use sandur_model::Labels;
use sandur_runtime::Task;
use sandur_terminal::Failed;

use super::assembler::Assembler;
use super::batch::Batch;
use super::reading::Reading;
use super::rejected::Rejected;
use super::report::{Report, Shipped};
use super::resume::{Positions, Seen};
use super::sender::{Left, Sender};

/// Number of requests in flight.
const IN_FLIGHT: usize = 4;
/// The label `job` if none is given.
const JOB_DEFAULT: &str = "push";

/// The input of a batch.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Its name, for messages.
    pub name: String,
    /// The file, if the input is one.
    pub file: Option<Seen>,
}

/// A batch in flight. Its task sends it also while the next lines are read.
struct Pending {
    origin: Origin,
    batch: Arc<Batch>,
    task: Task<Result<Vec<Left>, Refusal>>,
}

/// Ships inputs and counts the results.
pub struct Shipper {
    sender: Sender,
    /// The states of files from earlier pushes.
    pub positions: Positions,
    rejected: Option<Rejected>,
    labels: BTreeMap<String, String>,
    reading: Reading,
    /// Reports progress and results.
    pub report: Report,
    began: Duration,
    pending: VecDeque<Pending>,
}

impl Shipper {
    /// Ships through `sender`.
    pub fn new(sender: Sender, positions: Positions, reading: Reading) -> Self {
        let began = sender.env().monotonic();
        let (labels, pending) = (BTreeMap::new(), VecDeque::new());
        Self {
            sender,
            positions,
            rejected: None,
            labels,
            reading,
            report: Report::new(Shipped::Lines),
            began,
            pending,
        }
    }

    /// Keeps refused lines in this file.
    pub fn keeping(mut self, rejected: Option<PathBuf>) -> Self {
        self.rejected = rejected.map(Rejected::at);
        self
    }

    /// Whether this is a file that the push itself writes; shipping it would never end.
    pub fn is_own(&self, path: &Path) -> bool {
        let Ok(path) = path.canonicalize() else { return false };
        let rejected = self.rejected.as_ref().map(|r| r.path().to_owned());
        let own = self.positions.own_files().into_iter().chain(rejected);
        own.filter_map(|own| own.canonicalize().ok()).any(|own| own == path)
    }

    /// Sets the labels of all following lines.
    pub fn label(&mut self, labels: &[(String, String)]) {
        self.labels = labels.iter().cloned().collect();
    }

    /// The sender.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }

    /// The time now.
    pub fn now_ns(&self) -> i64 {
        self.sender.env().now_ns()
    }

    /// How the lines of an input are read.
    pub fn reading(&self) -> Reading {
        self.reading.clone()
    }

    /// Reports times that are not understood, once per input.
    pub fn report_times(&mut self, name: &str, assembler: &mut Assembler) {
        if let Some(example) = assembler.take_not_understood() {
            self.report.not_understood(name, &example);
        }
    }

    /// The labels of an input.
    pub fn labels_of(&self, file: Option<&str>) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        labels.entry("job".to_owned()).or_insert_with(|| JOB_DEFAULT.to_owned());
        if let Some(name) = file {
            labels.entry("filename".to_owned()).or_insert_with(|| absolute(name));
        }
        labels
    }

    /// Sends a batch, when fewer than [`IN_FLIGHT`] are in flight.
    pub async fn submit(&mut self, origin: &Origin, batch: Batch) -> Result<(), Failed> {
        while self.pending.len() >= IN_FLIGHT {
            self.settle().await?;
        }
        if let Some(seen) = &origin.file {
            self.positions.plan(seen, &batch)?;
        }
        let (sender, batch) = (self.sender.clone(), Arc::new(batch));
        let sent = Arc::clone(&batch);
        let task = self.sender.env().spawn("push", async move { sender.settle(&*sent).await });
        self.pending.push_back(Pending { origin: origin.clone(), batch, task });
        Ok(())
    }

    /// Whether batches are in flight.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Waits for the oldest batch.
    pub async fn settle(&mut self) -> Result<(), Failed> {
        let Some(first) = self.pending.front_mut() else { return Ok(()) };
        // If this future is cancelled here, the batch stays the first one.
        let outcome = first.task.ended().await;
        let Some(Pending { origin, batch, .. }) = self.pending.pop_front() else { return Ok(()) };
        let outcome = outcome.map_err(|error| {
            Failed::new(format!("{}: not stored from byte {}: {error}", origin.name, batch.start))
        })?;
        let left = outcome.map_err(|refusal| {
            let (name, at) = (&origin.name, batch.start);
            let so_far = format!("{} lines of all inputs were acknowledged before", self.report.score().0);
            let failed = Failed::from(refusal);
            Failed::new(format!("{name}: not stored from byte {at}: {}; {so_far}", failed.message()))
        })?;
        if let Some(rejected) = self.rejected.as_mut().filter(|_| !left.is_empty()) {
            let lines = left.iter().flat_map(|part| part.lines.clone());
            rejected.keep(lines.map(|n| batch.text(n)))?;
        }
        self.report.settled(&origin.name, &batch, &left);
        match &origin.file {
            Some(seen) => self.positions.note(seen, &batch),
            None => Ok(()),
        }
    }

    /// Waits for all batches in flight.
    pub async fn drain(&mut self) -> Result<(), Failed> {
        while self.is_waiting() {
            self.settle().await?;
        }
        Ok(())
    }

    /// Prints the summary. Returns the exit code.
    pub fn finish(&self) -> ExitCode {
        let took = self.sender.env().monotonic().saturating_sub(self.began);
        let rejected = self.rejected.as_ref().map(|r| r.path().display().to_string());
        self.report.finish(took, rejected.as_deref())
    }
}

/// The path of a file with the canonical path of its directory, so that a file has the same label from
/// wherever it is pushed. A link keeps its own name.
fn absolute(name: &str) -> String {
    let path = Path::new(name);
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize();
    match (directory, path.file_name()) {
        (Ok(directory), Some(file)) => directory.join(file).display().to_string(),
        _ => name.to_owned(),
    }
}

/// The stream with these labels.
pub fn stream(labels: &BTreeMap<String, String>) -> Labels {
    Labels::from_pairs(labels.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_name_from_wherever_it_is_pushed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::fs::write(root.join("a/x.log"), "x").unwrap();
        std::os::unix::fs::symlink("a", root.join("b")).unwrap();
        std::os::unix::fs::symlink("x.log", root.join("a/current.log")).unwrap();
        for (given, expected) in [
            ("a/x.log", "a/x.log"),
            ("a/../a/./x.log", "a/x.log"),
            ("b/x.log", "a/x.log"),
            ("a/current.log", "a/current.log"),
        ] {
            let given = absolute(root.join(given).to_str().unwrap());
            assert_eq!(given, root.join(expected).to_str().unwrap());
        }
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(absolute("Cargo.toml"), here.join("Cargo.toml").to_str().unwrap());
        assert_eq!(absolute("none/x.log"), "none/x.log");
    }
}
