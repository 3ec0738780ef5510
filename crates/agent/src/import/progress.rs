//! Shows the progress of an import on a terminal, and lists what is not imported.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use sandur_cli::escape::escaped;
use sandur_runtime::Env;

/// Number of failures that are listed individually.
const FAILURES_SHOWN_MAX: u64 = 100;

/// The line that shows the progress.
pub struct Progress {
    bar: ProgressBar,
    began: Duration,
}

impl Progress {
    /// Begins now. Nothing is shown unless the output of errors is a terminal.
    pub fn new(env: &Env) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("{spinner} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        Self { bar, began: env.monotonic() }
    }

    /// Seconds since the begin, and how many of `count` things that is per second.
    pub fn rate(&self, now: Duration, count: u64) -> (f64, HumanCount) {
        let seconds = now.saturating_sub(self.began).as_secs_f64();
        (seconds, HumanCount((count as f64 / seconds.max(0.001)) as u64))
    }

    /// Shows a state.
    pub fn show(&self, state: String) {
        self.bar.set_message(state);
        self.bar.tick();
    }

    /// Counts something that is not imported, and says why unless very many were listed before.
    pub fn list(&self, count: &mut u64, name: &str, text: &str) {
        *count += 1;
        if *count <= FAILURES_SHOWN_MAX {
            let (name, text) = (escaped(name), escaped(text));
            self.bar.suspend(|| eprintln!("sandur: {name}: {text}"));
        }
    }

    /// Prints a notice.
    pub fn notice(&self, text: &str) {
        self.bar.suspend(|| eprintln!("warning: {}", escaped(text)));
    }

    /// Removes the line.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Says how many of `count` things were not listed.
pub fn say_unlisted(count: u64, what: &str) {
    if count > FAILURES_SHOWN_MAX {
        eprintln!("{} more {what} are not shown", HumanCount(count - FAILURES_SHOWN_MAX));
    }
}
