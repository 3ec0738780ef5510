//! Reports progress and results of an import.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_cli::escape::escaped;
use sandur_runtime::Env;

/// Number of failed files that are listed individually.
const FAILURES_SHOWN_MAX: u64 = 100;

/// The message when no file was found: most likely the folder is wrong.
pub const NOTHING_FOUND: &str =
    "no file below the folder ends in .wsp; give the root folder of paths, carbon's LOCAL_DATA_DIR";

/// The counts of an import.
pub struct Report {
    bar: ProgressBar,
    began: Duration,
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
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self {
            bar,
            began: env.monotonic(),
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
        let seconds = now.saturating_sub(self.began).as_secs_f64().max(0.001);
        let rate = (self.points as f64 / seconds) as u64;
        let (files, points, rate) = (HumanCount(self.files), HumanCount(self.points), HumanCount(rate));
        self.bar.set_message(format!("{files} files, {points} points, {rate} points/s: {at}"));
        self.bar.tick();
    }

    /// Reports that a file was not imported, and why.
    pub fn failure(&mut self, name: &str, text: &str) {
        self.failures += 1;
        if self.failures <= FAILURES_SHOWN_MAX {
            self.say(name, text);
        }
    }

    /// Reports that a part of a file was left out, and why.
    pub fn damage(&mut self, name: &str, text: &str) {
        self.damages += 1;
        if self.damages <= FAILURES_SHOWN_MAX {
            self.say(name, &format!("left out: {text}"));
        }
    }

    fn say(&self, name: &str, text: &str) {
        let (name, text) = (escaped(name), escaped(text));
        self.bar.suspend(|| eprintln!("sandur: {name}: {text}"));
    }

    /// Prints the summary. Returns the exit code.
    pub fn finish(&self, now: Duration, is_dry: bool) -> ExitCode {
        self.bar.finish_and_clear();
        let seconds = now.saturating_sub(self.began).as_secs_f64();
        let rate = HumanCount((self.points as f64 / seconds.max(0.001)) as u64);
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
            if count > FAILURES_SHOWN_MAX {
                eprintln!("{} more {what} are not shown", HumanCount(count - FAILURES_SHOWN_MAX));
            }
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
