//! What the readers of groups and rules have in common: options, errors, and values of several kinds.

use std::time::Duration;

use sandur_yaml::{ConfigError, Data, Keys};

use crate::spec::Language;

/// The most errors of a file that are reported.
pub const ERRORS_MAX: usize = 100;

/// Options for reading a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// The language of expressions for which the file names none.
    pub language: Language,
    /// The interval of groups that have none.
    pub interval: Duration,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { language: Language::default(), interval: Duration::from_secs(60) }
    }
}

/// The errors of a file, in the order of their lines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", shown(.0))]
pub struct FileErrors(pub Vec<ConfigError>);

fn shown(errors: &[ConfigError]) -> String {
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    match errors.len() {
        0 | 1 => first,
        several => format!("{first} (and {} more errors)", several - 1),
    }
}

impl From<ConfigError> for FileErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

/// The errors that were found so far.
#[derive(Default)]
pub struct Errors(Vec<ConfigError>);

impl Errors {
    /// Adds an error.
    pub fn add(&mut self, line: usize, what: impl Into<String>) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(ConfigError::at(line, what.into()));
        }
    }

    /// The value, if there was no error.
    pub fn note<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(error.line, error.what);
                None
            }
        }
    }

    /// Fails if there was an error.
    pub fn finish(mut self) -> Result<(), FileErrors> {
        self.0.sort_by_key(|error| error.line);
        if self.0.is_empty() { Ok(()) } else { Err(FileErrors(self.0)) }
    }
}

/// Reads a duration in Prometheus's form, also zero; nanoseconds.
pub fn duration(keys: &mut Keys<'_>, key: &'static str, errors: &mut Errors) -> Option<Duration> {
    let node = keys.take(key)?;
    let Data::Scalar(text) = &node.data else {
        errors.add(node.line, format!("{key}: expected a duration such as 5m"));
        return None;
    };
    match sandur_model::go_text::parse_prometheus_duration(text) {
        Ok(ns) => Some(Duration::from_nanos(ns.unsigned_abs())),
        Err(why) => {
            errors.add(node.line, format!("{key}: {why}; write it like 30s, 5m or 1h30m"));
            None
        }
    }
}

/// Reads names with values.
pub fn pairs(keys: &mut Keys<'_>, key: &'static str, errors: &mut Errors) -> Vec<(String, String, usize)> {
    let Some(node) = keys.take(key) else { return Vec::new() };
    let Data::Map(pairs) = &node.data else {
        errors.add(node.line, format!("{key}: expected names with values"));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (name, line, value) in pairs {
        match &value.data {
            Data::Null => found.push((name.clone(), String::new(), *line)),
            Data::Scalar(text) => found.push((name.clone(), text.clone(), *line)),
            _ => errors.add(*line, format!("{key}: the value of '{name}' is not a text")),
        }
    }
    found
}

/// Reads the language.
pub fn language(keys: &mut Keys<'_>, errors: &mut Errors) -> Option<Language> {
    let node = keys.take("language")?;
    let found = match &node.data {
        Data::Scalar(name) => Language::parse(name),
        _ => None,
    };
    if found.is_none() {
        errors.add(node.line, "language: expected promql, logql or graphite");
    }
    found
}
