//! Sections of carbon's files, whose faults are named with file and line.

use sandur_base::PythonConfig;
pub(super) use sandur_base::Section;

use super::source::{ConfigError, Source};

/// Reads a file.
pub(super) fn open(source: &Source) -> Result<PythonConfig, ConfigError> {
    PythonConfig::parse(&source.text).map_err(|malformed| source.wrong(malformed.line, malformed.reason))
}

/// The section of a name.
pub(super) fn section(
    source: &Source,
    config: &PythonConfig,
    name: &str,
) -> Result<Option<Section>, ConfigError> {
    config.section(name).map_err(|malformed| source.wrong(malformed.line, malformed.reason))
}

/// Reads a file of rules, in which each section is one.
pub(super) fn rules(source: &Source) -> Result<Vec<Section>, ConfigError> {
    open(source)?.rules().map_err(|malformed| source.wrong(malformed.line, malformed.reason))
}

/// A truth value as `ConfigParser` and carbon's settings take it.
pub(super) fn truth(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}
