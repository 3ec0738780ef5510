//! Counts and shows what an import has done.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::HumanCount;
use sandur_runtime::Env;

use crate::import::progress::{Progress, say_unlisted};

/// The counts of an import.
pub struct Score {
    progress: Progress,
    /// Samples that are stored.
    pub samples: u64,
    /// Parts that are stored.
    pub parts: u64,
    /// Parts that an earlier import stored.
    pub known: u64,
    failures: u64,
    /// What is not imported on purpose.
    skipped: u64,
}

impl Score {
    /// No counts; on a terminal they are shown.
    pub fn new(env: &Env) -> Self {
        Self { progress: Progress::new(env), samples: 0, parts: 0, known: 0, failures: 0, skipped: 0 }
    }

    /// Shows the progress.
    pub fn progress(&self, now: Duration, at: &str) {
        let (_, rate) = self.progress.rate(now, self.samples);
        self.progress.show(format!("{} samples, {rate} samples/s: {at}", HumanCount(self.samples)));
    }

    /// Reports something that is not imported, and why.
    pub fn failure(&mut self, name: &str, text: &str) {
        self.progress.list(&mut self.failures, name, text);
    }

    /// Reports something that is not imported on purpose, and why.
    pub fn skipped(&mut self, name: &str, text: &str) {
        self.progress.list(&mut self.skipped, name, text);
    }

    /// Prints something that the user should know.
    pub fn notice(&self, text: &str) {
        self.progress.notice(text);
    }

    /// Prints the summary. Returns the exit code.
    pub fn finish(&self, now: Duration, is_dry: bool) -> ExitCode {
        self.progress.end();
        let (seconds, rate) = self.progress.rate(now, self.samples);
        let done = if is_dry { "read, and sent nothing of," } else { "stored" };
        let (samples, parts) = (HumanCount(self.samples), HumanCount(self.parts));
        eprintln!("{done} {samples} samples in {parts} parts in {seconds:.1} s ({rate} samples/s)");
        if self.known > 0 {
            eprintln!("{} parts were stored before", HumanCount(self.known));
        }
        say_unlisted(self.skipped, "skipped blocks");
        if self.skipped > 0 {
            eprintln!("{} blocks were skipped", HumanCount(self.skipped));
        }
        say_unlisted(self.failures, "failures");
        if self.failures > 0 {
            let failures = HumanCount(self.failures);
            eprintln!("{failures} parts or files were not imported; run it again for them");
            return ExitCode::FAILURE;
        }
        if self.parts + self.known == 0 {
            eprintln!(
                "sandur: no samples were found: is this the right place, and are --from and --to right?"
            );
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}
