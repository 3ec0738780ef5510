//! Sections of `key = value`, as Python's `ConfigParser` reads them.

use super::source::{ConfigError, Source};

/// A key with its value.
pub(super) struct Entry {
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// A section.
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) entries: Vec<Entry>,
}

impl Section {
    /// The last entry of a key, whatever its case.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.key.eq_ignore_ascii_case(key))
    }
}

/// Reads a file.
pub(super) fn sections(source: &Source) -> Result<Vec<Section>, ConfigError> {
    let mut sections: Vec<Section> = Vec::new();
    for (index, raw) in source.text.lines().enumerate() {
        let (line, trimmed) = (index + 1, raw.trim());
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section { line, name: name.to_owned(), entries: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(source.wrong(line, "a value stands before the first [section]"));
        };
        let is_continued = raw.starts_with([' ', '\t']);
        if let (true, Some(last)) = (is_continued, section.entries.last_mut()) {
            last.value.push('\n');
            last.value.push_str(trimmed);
            continue;
        }
        let Some(at) = trimmed.find(['=', ':']) else {
            return Err(source.wrong(line, format!("'{trimmed}' is neither a [section] nor 'key = value'")));
        };
        let (key, value) = (trimmed[..at].trim().to_owned(), trimmed[at + 1..].trim().to_owned());
        section.entries.push(Entry { line, key, value });
    }
    Ok(sections)
}

/// A truth value as `ConfigParser` and carbon's settings take it.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}
