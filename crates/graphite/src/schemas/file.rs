//! Sections of carbon's files of rules, whose faults are named with file and line.

use sandur_base::{ConfigOption, PythonConfig, Section as Options};

use super::RulesFile;

/// Longest file.
const FILE_BYTES_MAX: usize = 1 << 20;

/// What is wrong with a file.
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

/// The value of an option.
pub(super) struct Given<'a> {
    file: &'a str,
    line: usize,
    pub(super) value: &'a str,
}

impl Section<'_> {
    /// Whether it only holds options of all others: carbon makes no rule of `[DEFAULT]` without a pattern.
    pub(super) fn is_no_rule(&self) -> bool {
        self.options.name == "DEFAULT" && self.options.option("pattern").is_none()
    }

    /// The option of a name, whose case means nothing.
    pub(super) fn option(&self, name: &str) -> Option<Given<'_>> {
        let ConfigOption { line, value, .. } = self.options.option(name)?;
        Some(Given { file: self.file, line: *line, value })
    }

    /// The same, which must be there.
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

/// Reads sections in their order.
pub(super) fn sections<'a>(file: RulesFile<'a>) -> Result<Vec<Section<'a>>, RulesError> {
    let wrong = |line: usize, what: String| RulesError { file: file.name.to_owned(), line, what };
    if file.text.len() > FILE_BYTES_MAX {
        return Err(wrong(1, format!("the file has more than {FILE_BYTES_MAX} bytes")));
    }
    let sections = PythonConfig::parse(file.text).and_then(|config| config.rules());
    let sections = sections.map_err(|malformed| wrong(malformed.line, malformed.reason))?;
    Ok(sections.into_iter().map(|options| Section { file: file.name, options }).collect())
}
