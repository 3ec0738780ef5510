//! Reads the keys of a map one by one. Keys that are left at the end are unknown or not honoured.

use std::time::Duration;

use sandur_base::spelling::nearest;
use sandur_base::units::{ByteSize, parse_duration};

use crate::error::ConfigError;
use crate::node::{Data, Node};

/// The keys of a map that were not read yet.
pub struct Keys<'a> {
    /// The line of the map.
    pub line: usize,
    left: Vec<&'a (String, usize, Node)>,
    taken: Vec<&'static str>,
}

impl<'a> Keys<'a> {
    /// Begins to read a map; null has no keys.
    pub fn of(node: &'a Node) -> Result<Self, ConfigError> {
        match &node.data {
            Data::Map(pairs) => Ok(Self { line: node.line, left: pairs.iter().collect(), taken: Vec::new() }),
            Data::Null => Ok(Self { line: node.line, left: Vec::new(), taken: Vec::new() }),
            _ => Err(ConfigError::at(node.line, "expected keys with values".to_owned())),
        }
    }

    /// Returns the value of a key, if it exists and is not null.
    pub fn take(&mut self, key: &'static str) -> Option<&'a Node> {
        self.taken.push(key);
        let at = self.left.iter().position(|(name, ..)| name == key)?;
        let (_, _, node) = self.left.remove(at);
        (node.data != Data::Null).then_some(node)
    }

    /// Reads a text.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, ConfigError> {
        self.take(key).map(|node| scalar(node, key)).transpose()
    }

    /// Reads a switch, with its default.
    pub fn switch(&mut self, key: &'static str, default: bool) -> Result<bool, ConfigError> {
        let Some(node) = self.take(key) else { return Ok(default) };
        match scalar(node, key)?.as_str() {
            "true" | "yes" | "on" => Ok(true),
            "false" | "no" | "off" => Ok(false),
            other => Err(ConfigError::at(node.line, format!("{key}: '{other}' is neither true nor false"))),
        }
    }

    /// Reads a duration above zero.
    pub fn duration(&mut self, key: &'static str) -> Result<Option<Duration>, ConfigError> {
        let Some(node) = self.take(key) else { return Ok(None) };
        let text = scalar(node, key)?;
        let duration = parse_duration(&text).ok().filter(|duration| *duration > Duration::ZERO);
        let wrong = || ConfigError::at(node.line, format!("{key}: '{text}' is not a duration such as 15s"));
        duration.ok_or_else(wrong).map(Some)
    }

    /// Reads a whole number; 0 if it is missing.
    pub fn count(&mut self, key: &'static str) -> Result<u64, ConfigError> {
        let Some(node) = self.take(key) else { return Ok(0) };
        let text = scalar(node, key)?;
        text.parse().map_err(|_| ConfigError::at(node.line, format!("{key}: '{text}' is not a whole number")))
    }

    /// Reads a number of bytes with Prometheus's units, which are powers of 1,024.
    pub fn size(&mut self, key: &'static str) -> Result<u64, ConfigError> {
        let Some(node) = self.take(key) else { return Ok(0) };
        let text = scalar(node, key)?;
        let binary = match text.strip_suffix('B') {
            Some(short) if short.ends_with(['K', 'M', 'G', 'T']) => format!("{short}iB"),
            _ => text.clone(),
        };
        let size = binary.parse::<ByteSize>();
        size.map(|size| size.0).map_err(|e| ConfigError::at(node.line, format!("{key}: '{text}': {e}")))
    }

    /// Reads a list; empty if it is missing.
    pub fn list(&mut self, key: &'static str) -> Result<&'a [Node], ConfigError> {
        match self.take(key) {
            None => Ok(&[]),
            Some(Node { data: Data::List(items), .. }) => Ok(items),
            Some(node) => Err(ConfigError::at(node.line, format!("{key}: expected a list"))),
        }
    }

    /// Reads a list of texts.
    pub fn texts(&mut self, key: &'static str) -> Result<Vec<String>, ConfigError> {
        self.list(key)?.iter().map(|node| scalar(node, key)).collect()
    }

    /// Reads a map of names to texts.
    pub fn map(&mut self, key: &'static str) -> Result<Vec<(String, String)>, ConfigError> {
        let Some(node) = self.take(key) else { return Ok(Vec::new()) };
        let Data::Map(pairs) = &node.data else {
            return Err(ConfigError::at(node.line, format!("{key}: expected names with values")));
        };
        let value = |node: &Node| if node.data == Data::Null { Ok(String::new()) } else { scalar(node, key) };
        pairs.iter().map(|(name, _, node)| Ok((name.clone(), value(node)?))).collect()
    }

    /// Handles the keys that are left: adds a warning for each key of `foreign`, and fails for any
    /// other.
    pub fn finish(self, foreign: &[&str], warnings: &mut Vec<String>) -> Result<(), ConfigError> {
        for (name, line, _) in self.left {
            if foreign.contains(&name.as_str()) || name.ends_with("_sd_configs") {
                let advice = if name.ends_with("_sd_configs") {
                    "; let an agent scrape these targets and send them by remote write"
                } else {
                    ""
                };
                warnings.push(format!("line {line}: {name} is not honoured{advice}"));
                continue;
            }
            let meant = nearest(name, self.taken.iter().copied());
            let meant = meant.map(|meant| format!("; did you mean '{meant}'?")).unwrap_or_default();
            return Err(ConfigError::at(*line, format!("unknown key '{name}'{meant}")));
        }
        Ok(())
    }
}

fn scalar(node: &Node, key: &str) -> Result<String, ConfigError> {
    match &node.data {
        Data::Scalar(text) => Ok(text.clone()),
        _ => Err(ConfigError::at(node.line, format!("{key}: expected a text"))),
    }
}
