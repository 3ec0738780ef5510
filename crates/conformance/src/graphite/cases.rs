//! Reads files of recorded cases.

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Reads a file, which may be compressed with gzip.
pub fn text(path: &Path) -> Result<String, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let bytes = std::fs::read(path).map_err(wrong)?;
    let mut text = String::new();
    match path.extension().is_some_and(|end| end == "gz") {
        true => GzDecoder::new(bytes.as_slice()).read_to_string(&mut text),
        false => bytes.as_slice().read_to_string(&mut text),
    }
    .map_err(wrong)?;
    Ok(text)
}

/// Reads the cases of a file, one on each line.
pub fn cases(path: &Path) -> Result<Vec<Value>, String> {
    let text = text(path)?;
    let case =
        |line: &str| serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()));
    text.lines().filter(|line| !line.is_empty()).map(case).collect()
}

pub fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
