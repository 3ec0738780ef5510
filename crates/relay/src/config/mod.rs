//! Configuration files: of carbon, carbon-c-relay and carbon-relay-ng as they are, and one of our own for
//! what those cannot say. All become one [`Routing`].
//!
//! **Invariants.** A line that does not do here what it does in its program is a [`Note`] with its place;
//! files, includes, clusters and stages are bounded in number and size.

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

use crate::model::{Note, Routing};

/// Whose form a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `carbon.conf` and the files beside it.
    Carbon,
    /// carbon-c-relay's one file, with what it includes.
    CarbonCRelay,
    /// carbon-relay-ng's TOML.
    CarbonRelayNg,
    /// Our own TOML.
    Sandur,
}

impl Format {
    /// Every form by its name.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("carbon", Self::Carbon),
        ("carbon-c-relay", Self::CarbonCRelay),
        ("carbon-relay-ng", Self::CarbonRelayNg),
        ("sandur", Self::Sandur),
    ];

    /// The form of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(own, _)| *own == name).map(|(_, format)| *format)
    }

    /// The form that a text has.
    fn of(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        let first = lines.clone().next().unwrap_or_default();
        let mut words = first.split_whitespace();
        let word = words.next().unwrap_or_default();
        // `listen = ` is a key of our own file.
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
            // Most likely a mistake in a file of theirs: its reader says where.
            Err(_) if text.contains("[[route]]") => Self::CarbonRelayNg,
            Err(_) => Self::Carbon,
        }
    }
}

/// Reads a file and those it names. Without a `format` its text says which it is; `section` is that of
/// carbon's file, `relay` or, where there is none, `aggregator`.
pub fn read(path: &Path, format: Option<Format>, section: Option<&str>) -> Result<Routing, ConfigError> {
    let source = Source::open(path)?;
    let mut routing = Routing::default();
    match format.unwrap_or_else(|| Format::of(&source.text)) {
        Format::Carbon => carbon::read(&source, section, &mut routing)?,
        Format::CarbonCRelay => relay_grammar::read(&source, &mut routing)?,
        Format::CarbonRelayNg => relay_ng::read(&source, &mut routing)?,
        Format::Sandur => sandur::read(&source, &mut routing)?,
    }
    Ok(routing)
}

impl Routing {
    fn note(&mut self, source: &Source, line: usize, what: &str, why: impl Into<String>, is_grave: bool) {
        let what: String = what.chars().take(120).collect();
        self.notes.push(Note { file: source.name.clone(), line, what, why: why.into(), is_grave });
    }
}

#[cfg(test)]
mod tests;
