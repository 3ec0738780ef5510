//! TOML tables with line numbers, which track the keys that were read.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::source::{ConfigError, Source};

/// Parses a file as TOML.
pub(super) fn parse(source: &Source) -> Result<Spanned<DeTable<'_>>, ConfigError> {
    DeTable::parse(&source.text).map_err(|error| {
        let line = source.line_of(error.span().map_or(0, |span| span.start));
        source.wrong(line, error.message())
    })
}

/// A table whose keys are read one by one.
pub(super) struct Table<'a> {
    source: &'a Source,
    line: usize,
    table: &'a DeTable<'a>,
    taken: Vec<String>,
}

impl<'a> Table<'a> {
    pub(super) fn new(source: &'a Source, line: usize, table: &'a DeTable<'a>) -> Self {
        Self { source, line, table, taken: Vec::new() }
    }

    /// Returns the line of the table.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Returns the value of a key, in any case of letters, and its line.
    pub(super) fn value(&mut self, key: &str) -> Option<(&'a DeValue<'a>, usize)> {
        let (own, value) = self.table.iter().find(|(own, _)| own.get_ref().eq_ignore_ascii_case(key))?;
        self.taken.push(own.get_ref().to_string());
        Some((value.get_ref(), self.source.line_of(value.span().start)))
    }

    fn typed<T>(
        &mut self,
        key: &str,
        what: &str,
        read: impl Fn(&'a DeValue<'a>) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((value, line)) = self.value(key) else { return Ok(None) };
        let wrong = || self.source.wrong(line, format!("'{key}' must be {what}"));
        read(value).map(Some).ok_or_else(wrong)
    }

    /// Reads a text.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        self.typed(key, "a text", |value| value.as_str())
    }

    /// Reads a text; a missing key gives an empty text.
    pub(super) fn text_or_empty(&mut self, key: &str) -> Result<&'a str, ConfigError> {
        Ok(self.text(key)?.unwrap_or_default())
    }

    /// Reads an integer that is not negative.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>, ConfigError> {
        self.typed(key, "a whole number", |value| {
            let number = value.as_integer()?;
            u64::from_str_radix(number.as_str(), number.radix()).ok()
        })
    }

    /// Reads a truth value.
    pub(super) fn truth(&mut self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.typed(key, "true or false", |value| value.as_bool())
    }

    /// Reads a list of texts with their lines.
    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<(&'a str, usize)>, ConfigError> {
        let Some((value, line)) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = || self.source.wrong(line, format!("'{key}' must be a list of texts"));
        let items = value.as_array().ok_or_else(wrong)?;
        let item = |item: &'a Spanned<DeValue<'a>>| {
            let text = item.get_ref().as_str().ok_or_else(wrong)?;
            Ok((text, self.source.line_of(item.span().start)))
        };
        items.iter().map(item).collect()
    }

    /// Reads a nested table.
    pub(super) fn table(&mut self, key: &str) -> Result<Option<Table<'a>>, ConfigError> {
        let Some((value, line)) = self.value(key) else { return Ok(None) };
        let wrong = || self.source.wrong(line, format!("'{key}' must be a table"));
        value.as_table().map(|table| Some(Table::new(self.source, line, table))).ok_or_else(wrong)
    }

    /// Reads a list of tables.
    pub(super) fn tables(&mut self, key: &str) -> Result<Vec<Table<'a>>, ConfigError> {
        let Some((value, line)) = self.value(key) else { return Ok(Vec::new()) };
        let wrong = || self.source.wrong(line, format!("'{key}' must be a list of tables: [[{key}]]"));
        let table = |item: &'a Spanned<DeValue<'a>>| {
            let table = item.get_ref().as_table().ok_or_else(wrong)?;
            Ok(Table::new(self.source, self.source.line_of(item.span().start), table))
        };
        value.as_array().ok_or_else(wrong)?.iter().map(table).collect()
    }

    /// Returns the keys that were not read, with their lines.
    pub(super) fn rest(&self) -> Vec<(String, usize)> {
        let is_left = |key: &&Spanned<Cow<'a, str>>| !self.taken.iter().any(|own| *own == *key.get_ref());
        let keys = self.table.keys().filter(is_left);
        keys.map(|key| (key.get_ref().to_string(), self.source.line_of(key.span().start))).collect()
    }
}
