//! Reads configuration files: those of carbon, carbon-c-relay and carbon-relay-ng unchanged, and our own
//! format for what they cannot express. All of them become one [`Routing`].
//!
//! **Invariants.** A setting that has no effect here, or another effect than in its program, gives a
//! [`Note`] with its place. Files, includes, clusters and stages are bounded in number and size.

mod carbon;
mod carbon_rules;
mod destination;
mod ini;
mod relay_grammar;
mod relay_ng;
mod relay_ng_destination;
mod relay_words;
mod sandur;
mod source;
mod tables;

use std::path::Path;

pub use source::ConfigError;
use source::Source;

use crate::model::{Note, Routing, Stage, Weight};

/// The format of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `carbon.conf` and the rule files in its directory.
    Carbon,
    /// carbon-c-relay's file and the files that it includes.
    CarbonCRelay,
    /// carbon-relay-ng's TOML.
    CarbonRelayNg,
    /// Our own TOML.
    Sandur,
}

impl Format {
    /// Every format with its name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("carbon", Self::Carbon),
        ("carbon-c-relay", Self::CarbonCRelay),
        ("carbon-relay-ng", Self::CarbonRelayNg),
        ("sandur", Self::Sandur),
    ];

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _)| *own == name).map(|(_, format)| *format)
    }

    /// Detects the format of a text.
    fn of(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        let first = lines.clone().next().unwrap_or_default();
        let mut words = first.split_whitespace();
        let word = words.next().unwrap_or_default();
        // `listen = ` is also a key of our own format.
        if relay_grammar::STATEMENTS.contains(&word) && words.next() != Some("=") {
            return Self::CarbonCRelay;
        }
        let is_ours =
            |line: &str| ["[[cluster]]", "[[stage]]"].contains(&line) || line.starts_with("import =");
        if lines.any(is_ours) {
            return Self::Sandur;
        }
        match toml::de::DeTable::parse(text) {
            Ok(_) => Self::CarbonRelayNg,
            Err(_) if text.contains("[relay") || text.contains("[aggregator") => Self::Carbon,
            // Most likely a mistake in a file of another relay; its reader reports the place.
            Err(_) if text.contains("[[route]]") => Self::CarbonRelayNg,
            Err(_) => Self::Carbon,
        }
    }
}

/// Reads a file and the files that it names. Without a `format` it is detected from the text. `section`
/// is the section of carbon's file; the default is `relay` or, if that does not exist, `aggregator`.
///
/// A file without clusters and routes is refused.
pub fn read(path: &Path, format: Option<Format>, section: Option<&str>) -> Result<Routing, ConfigError> {
    let source = Source::open(path)?;
    let mut routing = read_source(&source, format, section)?;
    let is_route = |stage: &Stage| matches!(stage, Stage::Route(_) | Stage::Aggregate(_));
    if routing.stages.iter().any(is_route) || routing.notes.iter().any(Note::is_grave) {
        return Ok(routing);
    }
    if routing.clusters.is_empty() {
        return Err(source.wrong(1, "the file has no cluster and no route, so every point would be lost"));
    }
    let name = routing.clusters[0].name.clone();
    let why =
        "no route sends points to a cluster, so every point is lost: add a 'match', [[stage]] or [[route]]";
    routing.doubt(&source, 1, &name, why);
    Ok(routing)
}

fn read_source(
    source: &Source,
    format: Option<Format>,
    section: Option<&str>,
) -> Result<Routing, ConfigError> {
    let mut routing = Routing::default();
    match format.unwrap_or_else(|| Format::of(&source.text)) {
        Format::Carbon => carbon::read(source, section, &mut routing)?,
        Format::CarbonCRelay => relay_grammar::read(source, &mut routing)?,
        Format::CarbonRelayNg => relay_ng::read(source, &mut routing)?,
        Format::Sandur => sandur::read(source, &mut routing, &read_other)?,
    }
    Ok(routing)
}

/// Reads the file of another relay; `None` if its format is our own.
fn read_other(source: &Source, section: Option<&str>) -> Result<Option<Routing>, ConfigError> {
    match Format::of(&source.text) {
        Format::Sandur => Ok(None),
        _ => read_source(source, None, section).map(Some),
    }
}

impl Routing {
    fn note(&mut self, source: &Source, line: usize, what: &str, why: impl Into<String>, is_grave: bool) {
        let weight = if is_grave { Weight::Grave } else { Weight::Ignored };
        self.noted(source, line, what, (why.into(), weight));
    }

    /// Notes a line that is applied, but is probably a mistake.
    fn doubt(&mut self, source: &Source, line: usize, what: &str, why: impl Into<String>) {
        self.noted(source, line, what, (why.into(), Weight::Doubtful));
    }

    fn noted(&mut self, source: &Source, line: usize, what: &str, (why, weight): (String, Weight)) {
        let what: String = what.chars().take(120).collect();
        self.notes.push(Note { file: source.name.clone(), line, what, why, weight });
    }
}

#[cfg(test)]
mod tests;
