//! The figures of a dashboard, and their tables.

use std::fmt::Write;

use super::super::report::percentile;
use super::viewers::{Answered, Seen};

/// The figures of a measurement.
#[derive(Clone, Debug, Default)]
pub struct DashReport {
    /// What viewers saw.
    pub(super) seen: Seen,
    /// Seconds during which viewers watched.
    pub(super) seconds: f64,
    /// CPU seconds of the server per second, while viewers watched.
    pub(super) cores: f64,
    /// The same while data arrived and nobody watched.
    pub(super) cores_alone: f64,
    /// Samples or lines that arrived per second meanwhile.
    pub(super) items_per_second: f64,
    /// Peak of resident bytes while viewers watched.
    pub(super) resident_peak: u64,
    /// The longest time that a live push was late, milliseconds.
    pub(super) lag_ms: i64,
    /// Pushes that were repeated, and those that failed.
    pub(super) pushes: (u64, u64),
    /// Why the first attempt of a push failed.
    pub(super) push_reason: Option<String>,
}

impl DashReport {
    /// The number of requests of viewers that failed.
    pub fn errors(&self) -> usize {
        self.seen.answers.iter().filter(|answer| answer.failure.is_some()).count()
    }

    /// Returns two tables in Markdown: by panel, and of the whole.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "| panel | answers | p50, ms | p99, ms | bytes | errors |\n|---|---|---|---|---|---|\n",
        );
        let mut names: Vec<&str> = Vec::new();
        for answer in &self.seen.answers {
            if !names.contains(&answer.panel) {
                names.push(answer.panel);
            }
        }
        names.sort_unstable();
        for name in names {
            let (good, bad): (Vec<&Answered>, Vec<&Answered>) =
                self.seen.answers.iter().filter(|a| a.panel == name).partition(|a| a.failure.is_none());
            let ms: Vec<f64> = good.iter().map(|answer| answer.ms).collect();
            let bytes: Vec<f64> = good.iter().map(|answer| answer.bytes as f64).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {name} | {} | {:.1} | {:.1} | {:.0} | {} |",
                good.len(),
                percentile(&ms, 0.5),
                percentile(&ms, 0.99),
                percentile(&bytes, 0.5),
                bad.len()
            );
        }
        text.push('\n');
        text.push_str(&self.summary());
        text
    }

    fn summary(&self) -> String {
        let of = |is_variable: bool| -> Vec<f64> {
            let good = self.seen.answers.iter().filter(|a| a.failure.is_none());
            good.filter(|a| a.is_variable == is_variable).map(|a| a.ms).collect()
        };
        let spread = |figures: &[f64]| {
            let [half, most, all] = [0.5, 0.99, 1.0].map(|share| percentile(figures, share));
            format!("{half:.1} / {most:.1} / {all:.1}")
        };
        let mut text = String::from("| | |\n|---|---|\n");
        let mut row = |name: &str, value: String| {
            let _ = writeln!(text, "| {name} | {value} |");
        };
        row("panels: p50 / p99 / longest, ms", spread(&of(false)));
        row("variables: p50 / p99 / longest, ms", spread(&of(true)));
        row("whole dashboard: p50 / p99 / longest, ms", spread(&self.seen.loads));
        row("queries per second", format!("{:.1}", self.seen.answers.len() as f64 / self.seconds));
        row("refreshes left out", self.seen.skipped.to_string());
        let first =
            self.seen.answers.iter().find_map(|a| Some(format!(" ({}: {})", a.panel, a.failure.as_ref()?)));
        row("errors", format!("{}{}", self.errors(), first.unwrap_or_default()));
        row("processors of the server", format!("{:.2}", self.cores));
        row("processors without viewers", format!("{:.2}", self.cores_alone));
        row("items pushed per second", format!("{:.0}", self.items_per_second));
        row("latest push, ms", self.lag_ms.to_string());
        let reason = self.push_reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        row("pushes repeated / failed", format!("{} / {}{reason}", self.pushes.0, self.pushes.1));
        row("resident at most, MB", format!("{:.0}", self.resident_peak as f64 / 1e6));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_each_panel_and_the_whole() {
        let answer = |panel, ms, failure: Option<&str>| Answered {
            panel,
            is_variable: panel == "jobs",
            ms,
            bytes: 100,
            failure: failure.map(str::to_owned),
        };
        let answers = vec![
            answer("rate", 3.0, None),
            answer("rate", 1.0, None),
            answer("rate", 9.0, Some("503 no memory")),
            answer("jobs", 0.5, None),
        ];
        let seen = Seen { answers, loads: vec![12.0], skipped: 2 };
        let report =
            DashReport { seen, seconds: 2.0, cores: 0.5, resident_peak: 7_000_000, ..Default::default() };
        let text = report.text();
        for line in [
            "| jobs | 1 | 0.5 | 0.5 | 100 | 0 |",
            "| rate | 2 | 1.0 | 3.0 | 100 | 1 |",
            "| panels: p50 / p99 / longest, ms | 1.0 / 3.0 / 3.0 |",
            "| whole dashboard: p50 / p99 / longest, ms | 12.0 / 12.0 / 12.0 |",
            "| queries per second | 2.0 |",
            "| errors | 1 (rate: 503 no memory) |",
            "| resident at most, MB | 7 |",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
    }
}
