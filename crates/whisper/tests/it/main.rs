//! Reads files that whisper 1.1.10 and go-carbon's whisper wrote, and damaged ones.

#![allow(clippy::unwrap_used)] // tests fail that way

mod damage;
mod originals;

use std::path::PathBuf;

/// Reads a file of the fixtures.
fn fixture(writer: &str, name: &str) -> Vec<u8> {
    let path = folder(writer).join(format!("{name}.wsp"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder(writer: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(writer)
}

/// The names of all fixtures, by writer.
const FIXTURES: &[(&str, &[&str])] = &[
    ("python", &["absmax", "absmin", "average", "empty", "ended", "paused", "single", "sum"]),
    ("go", &["compressed", "converted", "gaps", "go", "mix"]),
];
