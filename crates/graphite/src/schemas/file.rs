//! Sections of carbon's rule files; errors name the file and the line.

use sandur_base::{ConfigOption, PythonConfig, Section as Options};

use crate::pattern::python_regex;

/// The longest file, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A rule file with its name, for error messages.
#[derive(Clone, Copy, Debug)]
pub struct RulesFile<'a> {
    /// The name.
    pub name: &'a str,
    /// The content.
    pub text: &'a str,
}

/// An error in a rule file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct RulesError {
    file: String,
    line: usize,
    what: String,
}

/// A section with its options.
pub(super) struct Section<'a> {
    file: &'a str,
    options: Options,
}

/// The value of an option, with its place.
pub(super) struct Given<'a> {
    file: &'a str,
    line: usize,
    pub(super) value: &'a str,
}

impl Section<'_> {
    /// Whether the section only sets defaults for all others: in carbon, `[DEFAULT]` without a pattern is
    /// not a rule.
    pub(super) fn is_no_rule(&self) -> bool {
        self.options.name == "DEFAULT" && self.options.option("pattern").is_none()
    }

    /// The option with this name, in any case.
    pub(super) fn option(&self, name: &str) -> Option<Given<'_>> {
        let ConfigOption { line, value, .. } = self.options.option(name)?;
        Some(Given { file: self.file, line: *line, value })
    }

    /// The option with this name; fails if it is missing or empty.
    pub(super) fn needed(&self, name: &str) -> Result<Given<'_>, RulesError> {
        let missing = || self.wrong(format!("the section [{}] has no {name}", self.options.name));
        self.option(name).filter(|given| !given.value.is_empty()).ok_or_else(missing)
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> RulesError {
        RulesError { file: self.file.to_owned(), line: self.options.line, what: what.into() }
    }
}

impl Given<'_> {
    pub(super) fn wrong(&self, what: impl Into<String>) -> RulesError {
        RulesError { file: self.file.to_owned(), line: self.line, what: what.into() }
    }
}

/// Parses the sections, in order.
pub(super) fn sections<'a>(file: RulesFile<'a>) -> Result<Vec<Section<'a>>, RulesError> {
    let wrong = |line: usize, what: String| RulesError { file: file.name.to_owned(), line, what };
    if file.text.len() > FILE_BYTES_MAX {
        return Err(wrong(1, format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    let sections = PythonConfig::parse(file.text).and_then(|config| config.rules());
    let sections = sections.map_err(|malformed| wrong(malformed.line, malformed.reason))?;
    Ok(sections.into_iter().map(|options| Section { file: file.name, options }).collect())
}

/// The pattern of a section, in Python's syntax.
pub(super) fn pattern_of(section: &Section<'_>) -> Result<regex::Regex, RulesError> {
    let pattern = section.needed("pattern")?;
    python_regex(pattern.value).map_err(|error| pattern.wrong(error.to_string()))
}
