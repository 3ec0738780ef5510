//! Graphite's files of rules, as the options name them.

use crate::config::Graphite;
use crate::failed_command::Failed;
use crate::wiring::graphite::{RulesFile, StorageRules};

/// Bytes of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads the files that are named.
pub fn rules(settings: &Graphite) -> Result<StorageRules, Failed> {
    let (schemas, aggregation) = (text_of(&settings.schemas)?, text_of(&settings.aggregation)?);
    let schemas = schemas.as_deref().map(|text| RulesFile { name: &settings.schemas, text });
    let aggregation = aggregation.as_deref().map(|text| RulesFile { name: &settings.aggregation, text });
    StorageRules::read(schemas, aggregation).map_err(|error| Failed::new(error.to_string()))
}

fn text_of(path: &str) -> Result<Option<String>, Failed> {
    if path.is_empty() {
        return Ok(None);
    }
    let unreadable = |error: std::io::Error| Failed::new(format!("cannot read {path}: {error}"));
    if std::fs::metadata(path).map_err(unreadable)?.len() > FILE_BYTES_MAX {
        return Err(Failed::new(format!("{path} has more than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(path).map(Some).map_err(unreadable)
}
