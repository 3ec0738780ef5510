//! Counts and shows what an import has done.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_cli::escape::escaped;
use sandur_runtime::Env;

/// Number of failures that are listed individually.
const FAILURES_SHOWN_MAX: u64 = 100;

/// The counts of an import.
pub struct Score {
    bar: ProgressBar,
    began: Duration,
    /// Samples that are stored.
    pub samples: u64,
    /// Parts that are stored.
    pub parts: u64,
    /// Parts that an earlier import stored.
    pub known: u64,
    failures: u64,
}

impl Score {
    /// No counts; on a terminal they are shown.
    pub fn new(env: &Env) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { bar, began: env.monotonic(), samples: 0, parts: 0, known: 0, failures: 0 }
    }

    fn rate(&self, now: Duration) -> (f64, HumanCount) {
        let seconds = now.saturating_sub(self.began).as_secs_f64().max(0.001);
        (seconds, HumanCount((self.samples as f64 / seconds) as u64))
    }

    /// Shows the progress.
    pub fn progress(&self, now: Duration, at: &str) {
        let (_, rate) = self.rate(now);
        self.bar.set_message(format!("{} samples, {rate} samples/s: {at}", HumanCount(self.samples)));
        self.bar.tick();
    }

    /// Reports something that is not imported, and why.
    pub fn failure(&mut self, name: &str, text: &str) {
        self.failures += 1;
        if self.failures <= FAILURES_SHOWN_MAX {
            let (name, text) = (escaped(name), escaped(text));
            self.bar.suspend(|| eprintln!("sandur: {name}: {text}"));
        }
    }

    /// Prints the summary. Returns the exit code.
    pub fn finish(&self, now: Duration, is_dry: bool) -> ExitCode {
        self.bar.finish_and_clear();
        let (seconds, rate) = self.rate(now);
        let done = if is_dry { "read, and sent nothing of," } else { "stored" };
        let (samples, parts) = (HumanCount(self.samples), HumanCount(self.parts));
        eprintln!("{done} {samples} samples in {parts} parts in {seconds:.1} s ({rate} samples/s)");
        if self.known > 0 {
            eprintln!("{} parts were stored before", HumanCount(self.known));
        }
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
