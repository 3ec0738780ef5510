//! The files of recorded answers: lines of JSON, compressed with zstd.
//!
//! The first line describes the recording, each further line is a case. `zstd --decompress --stdout FILE`
//! prints them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

/// The level of compression: the files are written rarely and are in every clone.
const LEVEL: i32 = 19;

/// A recording.
pub struct Recording {
    /// The language: `promql`, `logql` or `graphite`.
    pub language: &'static str,
    /// The program that answered, with its version.
    pub original: String,
    /// The seed of the data.
    pub seed: u64,
    /// The cases, in a form that depends on the language.
    pub cases: Vec<Value>,
}

/// Returns the path of the recording of a language.
fn path(language: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("recorded/{language}.jsonl.zst"))
}

/// Returns a digest of generated data.
fn digest(data: &[Vec<u8>]) -> String {
    let parts: Vec<u8> = data.iter().flat_map(|part| xxh3_64(part).to_le_bytes()).collect();
    format!("{:016x}", xxh3_64(&parts))
}

/// Writes a line. What was asked comes first.
fn line(case: &Value) -> String {
    const FIRST: [&str; 4] = ["query", "targets", "parameters", "times"];
    let mut members: Vec<(&String, &Value)> = case.as_object().into_iter().flatten().collect();
    members.sort_by_key(|(name, _)| FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len()));
    let members = members.iter().map(|(name, value)| format!("{}:{value}", json!(name)));
    format!("{{{}}}\n", members.collect::<Vec<_>>().join(","))
}

impl Recording {
    /// Writes the recording with the digest of its data. Returns the size of the file in bytes.
    pub fn write(&self, data: &[Vec<u8>]) -> Result<usize> {
        let Self { language, original, seed, cases } = self;
        let head = json!({"original": original, "seed": seed, "data": digest(data)});
        let lines: Vec<String> = [&head].into_iter().chain(cases).map(line).collect();
        let compressed = zstd::bulk::compress(lines.concat().as_bytes(), LEVEL)?;
        let path = path(language);
        fs::write(&path, &compressed).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(compressed.len())
    }

    /// Reads the recording of a language. `data` generates the data of a seed.
    pub fn read(language: &'static str, data: impl FnOnce(u64) -> Vec<Vec<u8>>) -> Result<Self> {
        let path = path(language);
        let wrong = || format!("cannot read {}", path.display());
        let text = String::from_utf8(zstd::decode_all(fs::File::open(&path).with_context(wrong)?)?)?;
        let mut lines = text.lines().map(serde_json::from_str::<Value>);
        let head = lines.next().with_context(wrong)?.with_context(wrong)?;
        let seed = head["seed"].as_u64().with_context(wrong)?;
        if head["data"] != digest(&data(seed)) {
            bail!(
                "the generated data are not those of the recording: undo the change of their generator, or \
                 record the answers again with `cargo xtask record {language}`"
            );
        }
        let original = head["original"].as_str().unwrap_or_default().to_owned();
        let cases = lines.collect::<Result<Vec<Value>, _>>().with_context(wrong)?;
        Ok(Self { language, original, seed, cases })
    }

    /// Checks each case: `read` reads it, and `difference` asks ours and describes how the answers differ, if
    /// they do. Returns the number of cases and the descriptions.
    pub fn check<C>(
        &self,
        read: impl Fn(&Value) -> Option<C>,
        mut difference: impl FnMut(C) -> Option<String>,
    ) -> Result<(usize, Vec<String>)> {
        let mut wrong = Vec::new();
        for case in &self.cases {
            wrong.extend(difference(read(case).with_context(|| format!("not a case: {case}"))?));
        }
        Ok((self.cases.len(), wrong))
    }
}
