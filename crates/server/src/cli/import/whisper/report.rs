//! What an import says: how it goes on, what is stored, what is not and why.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_base::Env;

use crate::cli::escape::escaped;

/// Files with failures that are named one by one.
const FAILURES_SHOWN_MAX: u64 = 100;

/// What to do when there is no file at all: most likely the folder is another one.
pub const NOTHING_FOUND: &str =
    "no file below the folder ends in .wsp; name the folder that paths begin below, carbon's LOCAL_DATA_DIR";

/// The score of an import.
pub struct Report {
    bar: ProgressBar,
    began: Duration,
    /// Files that are stored.
    pub files: u64,
    /// Points of them.
    pub points: u64,
    /// Files that an earlier import has stored.
    pub known: u64,
    /// Points of coarser archives that finer ones tell.
    pub told_finer: u64,
    /// Points that are no number.
    pub not_a_number: u64,
    /// Archives beside others of their step.
    pub archives_beside: u64,
    /// Files of which a damaged part was left out; they are among those that are stored.
    pub in_part: u64,
    damages: u64,
    failures: u64,
}

impl Report {
    /// Nothing so far; people see how it goes on.
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
            told_finer: 0,
            not_a_number: 0,
            archives_beside: 0,
            in_part: 0,
            damages: 0,
            failures: 0,
        }
    }

    /// Shows how far it is.
    pub fn progress(&self, now: Duration, at: &str) {
        let seconds = now.saturating_sub(self.began).as_secs_f64().max(0.001);
        let rate = (self.points as f64 / seconds) as u64;
        let (files, points, rate) = (HumanCount(self.files), HumanCount(self.points), HumanCount(rate));
        self.bar.set_message(format!("{files} files, {points} points, {rate} points/s: {at}"));
        self.bar.tick();
    }

    /// Says that a file is not imported, and why.
    pub fn failure(&mut self, name: &str, text: &str) {
        self.failures += 1;
        if self.failures <= FAILURES_SHOWN_MAX {
            self.say(name, text);
        }
    }

    /// Says that a part of a file is left out, and why.
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

    /// Says what was done; the code of the process.
    pub fn finish(&self, now: Duration, is_dry: bool) -> ExitCode {
        self.bar.finish_and_clear();
        let seconds = now.saturating_sub(self.began).as_secs_f64();
        let rate = HumanCount((self.points as f64 / seconds.max(0.001)) as u64);
        let (files, points) = (HumanCount(self.files), HumanCount(self.points));
        let done = if is_dry { "read, and sent nothing of," } else { "stored" };
        eprintln!("{done} {files} files with {points} points in {seconds:.1} s ({rate} points/s)");
        for (count, what) in [
            (self.known, "files were stored before and have not changed"),
            (self.told_finer, "points of coarser archives were left out: finer ones tell of their intervals"),
            (self.not_a_number, "points were left out: they are no numbers"),
            (self.archives_beside, "archives were left out: go-carbon's further methods for the same step"),
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
                "{files} of them are damaged: {archives} of their archives were left out, or blocks of these"
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
