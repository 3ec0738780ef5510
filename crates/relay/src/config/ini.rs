//! Sections of carbon's files; errors name the file and the line.

use sandur_base::PythonConfig;
pub(super) use sandur_base::Section;

use super::source::{ConfigError, Source};

/// Parses a file.
pub(super) fn open(source: &Source) -> Result<PythonConfig, ConfigError> {
    PythonConfig::parse(&source.text).map_err(|malformed| source.wrong(malformed.line, malformed.reason))
}

/// Returns the section with this name.
pub(super) fn section(
    source: &Source,
    config: &PythonConfig,
    name: &str,
) -> Result<Option<Section>, ConfigError> {
    config.section(name).map_err(|malformed| source.wrong(malformed.line, malformed.reason))
}

/// Reads a file of rules, each of which is one section.
pub(super) fn rules(source: &Source) -> Result<Vec<Section>, ConfigError> {
    open(source)?.rules().map_err(|malformed| source.wrong(malformed.line, malformed.reason))
}

/// Parses a truth value in the forms that `ConfigParser` and carbon accept.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}
