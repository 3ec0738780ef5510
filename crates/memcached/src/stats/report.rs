//! A list of named values: the answer of `stats`.

use std::fmt::Display;

/// Named values in order.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<(String, String)>);

impl Report {
    /// Adds a value.
    pub fn add(&mut self, name: impl Into<String>, value: impl Display) {
        self.0.push((name.into(), value.to_string()));
    }

    /// Returns the names and values.
    pub fn rows(&self) -> &[(String, String)] {
        &self.0
    }

    /// Encodes the list in the text protocol.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for (name, value) in &self.0 {
            for part in ["STAT ", name, " ", value, "\r\n"] {
                text.extend_from_slice(part.as_bytes());
            }
        }
        text.extend_from_slice(b"END\r\n");
        text
    }
}
