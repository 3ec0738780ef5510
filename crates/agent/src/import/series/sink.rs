//! What a source passes on.

use sandur_tsdb::Samples;

/// Receives the series of a source, part by part.
pub trait Sink {
    /// Begins a part, which this line names. If it returns false, the part is not wanted: it is skipped.
    fn begin(&mut self, line: &str) -> bool;

    /// Some samples of a series of the part. The labels are sorted by name.
    fn series(&mut self, labels: &[(String, String)], samples: &Samples);

    /// Ends the part.
    fn end(&mut self);

    /// Something could not be read: its name, and why.
    fn failure(&mut self, name: &str, text: &str);

    /// Something is not imported on purpose: its name, and why.
    fn skipped(&mut self, name: &str, text: &str);

    /// Something that the user should know about an import; other uses of a source ignore it.
    fn notice(&mut self, _text: &str) {}

    /// Whether nothing more is wanted, because the import has failed.
    fn is_closed(&self) -> bool;
}
