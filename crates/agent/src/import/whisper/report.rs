//! Reports progress and results of an import.

use std::process::ExitCode;
use std::time::Duration;

use indicatif::HumanCount;
use sandur_runtime::Env;

use crate::import::progress::{Progress, say_unlisted};

/// The message when no file was found: most likely the folder is wrong.
pub const NOTHING_FOUND: &str =
    "no file below the folder ends in .wsp; give the root folder of paths, carbon's LOCAL_DATA_DIR";

/// The counts of an import.
pub struct Report {
    progress: Progress,
    /// Number of files that are stored.
    pub files: u64,
    /// Number of their points.
    pub points: u64,
    /// Number of files that an earlier import stored.
    pub known: u64,
    /// Points of coarser archives that finer archives cover.
    pub covered_by_finer: u64,
    /// Points that are NaN.
    pub not_a_number: u64,
    /// Archives with the same step as another one.
    pub archives_of_same_step: u64,
    /// Number of stored files of which a damaged part was left out.
    pub in_part: u64,
    damages: u64,
    failures: u64,
}

impl Report {
    /// An empty report; on a terminal it shows the progress.
    pub fn new(env: &Env) -> Self {
        Self {
            progress: Progress::new(env),
            files: 0,
            points: 0,
            known: 0,
            covered_by_finer: 0,
            not_a_number: 0,
            archives_of_same_step: 0,
            in_part: 0,
            damages: 0,
            failures: 0,
        }
    }

    /// Shows the progress.
    pub fn progress(&self, now: Duration, at: &str) {
        let (_, rate) = self.progress.rate(now, self.points);
        let (files, points) = (HumanCount(self.files), HumanCount(self.points));
        self.progress.show(format!("{files} files, {points} points, {rate} points/s: {at}"));
    }

    /// Reports that a file was not imported, and why.
    pub fn failure(&mut self, name: &str, text: &str) {
        self.progress.list(&mut self.failures, name, text);
    }

    /// Reports that a part of a file was left out, and why.
    pub fn damage(&mut self, name: &str, text: &str) {
        self.progress.list(&mut self.damages, name, &format!("left out: {text}"));
    }

    /// Prints the summary. Returns the exit code.
    pub fn finish(&self, now: Duration, is_dry: bool) -> ExitCode {
        self.progress.end();
        let (seconds, rate) = self.progress.rate(now, self.points);
        let (files, points) = (HumanCount(self.files), HumanCount(self.points));
        let done = if is_dry { "read, and sent nothing of," } else { "stored" };
        eprintln!("{done} {files} files with {points} points in {seconds:.1} s ({rate} points/s)");
        for (count, what) in [
            (self.known, "files were stored before and have not changed"),
            (
                self.covered_by_finer,
                "points of coarser archives were left out: finer ones cover their intervals",
            ),
            (self.not_a_number, "points were left out: they are NaN"),
            (
                self.archives_of_same_step,
                "archives were left out: additional methods of go-carbon for the same \
                step",
            ),
        ] {
            if count > 0 {
                eprintln!("{} {what}", HumanCount(count));
            }
        }
        for (count, what) in [(self.failures, "failures"), (self.damages, "damaged parts")] {
            say_unlisted(count, what);
        }
        if self.in_part > 0 {
            let (files, archives) = (HumanCount(self.in_part), HumanCount(self.damages));
            eprintln!(
                "{files} of them are damaged: {archives} of their archives, or blocks of these, were left \
                out"
            );
        }
        if self.failures > 0 {
            eprintln!(
                "{} files or folders were not imported; run it again for them",
                HumanCount(self.failures)
            );
            return ExitCode::FAILURE;
        }
        if self.in_part > 0 {
            return ExitCode::FAILURE;
        }
        if self.files + self.known == 0 {
            eprintln!("sandur: {NOTHING_FOUND}");
            return ExitCode::FAILURE;
        }
        ExitCode::SUCCESS
    }
}
