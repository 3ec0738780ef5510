//! Reads query templates of Loki's own benchmark from a folder outside of the repository.
//!
//! The files are YAML of a simple form. Only the list under `queries:` is read, with its `query`,
//! `kind`, `directions`, and the step of its time range.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::ask::{Ask, Shape};
use crate::corpus::{HALF_NS, MIDDLE_NS, SECOND_NS};
use crate::grammar::Query;

/// A query template.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// File and index, for messages.
    pub name: String,
    query: String,
    metric: bool,
    format: String,
}

/// Reads all templates below a folder, in the order of file names.
pub fn read(folder: &Path) -> Result<Vec<Template>> {
    let mut files = Vec::new();
    gather(folder, &mut files)?;
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
        all.extend(parse(&name, &text));
    }
    if all.is_empty() {
        bail!(
            "{} has no templates: give the folder pkg/logql/bench/queries of Loki's sources",
            folder.display()
        );
    }
    Ok(all)
}

fn gather(folder: &Path, files: &mut Vec<std::path::PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}

fn parse(name: &str, text: &str) -> Vec<Template> {
    let mut all: Vec<Template> = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("- description:") {
            all.push(Template { name: format!("{name}#{}", all.len() + 1), ..Template::default() });
        }
        let Some(template) = all.last_mut() else { continue };
        let key = trimmed.strip_prefix("- ").unwrap_or(trimmed);
        let Some((key, value)) = key.split_once(':') else { continue };
        match key {
            "query" => template.query = scalar(value),
            "kind" => template.metric = value.trim() == "metric",
            "log_format" => template.format = value.trim().to_owned(),
            _ => {}
        }
    }
    all.retain(|template| !template.query.is_empty());
    all
}

/// Decodes a value in any of YAML's quoting styles.
fn scalar(value: &str) -> String {
    let value = value.trim();
    if let Some(inner) = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\'')) {
        return inner.replace("''", "'");
    }
    if value.starts_with('"')
        && let Ok(text) = serde_json::from_str::<String>(value)
    {
        return text;
    }
    value.to_owned()
}

impl Template {
    /// Returns the requests of this template for the corpus: with selectors and ranges of several kinds,
    /// both directions for lines, and range and instant queries for numbers.
    pub fn asks(&self) -> Vec<Ask> {
        let selectors: &[&str] = match self.format.as_str() {
            "json" => &[r#"{app="api"}"#],
            "logfmt" => &[r#"{app="web"}"#],
            "unstructured" => &[r#"{app="text"}"#],
            _ => &[r#"{app="web"}"#, r#"{app="api", env="prod"}"#, r#"{service_name=~"shop|counter"}"#],
        };
        let mut asks = Vec::new();
        for selector in selectors {
            let text = self.query.replace("${SELECTOR}", selector);
            let text = text.replace("${LABEL_NAME}", "env").replace("${LABEL_VALUE}", "prod");
            asks.extend(self.with_text(&text));
        }
        asks
    }

    fn with_text(&self, text: &str) -> Vec<Ask> {
        let (start, end) = (MIDDLE_NS - HALF_NS, MIDDLE_NS + HALF_NS + 60 * SECOND_NS);
        let ranged = |query: String| {
            let ask = Ask::new("query_range", Shape::Query).with("start", start).with("end", end);
            ask.with_query(Query::Text(query))
        };
        if !self.metric {
            let directed =
                |direction| ranged(text.to_owned()).with("direction", direction).with("limit", 1000);
            return vec![directed("backward"), directed("forward")];
        }
        let mut asks = Vec::new();
        for window in ["1m", "5m"] {
            let query = text.replace("${RANGE}", window);
            asks.push(ranged(query.clone()).with("step", "1m"));
            asks.push(Ask::new("query", Shape::Query).with("time", MIDDLE_NS).with_query(Query::Text(query)));
        }
        asks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_every_form_are_read() {
        let text = "queries:\n  - description: One\n    query: ${SELECTOR} |= \"a: b\"\n    kind: log\n\
                    \n  - description: Two\n    query: 'sum(rate(${SELECTOR} | x=`it''s` [${RANGE}]))'\n    \
                    kind: metric\n    requires:\n      log_format: json\n";
        let all = parse("f.yaml", text);
        assert_eq!(all.len(), 2);
        let first = all[0].asks();
        assert_eq!(first.len(), 6);
        assert_eq!(first[0].query_text(), "{app=\"web\"} |= \"a: b\"");
        let second = all[1].asks();
        assert_eq!(second[0].query_text(), "sum(rate({app=\"api\"} | x=`it's` [1m]))");
        assert_eq!(second.len(), 4);
    }
}
