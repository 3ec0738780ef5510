//! What reads the files of an import, and which samples of them are wanted.

use super::sink::Sink;

/// Reads files, and passes their series to a sink, part by part.
pub trait Source: Send + 'static {
    /// Reads everything.
    fn read(self, sink: &mut dyn Sink);
}

/// Which samples are imported, and with which additional labels.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The first time, in milliseconds.
    pub from_ms: i64,
    /// The time after the last one.
    pub to_ms: i64,
    /// Labels of all series. They replace labels of the same name.
    pub labels: Vec<(String, String)>,
}

impl Wanted {
    /// Whether a sample of this time is imported.
    pub fn has(&self, time_ms: i64) -> bool {
        (self.from_ms..self.to_ms).contains(&time_ms)
    }

    /// A text that differs if other samples or labels are imported.
    pub fn name(&self) -> String {
        let labels: Vec<String> = self.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} {} {}", self.from_ms, self.to_ms, labels.join(",").escape_default())
    }

    /// Adds the labels to those of a series, sorted by name. Labels without a value are left out.
    pub fn complete(&self, series: &mut Vec<(String, String)>) {
        series.retain(|(name, value)| !value.is_empty() && !self.labels.iter().any(|(own, _)| own == name));
        series.extend(self.labels.iter().cloned());
        series.sort_unstable();
    }
}
