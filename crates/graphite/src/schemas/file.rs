//! The form of carbon's files: sections of `name = value`, as Python's `configparser` reads them.

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
    line: usize,
    name: &'a str,
    options: Vec<OptionLine>,
}

struct OptionLine {
    line: usize,
    name: String,
    value: String,
}

/// The value of an option.
pub(super) struct Given<'a> {
    file: &'a str,
    line: usize,
    pub(super) value: &'a str,
}

impl Section<'_> {
    /// The option of a name, whose case means nothing; the last one when it is there twice.
    pub(super) fn option(&self, name: &str) -> Option<Given<'_>> {
        let found = self.options.iter().rev().find(|option| option.name == name.to_ascii_lowercase())?;
        Some(Given { file: self.file, line: found.line, value: &found.value })
    }

    /// The same, which must be there.
    pub(super) fn needed(&self, name: &str) -> Result<Given<'_>, RulesError> {
        let missing = || self.wrong(format!("the section [{}] has no {name}", self.name));
        self.option(name).filter(|given| !given.value.is_empty()).ok_or_else(missing)
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> RulesError {
        RulesError { file: self.file.to_owned(), line: self.line, what: what.into() }
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
    let (mut sections, mut names): (Vec<Section<'a>>, _) = (Vec::new(), std::collections::HashSet::new());
    for (before, text) in file.text.lines().enumerate() {
        let (line, trimmed) = (before + 1, text.trim());
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = trimmed.strip_prefix('[') {
            let name = rest.strip_suffix(']').ok_or_else(|| wrong(line, "a ] is missing".to_owned()))?;
            if !names.insert(name) {
                return Err(wrong(line, format!("the section [{name}] is there twice")));
            }
            sections.push(Section { file: file.name, line, name, options: Vec::new() });
            continue;
        }
        let section =
            sections.last_mut().ok_or_else(|| wrong(line, "this stands before any section".to_owned()))?;
        if text.starts_with([' ', '\t'])
            && let Some(option) = section.options.last_mut()
        {
            option.value.push_str(trimmed);
            continue;
        }
        let (name, value) = trimmed
            .split_once(['=', ':'])
            .ok_or_else(|| wrong(line, format!("'{trimmed}' is neither [section] nor name = value")))?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        section.options.push(OptionLine { line, name, value });
    }
    Ok(sections)
}
