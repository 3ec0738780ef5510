//! Recorded answers of Graphite: requests of `/render`, paths, tags and times, over the stored series in
//! memory.
//!
//! The recordings are data beside the repository and do not lie in it; their own page says what each file
//! holds and how answers compare.

mod attime;
mod compare;
mod find;
mod memory;
mod render;

use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Where an empty node stands for the folder it is in.
const FOLDER: &str = "an empty node is not the folder that it stands in";

/// Cases that are answered otherwise, and why.
const EXPLAINED: [(&str, &str); 17] = [
    ("attime/generated/028", "clocks of places before 1902: the database of zones is newer and knows more"),
    ("attime/generated/200", "clocks of places before 1902: the database of zones is newer and knows more"),
    ("fn/hitcount/009", "an interval below zero is refused"),
    ("fn/hitcount/010", "an interval below zero is refused"),
    ("fn/alias/010", "a name is a text, also when it was given as a number"),
    ("fn/verticalLine/001", "a name is a text, also when there is none"),
    ("find/expand/018", FOLDER),
    ("find/expand/019", FOLDER),
    ("find/expand/092", FOLDER),
    ("find/expand/093", FOLDER),
    ("find/expand/094", FOLDER),
    ("find/expand/095", FOLDER),
    ("find/expand/096", FOLDER),
    ("find/expand/098", FOLDER),
    ("find/expand/100", FOLDER),
    ("find/expand/101", FOLDER),
    ("fn/fallbackSeries/011", "series of an argument by name are fetched"),
];

/// What one file showed.
pub struct Report {
    /// The file.
    pub name: &'static str,
    /// Cases in it.
    pub cases: usize,
    /// What was wrong, with the id of the case first.
    pub failures: Vec<String>,
    /// What was answered otherwise for a reason: the id of the case and the reason.
    pub explained: Vec<(&'static str, &'static str)>,
}

/// Runs every kind of case of a folder.
pub fn run(folder: &Path) -> Result<Vec<Report>, String> {
    Ok(vec![attime::run(folder)?, find::run(folder)?, render::run(folder)?])
}

impl Report {
    fn new(name: &'static str, cases: usize, failures: Vec<String>) -> Self {
        let reason = |failure: &str| {
            let id = failure.split(':').next().unwrap_or_default();
            EXPLAINED.iter().find(|(own, _)| *own == id).copied()
        };
        let explained = failures.iter().filter_map(|failure| reason(failure)).collect();
        let failures = failures.into_iter().filter(|failure| reason(failure).is_none()).collect();
        Self { name, cases, failures, explained }
    }
}

/// The text of a file, which may be compressed.
fn text(path: &Path) -> Result<String, String> {
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

/// The cases of a file, one a line.
fn cases(path: &Path) -> Result<Vec<Value>, String> {
    let text = text(path)?;
    let case =
        |line: &str| serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()));
    text.lines().filter(|line| !line.is_empty()).map(case).collect()
}

fn string<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}
